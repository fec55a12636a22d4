"""Any plain cell in both directions: the classifier reads [→h_t; ←h_1] at word t, and so [→h_T; ←h_1] in the end.

The weights of the directions are the parts `forward.*` and `backward.*`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, part


@dataclass(frozen=True)
class Reading:
    """A document in both directions.

    Attributes:
        forward: what the classifier reads of the forward direction after every word, `(time, units)`.
        backward: what it reads of the backward direction, which has read the whole text, `(units,)`.
        logits: `(time, classes)`.
    """

    forward: Tensor
    backward: Tensor
    logits: Tensor


def read(weights: Weights, words: Tensor, states: Callable[[Weights, Tensor], Tensor]) -> Reading:
    """Read a document.

    Args:
        weights: see the module.
        words: `(time, input)`.
        states: reads words with one direction's weights and gives what the classifier reads, `(time, units)`.
    """
    forward = states(part(weights, "forward"), words)
    backward = states(part(weights, "backward"), words.flip(0))[-1]
    logits = classify(weights, torch.cat([forward, backward.expand_as(forward)], dim=1))
    return Reading(forward, backward, logits)
