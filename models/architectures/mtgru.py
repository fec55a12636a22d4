"""MTGRU: a gated recurrent unit with a timescale (Moirangthem and Lee, ESWA 2021, equation 1).

    r_t = σ(W_r x_t + U_r h_{t-1} + b_r)          z_t = σ(W_z x_t + U_z h_{t-1} + b_z)
    u_t = tanh(W_u x_t + U_u (r_t ⊙ h_{t-1}) + b_u)
    h̃_t = z_t ⊙ h_{t-1} + (1 - z_t) ⊙ u_t         h_t = h̃_t / τ + (1 - 1/τ) h_{t-1}

so h_t = h_{t-1} + (1 - z_t)(u_t - h_{t-1}) / τ. One τ for the layer, at least 1, learns at a rate of its own: the
larger, the slower the state. At τ = 1 this is the GRU, its reset before the product with U_u.

The paper prints no biases. The authors' published cell has them (`bias = true`), names 1/τ what learns
(`timescale = "inverse"`) and begins with orthogonal U (`orthogonal = true`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import WordSource, source_shape
from models.architectures.recurrent import Recurrent, RecurrentConfig

Timescale = Literal["tau", "inverse"]


class TimescaleConfig(RecurrentConfig):
    """Options of layers with a timescale."""

    bias: bool = False
    timescale: Timescale = "tau"  # what learns: τ, or 1/τ
    tau_learning_rate: float = Field(1e-5, ge=0)
    orthogonal: bool = False  # U begins orthogonal, else as all weights


class MTGRUConfig(TimescaleConfig):
    """Options of MTGRU."""

    architecture: Literal["mtgru"] = "mtgru"
    hidden: int = Field(256, ge=1)
    tau: float = Field(1.0, ge=1)  # at the start


class TimescaleModel(Recurrent):
    """What models of such layers share: how their timescales learn; arguments as for `Recurrent`."""

    config: TimescaleConfig

    def own_learning_rates(self) -> dict[nn.Parameter, float]:
        """See `Architecture.own_learning_rates`: the timescales'."""
        rate = self.config.tau_learning_rate
        return {cell.timescale: rate for cell in self._cells() if cell.timescale is not None}

    def constrain(self) -> None:
        """See `Architecture.constrain`: no τ below 1."""
        for cell in self._cells():
            cell.constrain()

    def start(self, config: TimescaleConfig) -> None:
        """Put the timescales where they begin, and draw every U anew where it is to be orthogonal."""
        self.config = config
        for cell in self._cells():
            cell.start()
            if config.orthogonal:
                for block in cell.recurrent.weight.data.chunk(3):
                    nn.init.orthogonal_(block)

    def _cells(self) -> list[MTGRUCell]:
        return [module for module in self.modules() if isinstance(module, MTGRUCell)]


class MTGRU(TimescaleModel):
    """One MTGRU layer, read out at the last word."""

    def __init__(self, config: MTGRUConfig, embedding: WordSource, classes: int) -> None:
        width = source_shape(embedding)[1]
        make_cell = partial(MTGRUCell, width, config.hidden, config.bias, config.tau, config.timescale)
        super().__init__(config, embedding, classes, make_cell)
        self.start(config)


class MTGRUCell(nn.Module):
    """A layer of such units; gates packed r, z, u.

    Args:
        input_size: features of a word.
        hidden: its units.
        bias: whether the gates have biases.
        tau: τ at the start; None: the GRU, whose τ stays 1.
        timescale: what learns.
    """

    def __init__(
        self, input_size: int, hidden: int, bias: bool, tau: float | None = None, timescale: Timescale = "tau"
    ) -> None:
        super().__init__()
        self.hidden_size, self.kind = hidden, timescale
        self.inputs = nn.Linear(input_size, 3 * hidden, bias)
        self.recurrent = nn.Linear(hidden, 3 * hidden, bias=False)
        self.first_tau = tau
        self.timescale = None if tau is None else nn.Parameter(torch.tensor(tau))
        self.start()

    @torch.no_grad()
    def start(self) -> None:
        """Put τ where it begins."""
        if self.timescale is not None and self.first_tau is not None:
            self.timescale.fill_(self.first_tau if self.kind == "tau" else 1 / self.first_tau)

    @property
    def pace(self) -> Tensor | None:
        """1/τ, the share of the GRU's step that is taken; None for the GRU."""
        if self.timescale is None:
            return None
        return self.timescale if self.kind == "inverse" else 1 / self.timescale

    @torch.no_grad()
    def constrain(self) -> None:
        """Bring τ back to at least 1; 1/τ also stays above zero, where nothing would be read any more."""
        if self.timescale is not None and self.kind == "tau":
            self.timescale.clamp_(min=1.0)
        elif self.timescale is not None:
            self.timescale.clamp_(min=1e-3, max=1.0)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Words `(batch, time, input)` -> h after each, `(batch, time, hidden)`."""
        h = x.new_zeros(len(x), self.hidden_size)
        sizes = [2 * self.hidden_size, self.hidden_size]
        u_gates, u_candidate = torch.split(self.recurrent.weight.T, sizes, dim=1)
        pace, states = self.pace, []
        for projected in self.inputs(x).unbind(1):
            gates, candidate = torch.split(projected, sizes, dim=-1)
            r, z = torch.sigmoid(torch.addmm(gates, h, u_gates)).chunk(2, dim=-1)
            u = torch.tanh(torch.addmm(candidate, r * h, u_candidate))
            step = (1 - z) * (u - h)
            h = h + (step if pace is None else step * pace)
            states.append(h)
        return (torch.stack(states, dim=1),)
