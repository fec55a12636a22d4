"""CIFG-LSTM, one word at a time (Xu et al., EMNLP 2016, equations 2-4, 6, 7).

f = σ(W_f x + U_f h' + b_f)      o = σ(W_o x + U_o h' + b_o)
c = f ⊙ c' + (1 - f) ⊙ tanh(W_c x + U_c h' + b_c)      h = o ⊙ tanh(c)
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, gate_sum, zero_state
from models.plain.lstm import Reading


def read(weights: Weights, words: Tensor) -> Reading:
    """Read a document, `(time, input)`."""
    hs, cs = states(weights, words)
    return Reading(hs, cs, classify(weights, hs))


def states(weights: Weights, words: Tensor) -> tuple[Tensor, Tensor]:
    """h and c after every word of a document, each `(time, hidden)`."""
    h = c = zero_state(weights)
    hs, cs = [], []
    for x in words:
        f = torch.sigmoid(gate_sum(weights, "f", x, h))
        o = torch.sigmoid(gate_sum(weights, "o", x, h))
        c = f * c + (1 - f) * torch.tanh(gate_sum(weights, "c", x, h))
        h = o * torch.tanh(c)
        hs.append(h)
        cs.append(c)
    return torch.stack(hs), torch.stack(cs)
