"""The bag of words: y = W_y a(pool of x_1 … x_t) + b_y, a being nothing or tanh."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from models.plain.gates import Weights, classify


def read(
    weights: Weights, words: Tensor, pooling: Literal["mean", "sum"], activation: Literal["none", "tanh"]
) -> Tensor:
    """Class logits after every word of a document `(time, input)`, `(time, classes)`."""
    pools = [words[:t].mean(dim=0) if pooling == "mean" else words[:t].sum(dim=0) for t in _counts(words)]
    pooled = torch.stack(pools)
    return classify(weights, torch.tanh(pooled) if activation == "tanh" else pooled)


def _counts(words: Tensor) -> range:
    return range(1, len(words) + 1)
