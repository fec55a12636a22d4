"""MODE-LSTM, ODE-LSTM and the disconnected LSTM (Ma et al., EMNLP 2020, equations 4-13).

A window of S words is read from a zero state by K small states h^1 … h^K that never see each other. With p units
each, k = 1 … K, and step j of the window that ends at word t reading x_{t-S+j}:

    [f; i; o; g]^k = [σ; σ; σ; tanh](W^k h^k_{j-1} + U^k x + b^k)                             (4)
    c^k_j = f ⊙ c^k_{j-1} + i ⊙ g,   h^k_j = o ⊙ tanh(c^k_j)                                  (5), (6)

Features at t are all h^k_S, in several scales S side by side, pooled as in `windows` (8)-(12). The loss adds λ times
an orthogonality penalty per scale, which wants the W^k to differ. As printed (7) it is Σ_{k,l} ‖W^k W^l' - I‖², whose
minimum has all W^k equal; the default is ‖M M' - I‖² with a row of M for each flattened W^k.

ODE-LSTM is MODE-LSTM at one scale; the disconnected LSTM (DLSTM) is ODE-LSTM with one state. The paper does not say
over which windows it ran these two.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import WordSource, init_uniform, source_shape
from models.architectures.small_states import SmallStates
from models.architectures.windows import WindowConfig, WindowModel, WindowWords

Orthogonality = Literal["matrices", "candidate_only", "equation_7"]


class _SmallStatesConfig(WindowConfig):
    states: int = Field(2, ge=1)  # K, per scale
    state_size: int = Field(50, ge=1)  # p
    penalty: float = Field(0.01, ge=0)  # λ
    # what is to be orthogonal: the W^k, their blocks for the candidate g, or as equation 7 is printed
    orthogonality: Orthogonality = "matrices"


class MODELSTMConfig(_SmallStatesConfig):
    """Options of MODE-LSTM; the defaults are the paper's, but for its character features (`characters = 50`) and its
    word vectors of 300 numbers."""

    architecture: Literal["mode_lstm"] = "mode_lstm"
    scales: Annotated[tuple[WindowWords, ...], Field(min_length=1)] = (5, 10, 15)


class ODELSTMConfig(_SmallStatesConfig):
    """Options of ODE-LSTM; its 300 units are the paper's."""

    architecture: Literal["ode_lstm"] = "ode_lstm"
    scales: tuple[WindowWords] = (15,)
    states: int = Field(6, ge=1)


class DLSTMConfig(_SmallStatesConfig):
    """Options of the disconnected LSTM: one state, so nothing to be orthogonal to."""

    architecture: Literal["dlstm"] = "dlstm"
    scales: tuple[WindowWords] = (15,)
    states: Literal[1] = 1
    state_size: int = Field(300, ge=1)
    penalty: float = Field(0.0, ge=0)


class MODELSTM(WindowModel):
    """Small states at one or several scales."""

    def __init__(
        self, config: MODELSTMConfig | ODELSTMConfig | DLSTMConfig, embedding: WordSource, classes: int
    ) -> None:
        units = config.states * config.state_size
        super().__init__(config, embedding, classes, [(scale, units) for scale in config.scales])
        self.config = config
        self.scales = nn.ModuleList(
            SmallStates(source_shape(embedding)[1], config.states, config.state_size, scale)
            for scale in config.scales
        )
        for part in (self.scales, self.mlp, self.classifier):
            init_uniform(part, config.init_range)

    def features(self, x: Tensor) -> Tensor:
        """See `WindowModel.features`."""
        widest = max(self.config.scales)
        return torch.cat(
            [
                states(x[:, widest - scale :])
                for states, scale in zip(self.scales, self.config.scales, strict=True)
            ],
            dim=-1,
        )

    def regularizer(self) -> Tensor:
        """See `WindowModel.regularizer`."""
        total = super().regularizer()
        for states in self.scales:
            assert isinstance(states, SmallStates)
            total = total + self.config.penalty * orthogonality_penalty(
                states.recurrent, self.config.orthogonality
            )
        return total


def orthogonality_penalty(recurrent: Tensor, kind: Orthogonality) -> Tensor:
    """The penalty of one scale's matrices W, `(K, 4 p, p)`, a scalar."""
    if kind == "equation_7":
        products = torch.einsum("kap,lbp->klab", recurrent, recurrent)  # (K, K, 4 p, 4 p)
        return (products - torch.eye(recurrent.shape[1]).to(recurrent)).square().sum()
    first = 3 * recurrent.shape[2] if kind == "candidate_only" else 0
    rows = recurrent[:, first:].flatten(1)  # M
    return (rows @ rows.T - torch.eye(len(rows)).to(rows)).square().sum()
