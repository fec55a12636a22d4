"""CLSTM, one word at a time (Xu et al., EMNLP 2016, equations 8-13), group 1 first and slowest.

    r = σ(W_r x + U_r h' + b_r) / K + (k-1)/K      o = σ(W_o x + U_o h' + b_o)
    c = (1 - r) ⊙ c' + r ⊙ tanh(W_c x + U_c h' + b_c)      h = o ⊙ tanh(c)

The classifier reads group 1, or the mean of all groups over the words so far, as the authors' published code does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, gate_sum, zero_state

Readout = Literal["slowest", "mean_all"]


@dataclass(frozen=True)
class Reading:
    """A document after every word: h, c and forgetting rates r `(time, hidden)`, logits `(time, classes)`."""

    h: Tensor
    c: Tensor
    r: Tensor
    logits: Tensor


def read(weights: Weights, words: Tensor, sizes: Sequence[int], readout: Readout = "slowest") -> Reading:
    """Read a document, `(time, input)`, with groups of the given sizes."""
    hs, cs, rs = states(weights, words, sizes)
    return Reading(hs, cs, rs, classify(weights, read_out(hs, sizes, readout)))


def states(weights: Weights, words: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """h, c and r after every word of a document, each `(time, hidden)`."""
    group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))  # (hidden,), from 0
    h = c = zero_state(weights)
    hs, cs, rs = [], [], []
    for x in words:
        r = (torch.sigmoid(gate_sum(weights, "r", x, h)) + group) / len(sizes)
        o = torch.sigmoid(gate_sum(weights, "o", x, h))
        c = (1 - r) * c + r * torch.tanh(gate_sum(weights, "c", x, h))
        h = o * torch.tanh(c)
        hs.append(h)
        cs.append(c)
        rs.append(r)
    return torch.stack(hs), torch.stack(cs), torch.stack(rs)


def read_out(hs: Tensor, sizes: Sequence[int], readout: Readout) -> Tensor:
    """What the classifier reads after every word, `(time, units)`."""
    if readout == "slowest":
        return hs[:, : sizes[0]]
    return torch.stack([hs[: t + 1].mean(dim=0) for t in range(len(hs))])
