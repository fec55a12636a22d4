"""CLSTM, the cached LSTM: memory groups that forget at different rates (Xu et al., EMNLP 2016, equations 8-13, 15).

Every group k of K runs at every word and listens to all groups; its forgetting rate stays in ((k-1)/K, k/K), so
group 1 is the slowest and the faster ones are its cache:

    r^k_t = σ(W_r x_t + U_r h_{t-1} + b_r) / K + (k-1)/K                                        (8), (13)
    o_t = σ(W_o x_t + U_o h_{t-1} + b_o)            g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)      (9), (10)
    c_t = (1 - r_t) ⊙ c_{t-1} + r_t ⊙ g_t           h_t = o_t ⊙ tanh(c_t)                        (11), (12)

The classifier reads h_T of group 1, or of both directions' groups 1 (B-CLSTM). The authors' published code reads the
mean of all groups over all words, which is `readout = "mean_all"`; of both directions it reads a projection, which is
not here: B-CLSTM's means go to the classifier side by side. The paper prints no biases; ours start at zero.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import Trace, WordSource, source_shape
from models.architectures.mtlstm import group_sizes
from models.architectures.recurrent import Recurrent, RecurrentConfig


class CLSTMConfig(RecurrentConfig):
    """Options of CLSTM; the defaults are the paper's for IMDB, but for the dropout, of which it says nothing."""

    architecture: Literal["clstm"] = "clstm"
    hidden: int = Field(120, ge=1)  # units of each direction
    groups: int = Field(3, ge=1)
    readout: Literal["slowest", "mean_all"] = "slowest"


class CLSTM(Recurrent):
    """One CLSTM layer and a linear classifier.

    Raises:
        ConfigError: more groups than units.
    """

    def __init__(self, config: CLSTMConfig, embedding: WordSource, classes: int) -> None:
        sizes = group_sizes(config.hidden, config.groups)  # slowest first
        slowest = config.readout == "slowest"
        super().__init__(
            config,
            embedding,
            classes,
            partial(CLSTMCell, source_shape(embedding)[1], sizes),
            read_units=sizes[0] if slowest else None,
            readout="last" if slowest else "mean",
        )
        self.sizes = sizes

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`, with the forgetting rates of the forward direction."""
        x = self.embed(token_ids, lengths)
        states, rates = self.cell(x)
        means = torch.stack([group.mean(dim=-1) for group in rates.split(self.sizes, dim=-1)], dim=-1)
        return Trace(self.logits_per_word(states, x, lengths), forgetting_rates=means)


class CLSTMCell(nn.Module):
    """A layer of such units; gates packed r, o, g.

    Args:
        input_size: features of a word.
        sizes: units of each group, slowest first.
    """

    group: Tensor  # k - 1 of every unit, (hidden,)

    def __init__(self, input_size: int, sizes: list[int]) -> None:
        super().__init__()
        self.sizes, self.hidden_size = sizes, sum(sizes)
        self.inputs = nn.Linear(input_size, 3 * self.hidden_size)
        self.recurrent = nn.Linear(self.hidden_size, 3 * self.hidden_size, bias=False)
        group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        self.register_buffer("group", group, persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Words `(batch, time, input)` -> h and forgetting rates after each, `(batch, time, hidden)`."""
        h = c = x.new_zeros(len(x), self.hidden_size)
        hs, rates = [], []
        for projected in self.inputs(x).unbind(1):
            z, o, g = (projected + self.recurrent(h)).chunk(3, dim=-1)
            rate = (torch.sigmoid(z) + self.group) / len(self.sizes)
            c = torch.lerp(c, torch.tanh(g), rate)
            h = torch.sigmoid(o) * torch.tanh(c)
            hs.append(h)
            rates.append(rate)
        return torch.stack(hs, dim=1), torch.stack(rates, dim=1)
