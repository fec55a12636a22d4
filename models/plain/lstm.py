"""The LSTM with cell-to-gate weights V (Liu et al., EMNLP 2015, equations 2-7).

    i = σ(W_i x + U_i h' + V_i c' + b_i)     f = σ(W_f x + U_f h' + V_f c' + b_f)      (2), (3)
    c = f ⊙ c' + i ⊙ tanh(W_c x + U_c h' + b_c)                                         (5), (6)
    o = σ(W_o x + U_o h' + V_o c + b_o)      h = o ⊙ tanh(c)                            (4), (7)

Equation 10 of the same paper lets the output gate read the previous cell c' instead. V is a matrix as printed, a
vector for peepholes (Graves 2013), or absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, gate_sum, zero_state

OutputGateCell = Literal["new", "previous"]


@dataclass(frozen=True)
class Reading:
    """A document after every word: h and c `(time, hidden)`, logits `(time, classes)`."""

    h: Tensor
    c: Tensor
    logits: Tensor


def step(
    weights: Weights, x: Tensor, h: Tensor, c: Tensor, output_gate_cell: OutputGateCell = "new"
) -> tuple[Tensor, Tensor]:
    """One word: x `(input,)` and h, c `(hidden,)` -> the next h, c."""
    i = torch.sigmoid(gate_sum(weights, "i", x, h, c))
    f = torch.sigmoid(gate_sum(weights, "f", x, h, c))
    c_new = f * c + i * torch.tanh(gate_sum(weights, "c", x, h))
    seen = c_new if output_gate_cell == "new" else c
    o = torch.sigmoid(gate_sum(weights, "o", x, h, seen))
    return o * torch.tanh(c_new), c_new


def states(
    weights: Weights, words: Tensor, output_gate_cell: OutputGateCell = "new"
) -> tuple[Tensor, Tensor]:
    """h and c after every word of a document `(time, input)`, each `(time, hidden)`."""
    h = c = zero_state(weights)
    hs, cs = [], []
    for x in words:
        h, c = step(weights, x, h, c, output_gate_cell)
        hs.append(h)
        cs.append(c)
    return torch.stack(hs), torch.stack(cs)


def read(weights: Weights, words: Tensor, output_gate_cell: OutputGateCell = "new") -> Reading:
    """Read a document, `(time, input)`."""
    hs, cs = states(weights, words, output_gate_cell)
    return Reading(hs, cs, classify(weights, hs))
