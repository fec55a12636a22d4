"""The self-attentive LSTM (Lin et al., ICLR 2017): attention over the states of the first t words, one t at a time.

Weights: the directions `forward.*` and `backward.*` as in `models.plain.lstm`, `W_s1` `(k, 2 hidden)`, `W_s2`
`(hops, k)`, the layer `W_m`, `b_m` and the classifier `W_y`, `b_y`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain import lstm
from models.plain.gates import Weights, classify, part


@dataclass(frozen=True)
class Reading:
    """A document: the attention of each hop to its words `(time, hops)`, and logits after each `(time, classes)`."""

    attention: Tensor
    logits: Tensor


def read(weights: Weights, words: Tensor) -> Reading:
    """Read a document `(time, input)`."""
    forward, _ = lstm.states(part(weights, "forward"), words)
    backward, _ = lstm.states(part(weights, "backward"), words.flip(0))
    states = torch.cat([forward, backward.flip(0)], dim=1)  # H
    scores = torch.tanh(states @ weights["W_s1"].T) @ weights["W_s2"].T
    logits = []
    for t in range(1, len(words) + 1):
        pooled = torch.softmax(scores[:t], dim=0).T @ states[:t]  # M, (hops, 2 hidden)
        hidden = torch.relu(weights["W_m"] @ pooled.flatten() + weights["b_m"])
        logits.append(classify(weights, hidden))
    return Reading(torch.softmax(scores, dim=0), torch.stack(logits))
