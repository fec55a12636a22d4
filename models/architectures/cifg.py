"""CIFG-LSTM: an LSTM whose input and forget gates are one (Xu et al., EMNLP 2016, equations 2-4, 6, 7).

    f_t = σ(W_f x_t + U_f h_{t-1} + b_f)          o_t = σ(W_o x_t + U_o h_{t-1} + b_o)          (2), (3)
    g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)                                                     (4)
    c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ g_t         h_t = o_t ⊙ tanh(c_t)                         (7), (6)

f is what is kept. Classifier on h_T, or on both directions' ends (CIFG-BLSTM). The paper prints no biases; ours start
at zero.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from models.architectures.base import WordSource, source_shape
from models.architectures.recurrent import Recurrent, RecurrentConfig


class CIFGConfig(RecurrentConfig):
    """Options of CIFG-LSTM."""

    architecture: Literal["cifg_lstm"] = "cifg_lstm"


class CIFG(Recurrent):
    """One CIFG-LSTM layer, read out at the last word."""

    def __init__(self, config: CIFGConfig, embedding: WordSource, classes: int) -> None:
        super().__init__(
            config, embedding, classes, partial(CIFGCell, source_shape(embedding)[1], config.hidden)
        )


class CIFGCell(nn.Module):
    """A layer of such units; gates packed f, o, g."""

    def __init__(self, input_size: int, hidden: int) -> None:
        super().__init__()
        self.hidden_size = hidden
        self.inputs = nn.Linear(input_size, 3 * hidden)
        self.recurrent = nn.Linear(hidden, 3 * hidden, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Words `(batch, time, input)` -> h and c after each, `(batch, time, hidden)`."""
        h = c = x.new_zeros(len(x), self.hidden_size)
        hs, cs = [], []
        for projected in self.inputs(x).unbind(1):
            f, o, g = (projected + self.recurrent(h)).chunk(3, dim=-1)
            c = torch.lerp(torch.tanh(g), c, torch.sigmoid(f))
            h = torch.sigmoid(o) * torch.tanh(c)
            hs.append(h)
            cs.append(c)
        return torch.stack(hs, dim=1), torch.stack(cs, dim=1)
