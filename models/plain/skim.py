"""Skim-LSTM, one word at a time (Seo et al., ICLR 2018).

The parts of its weights: `large.*` and `small.*` as in `models.plain.lstm`, and the decision's `W_p`, `b_p` over
[x_t; h_{t-1}].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, part, zero_state
from models.plain.lstm import step


@dataclass(frozen=True)
class SkimReading:
    """A document after every word.

    Attributes:
        h: `(time, hidden)`.
        c: `(time, hidden)`.
        logits: `(time, classes)`.
        probabilities: p, to read fully and to skim, `(time, 2)`.
        shares: of the large and the small cell, `(time, 2)`; 0 or 1 where no noise is given.
    """

    h: Tensor
    c: Tensor
    logits: Tensor
    probabilities: Tensor
    shares: Tensor


def read(
    weights: Weights, words: Tensor, noise: Tensor | None = None, temperature: float = 0.5
) -> SkimReading:
    """Read a document.

    Args:
        weights: see the module.
        words: `(time, input)`.
        noise: Gumbel noise `(time, 2)`, to blend as in training; None: decide, and a tie reads fully.
        temperature: of the blend.
    """
    large, small = part(weights, "large"), part(weights, "small")
    units = len(zero_state(small))
    h = c = zero_state(large)
    read_so_far = []
    for t, x in enumerate(words):
        p = torch.softmax(weights["W_p"] @ torch.cat([x, h]) + weights["b_p"], dim=0)
        if noise is None:
            skim = (p[1] > p[0]).to(p.dtype)
            shares = torch.stack([1 - skim, skim])
        else:
            shares = torch.softmax((torch.log(p) + noise[t]) / temperature, dim=0)
        h_large, c_large = step(large, x, h, c)
        h_small, c_small = step(small, x, h[:units], c[:units])
        h = shares[0] * h_large + shares[1] * torch.cat([h_small, h[units:]])
        c = shares[0] * c_large + shares[1] * torch.cat([c_small, c[units:]])
        read_so_far.append((h, c, classify(weights, h), p, shares))
    return SkimReading(*(torch.stack(column) for column in zip(*read_so_far, strict=True)))
