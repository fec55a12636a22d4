"""MT-LSTM with dense matrices and masks (Liu et al., EMNLP 2015, equations 8-15).

At word t, from 1, all units are computed from the states at t - 1; those of the groups k with t mod 2^(k-1) = 0 take
their new values, the others hold theirs. U and V connect group j to group k only where the strategy lets k listen
to j. The classifier reads all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, zero_state
from models.plain.lstm import Reading, step


def read(
    weights: Weights, words: Tensor, sizes: Sequence[int], strategy: Literal["fast_to_slow", "slow_to_fast"]
) -> Reading:
    """Read a document.

    Args:
        weights: matrices over all units, `(hidden, …)`, the fastest group's units first.
        words: `(time, input)`.
        sizes: units of each group.
        strategy: which groups listen to which.
    """
    group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))  # (hidden,), from 0
    connected = connections(group, strategy)
    masked = {name: w * connected if name[:2] in ("U_", "V_") else w for name, w in weights.items()}
    h = c = zero_state(weights)
    hs, cs = [], []
    for t, x in enumerate(words, start=1):
        h_new, c_new = step(masked, x, h, c, output_gate_cell="previous")
        active = t % 2**group == 0
        h, c = torch.where(active, h_new, h), torch.where(active, c_new, c)
        hs.append(h)
        cs.append(c)
    return Reading(torch.stack(hs), torch.stack(cs), classify(weights, torch.stack(hs)))


def connections(group: Tensor, strategy: Literal["fast_to_slow", "slow_to_fast"]) -> Tensor:
    """Bool `(hidden, hidden)`: whether a unit (row) listens to a unit (column), from each unit's group."""
    target, source = group.unsqueeze(1), group.unsqueeze(0)
    return source <= target if strategy == "fast_to_slow" else source >= target
