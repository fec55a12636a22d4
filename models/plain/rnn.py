"""The simple recurrent network (Elman, 1991), one word at a time: h = tanh(W_h x + U_h h' + b_h)."""

from __future__ import annotations

import torch
from torch import Tensor

from models.plain.gates import Weights, gate_sum


def states(weights: Weights, words: Tensor) -> Tensor:
    """h after every word of a document `(time, input)`, `(time, hidden)`."""
    h = torch.zeros_like(weights["U_h"][:, 0])
    hs = []
    for x in words:
        h = torch.tanh(gate_sum(weights, "h", x, h))
        hs.append(h)
    return torch.stack(hs)
