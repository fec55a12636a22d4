"""MT-LSTM: memory in groups that run at different speeds (Liu et al., EMNLP 2015, equations 8-16).

Group k of g (from 1) has the period T_k = 2^(k-1) and runs at every word t with t mod T_k = 0, t from 1. With
the groups j that group k listens to (fast-to-slow: j ≤ k, slow-to-fast: j ≥ k), all read at t-1:

    i, f, o = σ(W^k x_t + Σ_j U^{jk} h^j_{t-1} + Σ_j V^{jk} c^j_{t-1} + b^k)          (8)-(10)
    g       = tanh(W^k x_t + Σ_j U^{jk} h^j_{t-1} + b^k)                              (11)
    c^k_t   = f ⊙ c^k_{t-1} + i ⊙ g,   h^k_t = o ⊙ tanh(c^k_t)                        (12), (13)

and holds h, c between its words. The classifier reads the states of all groups at the last word.

The groups are computed one after the other, each only at its own words (an exact cascade): activation n of
group k is word t = n T_k and reads s^j[⌊(t-1)/T_j⌋], the state of group j after that many activations, where
s^j[0] = 0. The paper prints no biases; ours start at zero.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import Answer, Architecture, ModelConfig, Trace, init_uniform
from models.errors import ConfigError

Strategy = Literal["fast_to_slow", "slow_to_fast"]
MOST_GROUPS = 11  # the slowest then runs every 1024 words; a segment of the exported graph is as long as that


class MTLSTMConfig(ModelConfig):
    """Options of MT-LSTM."""

    architecture: Literal["mtlstm"] = "mtlstm"
    hidden: int = Field(100, ge=1)
    groups: int | Literal["auto"] = "auto"  # auto: the upper bound of equation 16
    strategy: Strategy = "fast_to_slow"
    cell_to_gate: Literal["full", "none"] = "none"  # the matrices V of equations 8-10


def largest_group_count(mean_length: float) -> int:
    """Equation 16, g = log2 L - 1 rounded down and at least 1, for documents of `mean_length` words."""
    return max(1, int(torch.log2(torch.tensor(mean_length, dtype=torch.float64)).item() - 1))


def group_sizes(hidden: int, groups: int) -> list[int]:
    """Units per group; where they do not divide evenly, the first groups get one more.

    Raises:
        ConfigError: more groups than units, or no group.
    """
    if not 1 <= groups <= hidden:
        raise ConfigError(
            f"expected 1 to {hidden} groups for {hidden} hidden units, found {groups}: set model.groups or model.hidden"
        )
    return [hidden // groups + (k < hidden % groups) for k in range(groups)]


class MTLSTM(Architecture):
    """The cascade of groups and a linear classifier over all of them.

    Raises:
        ConfigError: a number of groups that cannot be.
    """

    def __init__(self, config: MTLSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.hidden, config)
        if config.groups == "auto":
            raise ConfigError("groups = 'auto' must be resolved from the mean document length first")
        if config.groups > MOST_GROUPS:
            raise ConfigError(
                f"model.groups: expected at most {MOST_GROUPS}, found {config.groups}: the slowest would run every "
                f"2^{config.groups - 1} words"
            )
        self.sizes = group_sizes(config.hidden, config.groups)
        self.periods = [2**k for k in range(config.groups)]
        self.strategy = config.strategy
        kind = MemoryGroupWithCellGates if config.cell_to_gate == "full" else MemoryGroup
        self.groups = nn.ModuleList(
            kind(embedding.shape[1], [self.sizes[j] for j in self.sources(k)], size)
            for k, size in enumerate(self.sizes)
        )
        init_uniform(self.groups, config.init_range)
        init_uniform(self.classifier, config.init_range)

    def sources(self, k: int) -> list[int]:
        """The other groups (from 0) that group k listens to."""
        return list(range(k)) if self.strategy == "fast_to_slow" else list(range(k + 1, len(self.sizes)))

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        states = self.states(self.embed(token_ids, lengths))
        rows = torch.arange(len(token_ids), device=token_ids.device)
        ends = [h[rows, lengths // period] for h, period in zip(states, self.periods, strict=True)]
        return Answer(self.classifier(self.dropout(torch.cat(ends, dim=-1))))

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal: step t is the answer for the first t words."""
        states = self.states(self.embed(token_ids, lengths))
        words = torch.arange(1, token_ids.shape[1] + 1, device=token_ids.device)
        held = [h[:, words // period] for h, period in zip(states, self.periods, strict=True)]
        return Trace(self.classifier(self.dropout(torch.cat(held, dim=-1))))

    def states(self, x: Tensor) -> list[Tensor]:
        """The hidden states of each group after 0, 1, 2, … activations.

        Args:
            x: `(batch, time, embedding)`.

        Returns:
            Per group, fastest first, `(batch, ⌊time / T_k⌋ + 1, group)`.
        """
        order = (
            range(len(self.sizes)) if self.strategy == "fast_to_slow" else reversed(range(len(self.sizes)))
        )
        hidden: dict[int, Tensor] = {}
        cells: dict[int, Tensor] = {}
        for k in order:
            period = self.periods[k]
            words = torch.arange(1, x.shape[1] // period + 1, device=x.device) * period  # t = n T_k, from 1
            before = {j: (words - 1) // self.periods[j] for j in self.sources(k)}
            hidden[k], cells[k] = self.groups[k](
                x[:, words - 1],
                [hidden[j][:, index] for j, index in before.items()],
                [cells[j][:, index] for j, index in before.items()],
            )
        return [hidden[k] for k in range(len(self.sizes))]


class MemoryGroup(nn.Module):
    """One group without cell-to-gate matrices: a plain LSTM over [x; h^j …].

    Args:
        input_size: the embedding's size.
        source_sizes: the sizes of the other groups that it listens to.
        size: its own units.
    """

    def __init__(self, input_size: int, source_sizes: list[int], size: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(input_size + sum(source_sizes), size, batch_first=True)

    def forward(self, x: Tensor, hidden: list[Tensor], cells: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Run at the given words.

        Args:
            x: `(batch, activations, embedding)`, the words at which the group runs.
            hidden: per source, `(batch, activations, source)`, what it reads of h.
            cells: per source, what it reads of c; unused here.

        Returns:
            h after 0, 1, … activations, `(batch, activations + 1, group)`, and again in place of c, which nobody reads.
        """
        start = x.new_zeros(len(x), 1, self.cell.hidden_size)
        if x.shape[1] == 0:
            return start, start
        states, _ = self.cell(torch.cat([x, *hidden], dim=-1))  # (batch, activations, group)
        states = torch.cat([start, states], dim=1)
        return states, states


class MemoryGroupWithCellGates(nn.Module):
    """One group with the full matrices V of equations 8-10; arguments as for `MemoryGroup`."""

    def __init__(self, input_size: int, source_sizes: list[int], size: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(input_size + sum(source_sizes), 4 * size)  # gates packed i, f, g, o
        self.recurrent = nn.Linear(size, 4 * size, bias=False)
        self.source_cells = nn.Linear(sum(source_sizes), 3 * size, bias=False) if source_sizes else None
        self.own_cell = nn.Linear(size, 3 * size, bias=False)  # gates packed i, f, o

    def forward(self, x: Tensor, hidden: list[Tensor], cells: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Run at the given words; as `MemoryGroup.forward`, with the real c."""
        projected = self.inputs(torch.cat([x, *hidden], dim=-1))  # (batch, activations, 4 group)
        i, f, g, o = projected.chunk(4, dim=-1)
        gates = torch.cat([i, f, o], dim=-1)  # (batch, activations, 3 group)
        if self.source_cells is not None:
            gates = gates + self.source_cells(torch.cat(cells, dim=-1))
        h = c = x.new_zeros(len(x), self.own_cell.in_features)
        hs, cs = [h], [c]
        for gates_n, g_n in zip(gates.unbind(1), g.unbind(1), strict=True):
            u_i, u_f, u_g, u_o = self.recurrent(h).chunk(4, dim=-1)
            i_n, f_n, o_n = torch.sigmoid(gates_n + self.own_cell(c) + torch.cat([u_i, u_f, u_o], -1)).chunk(
                3, -1
            )
            c = f_n * c + i_n * torch.tanh(g_n + u_g)
            h = o_n * torch.tanh(c)
            hs.append(h)
            cs.append(c)
        return torch.stack(hs, dim=1), torch.stack(cs, dim=1)
