"""LSTM-Jump, one word at a time (Yu, Lee, Le, ACL 2017), with the most probable jumps.

Weights are those of `models.plain.lstm` with `W_j` `(K + 1, hidden)` and `b_j` `(K + 1,)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, zero_state
from models.plain.lstm import step


@dataclass(frozen=True)
class JumpReading:
    """A document after every word: h `(time, hidden)`, logits `(time, classes)`, what was read, bool `(time,)`."""

    h: Tensor
    logits: Tensor
    read: Tensor


def read(weights: Weights, words: Tensor, run: int, jumps: int) -> JumpReading:
    """Read a document.

    Args:
        weights: see the module.
        words: `(time, input)`.
        run: R, words read before a jump.
        jumps: N, the largest number of jumps.
    """
    h = c = zero_state(weights)
    next_word = jumped = in_run = 0
    states, reads = [], []
    for t, x in enumerate(words):
        reads.append(t == next_word)
        if t == next_word:
            h, c = step(weights, x, h, c)
            in_run, next_word = in_run + 1, t + 1
        if in_run == run:
            jump = int(torch.argmax(weights["W_j"] @ h + weights["b_j"])) if jumped < jumps else 0
            next_word = t + jump if jump else len(words)
            in_run, jumped = 0, jumped + 1
        states.append(h)
    hs = torch.stack(states)
    return JumpReading(hs, classify(weights, hs), torch.tensor(reads))
