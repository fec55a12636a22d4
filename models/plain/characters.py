"""The features of a word's characters, one window of three at a time (Ma et al., EMNLP 2020, section 4).

Weights: `E` `(symbols, size)`, a vector per symbol; the filters `F` `(filters, 3, size)` with `b`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.plain.gates import Weights


def features(weights: Weights, symbols: Sequence[int]) -> Tensor:
    """The features `(filters,)` of a word of at least one symbol."""
    vectors = torch.cat([weights["E"].new_zeros(2, weights["E"].shape[1]), weights["E"][list(symbols)]])
    found = [
        torch.relu((weights["F"] * vectors[i : i + 3]).sum(dim=(1, 2)) + weights["b"])
        for i in range(len(symbols))
    ]
    return torch.stack(found).amax(dim=0)
