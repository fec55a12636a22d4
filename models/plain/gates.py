"""What the plain cells share: named weights, and one gate's sum.

The plain cells are the papers' equations as they are printed, one document and one word at a time, in whatever
precision the weights have. They are slow, and they judge `models.architectures`.

Weights have the papers' names, `W_i`, `U_i`, `V_i`, `b_i` for the input gate, likewise f, o and c (the candidate),
and `W_y`, `b_y` for the classifier. Matrices are `(out, in)`; one that is absent leaves its term out.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


def gate_sum(weights: Weights, gate: str, x: Tensor, h: Tensor, c: Tensor | None = None) -> Tensor:
    """W x + U h + V c + b of one gate, `(hidden,)`; V may be a matrix, or a vector for peepholes."""
    total = weights[f"W_{gate}"] @ x + weights[f"U_{gate}"] @ h
    if c is not None and f"V_{gate}" in weights:
        v = weights[f"V_{gate}"]
        total = total + (v @ c if v.ndim == 2 else v * c)
    return total + weights[f"b_{gate}"] if f"b_{gate}" in weights else total


def classify(weights: Weights, h: Tensor) -> Tensor:
    """Class logits `(…, classes)` of states `(…, hidden)`."""
    return h @ weights["W_y"].T + weights["b_y"]


def part(weights: Weights, name: str) -> Weights:
    """The weights of one part of a model: those called `name.*`, without that prefix."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}


def zero_state(weights: Weights) -> Tensor:
    """The state before the first word, `(hidden,)`."""
    return torch.zeros_like(weights["U_o"][:, 0])
