"""MTGRU and HL-MTGRU, one word at a time (Moirangthem and Lee, ESWA 2021, equations 1, 2).

Weights have the paper's names: `W_xr`, `W_hr` for the reset gate and in the slow layer `W_vr`; z and u likewise.
`b_r` … are not in the paper; absent ones leave their term out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, part


@dataclass(frozen=True)
class Layer:
    """What a layer does at every word: gates, candidates and state, each `(time, hidden)`."""

    r: Tensor
    z: Tensor
    u: Tensor
    h_tilde: Tensor
    h: Tensor


@dataclass(frozen=True)
class Reading:
    """A document in both layers, and the class logits `(time, classes)`."""

    fast: Layer
    slow: Layer
    logits: Tensor


def layer(weights: Weights, words: Tensor, tau: float, heard: Tensor | None = None) -> Layer:
    """Equation 1, or with `heard` 2.

    Args:
        weights: of the layer.
        words: `(time, input)`.
        tau: τ.
        heard: v, the fast layer's states `(time, fast)`.
    """
    h = torch.zeros_like(weights["W_hr"][:, 0])
    steps = []
    for t, x in enumerate(words):
        v = None if heard is None else heard[t]
        r = torch.sigmoid(_sum(weights, "r", x, v, h))
        z = torch.sigmoid(_sum(weights, "z", x, v, h))
        u = torch.tanh(_sum(weights, "u", x, v, r * h))
        h_tilde = z * h + (1 - z) * u
        h = h_tilde * (1 / tau) + (1 - 1 / tau) * h
        steps.append((r, z, u, h_tilde, h))
    return Layer(*(torch.stack(values) for values in zip(*steps, strict=True)))


def read_hierarchical(weights: Weights, words: Tensor, tau_fast: float, tau_slow: float) -> Reading:
    """HL-MTGRU; its layers' weights are the parts `fast.*` and `slow.*`."""
    fast = layer(part(weights, "fast"), words, tau_fast)
    slow = layer(part(weights, "slow"), words, tau_slow, fast.h)
    return Reading(fast, slow, classify(weights, torch.cat([fast.h, slow.h], dim=1)))


def _sum(weights: Weights, gate: str, x: Tensor, v: Tensor | None, h: Tensor) -> Tensor:
    total = weights[f"W_x{gate}"] @ x + weights[f"W_h{gate}"] @ h
    if v is not None:
        total = total + weights[f"W_v{gate}"] @ v
    return total + weights[f"b_{gate}"] if f"b_{gate}" in weights else total
