"""The LSTM cell of the models that decide word by word whether and how to read.

i, f, o = σ(W x_t + U h_{t-1} + b)    g = tanh(W x_t + U h_{t-1} + b)
c_t = f ⊙ c_{t-1} + i ⊙ g             h_t = o ⊙ tanh(c_t)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ReadingCell(nn.Module):
    """An LSTM cell with its input product taken for all words at once; gates packed i, f, g, o."""

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.project = nn.Linear(input_size, 4 * hidden)
        self.recurrent = nn.Linear(hidden, 4 * hidden, bias=False)

    def step(self, projected: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One word: `(batch, 4 hidden)`, and h, c `(batch, hidden)` -> the next h, c."""
        i, f, g, o = (projected + self.recurrent(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
