"""The gated recurrent unit (Cho et al., EMNLP 2014), the baseline of the HL-MTGRU paper.

Equation 1 of `mtgru` at τ = 1: h_t = z_t ⊙ h_{t-1} + (1 - z_t) ⊙ u_t, the reset gate before the product. PyTorch's
own GRU takes it after the product, which is another function. Classifier on h_T, or on both directions' ends.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field

from models.architectures.base import WordSource, source_shape
from models.architectures.mtgru import MTGRUCell
from models.architectures.recurrent import Recurrent, RecurrentConfig


class GRUConfig(RecurrentConfig):
    """Options of the GRU; its size is the HL-MTGRU paper's."""

    architecture: Literal["gru"] = "gru"
    hidden: int = Field(256, ge=1)  # units of each direction
    bias: bool = True


class GRU(Recurrent):
    """One GRU layer, read out at the last word."""

    def __init__(self, config: GRUConfig, embedding: WordSource, classes: int) -> None:
        make_cell = partial(MTGRUCell, source_shape(embedding)[1], config.hidden, config.bias)
        super().__init__(config, embedding, classes, make_cell)
