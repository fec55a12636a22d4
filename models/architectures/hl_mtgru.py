"""HL-MTGRU: a fast and a slow MTGRU layer, both on the words (Moirangthem and Lee, ESWA 2021, equations 1, 2).

The fast layer is `mtgru` (1). The slow one also listens to the fast one's new state v_t = h^fast_t:

    r_t = σ(W_r x_t + V_r v_t + U_r h_{t-1} + b_r)          z_t = σ(W_z x_t + V_z v_t + U_z h_{t-1} + b_z)
    u_t = tanh(W_u x_t + V_u v_t + U_u (r_t ⊙ h_{t-1}) + b_u)                                        (2)
    h_t = h_{t-1} + (1 - z_t)(u_t - h_{t-1}) / τ

Each layer learns its own τ from 1 on; the paper's ended at 1.06 (fast) and 1.22 (slow). The classifier reads
[h^fast_T; h^slow_T], so every logit is the sum of what either half adds and the bias.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import Trace, WordSource, source_shape
from models.architectures.mtgru import MTGRUCell, TimescaleConfig, TimescaleModel
from models.errors import ConfigError


class HLMTGRUConfig(TimescaleConfig):
    """Options of HL-MTGRU; the defaults are the paper's."""

    architecture: Literal["hl_mtgru"] = "hl_mtgru"
    hidden: int = Field(256, ge=2)  # fast and slow units together
    slow_units: int | None = Field(None, ge=1)  # of these; none: half
    bidirectional: Literal[False] = False
    tau_fast: float = Field(1.0, ge=1)  # at the start
    tau_slow: float = Field(1.0, ge=1)


class HLMTGRU(TimescaleModel):
    """The two layers, read out at the last word.

    Raises:
        ConfigError: no fast unit left beside the slow ones.
    """

    def __init__(self, config: HLMTGRUConfig, embedding: WordSource, classes: int) -> None:
        width = source_shape(embedding)[1]
        super().__init__(config, embedding, classes, partial(FastAndSlow, width, config))
        self.start(config)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`, with what each half adds to the logits."""
        x = self.embed(token_ids, lengths)
        (states,) = self.cell(x)
        return Trace(self.logits_per_word(states, x, lengths), half_logits=self.half_logits(states))

    def half_logits(self, states: Tensor) -> Tensor:
        """What the fast and the slow units add to each logit, `(batch, time, 2, classes)`."""
        assert isinstance(self.cell, FastAndSlow)
        halves = zip(
            torch.split(states, self.cell.sizes, dim=-1),
            torch.split(self.classifier.weight, self.cell.sizes, dim=1),
            strict=True,
        )
        return torch.stack([half @ weight.T for half, weight in halves], dim=2)


class FastAndSlow(nn.Module):
    """The two layers; arguments as for `MTGRUCell`."""

    def __init__(self, input_size: int, config: HLMTGRUConfig) -> None:
        super().__init__()
        slow = config.slow_units or config.hidden // 2
        if slow >= config.hidden:
            raise ConfigError(f"expected fewer slow units than the {config.hidden} hidden ones, found {slow}")
        self.sizes = [config.hidden - slow, slow]
        self.hidden_size = config.hidden
        options = config.bias, config.tau_fast, config.timescale
        self.fast = MTGRUCell(input_size, self.sizes[0], *options)
        options = config.bias, config.tau_slow, config.timescale
        self.slow = MTGRUCell(input_size + self.sizes[0], slow, *options)  # reads [x; v]
        self.dropout = nn.Dropout(config.dropout)  # on what the slow layer hears; the readout has its own

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Words `(batch, time, input)` -> [h^fast; h^slow] after each, `(batch, time, hidden)`."""
        (fast,) = self.fast(x)
        (slow,) = self.slow(torch.cat([x, self.dropout(fast)], dim=-1))
        return (torch.cat([fast, slow], dim=-1),)
