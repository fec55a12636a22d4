"""Skip LSTM, one word at a time (Campos et al., ICLR 2018).

Weights are those of `models.plain.lstm` with `W_p` `(1, hidden)` and `b_p` `(1,)`, which give the increment from the
cell state, and where it is trained the state before the first word, `h_0` and `c_0` `(hidden,)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, zero_state
from models.plain.lstm import step


@dataclass(frozen=True)
class SkipReading:
    """A document after every word.

    Attributes:
        h: `(time, hidden)`.
        c: `(time, hidden)`.
        logits: `(time, classes)`.
        probability: ũ, to read the word, `(time,)`.
        update: u, 1 where it is read, else 0, `(time,)`.
    """

    h: Tensor
    c: Tensor
    logits: Tensor
    probability: Tensor
    update: Tensor


def read(weights: Weights, words: Tensor) -> SkipReading:
    """Read a document, `(time, input)`."""
    h, c = (weights.get(name, zero_state(weights)) for name in ("h_0", "c_0"))
    probability = torch.ones_like(weights["b_p"][0])
    read_so_far = []
    for x in words:
        update, told = torch.round(probability), probability
        if update == 1:
            h, c = step(weights, x, h, c)
            increment = torch.sigmoid(weights["W_p"][0] @ c + weights["b_p"][0])
            probability = increment
        else:
            probability = probability + torch.minimum(increment, 1 - probability)
        read_so_far.append((h, c, classify(weights, h), told, update))
    return SkipReading(*(torch.stack(column) for column in zip(*read_so_far, strict=True)))
