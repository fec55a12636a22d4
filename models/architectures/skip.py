"""Skip LSTM: the state tells how many words to pass over before the next is read (Campos et al., ICLR 2018).

Skip RNN with an LSTM cell S. ũ_t is the probability to update at word t and u_t the decision, round half to even:

    u_t = round(ũ_t)
    h_t, c_t = u_t S(x_t, h_{t-1}, c_{t-1}) + (1 - u_t) (h_{t-1}, c_{t-1})
    Δ_t = u_t σ(w_p c_t + b_p) + (1 - u_t) Δ_{t-1}
    ũ_{t+1} = u_t Δ_t + (1 - u_t) (ũ_t + min(Δ_t, 1 - ũ_t))
    loss = cross-entropy + λ Σ_t u_t, the sum over each document's words, averaged over documents

ũ_1 = 1, so the first word is always read, and n words after a word that was read ũ = min(1, n Δ). The gradient goes
straight through the rounding. The increment Δ is read from the cell state c, and its bias and that of the forget gate
start at 1, as in the authors' published code. There the state before the first word is trained, drawn from N(0, 1)
at first: `initial_state = "trained"`. λ is that of the Leap-LSTM paper's comparison.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import (
    Answer,
    Architecture,
    ModelConfig,
    Trace,
    at_end,
    init_uniform,
    real_words,
)
from models.architectures.reading_cell import ReadingCell


class SkipLSTMConfig(ModelConfig):
    """Options of Skip LSTM."""

    architecture: Literal["skip_lstm"] = "skip_lstm"
    hidden: int = Field(300, ge=1)
    cost_per_word: float = Field(1e-4, ge=0)  # λ
    initial_state: Literal["zeros", "trained"] = "zeros"


class SkipLSTM(Architecture):
    """The reading LSTM and its update probability."""

    def __init__(self, config: SkipLSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.hidden, config)
        self.config = config
        self.cell = ReadingCell(embedding.shape[1], config.hidden)
        self.increment = nn.Linear(config.hidden, 1)  # w_p, b_p
        self.initial = (
            nn.Parameter(torch.randn(2, config.hidden)) if config.initial_state == "trained" else None
        )  # h_0, c_0
        for part in (self.cell, self.increment, self.classifier):
            init_uniform(part, config.init_range)
        with torch.no_grad():
            self.increment.bias.fill_(1)
            self.cell.project.bias[config.hidden : 2 * config.hidden].fill_(1)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        states, _, update = self._read(token_ids, lengths)
        updates = (update * real_words(token_ids, lengths)).sum(dim=1)  # (batch,)
        penalty = self.config.cost_per_word * updates.mean()
        skip_rate = 1 - updates.sum() / lengths.sum()
        return Answer(self.classifier(self.dropout(at_end(states, lengths))), penalty, skip_rate)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal. The keep probability is ũ."""
        states, probability, update = self._read(token_ids, lengths)
        return Trace(self.classifier(self.dropout(states)), probability, update < 0.5)

    def _read(self, token_ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States `(batch, time, hidden)`, ũ and u `(batch, time)` at every word."""
        projected = self.cell.project(self.embed(token_ids, lengths))  # (batch, time, 4 hidden)
        h, c = self._start(projected)
        increment, accumulated = torch.ones_like(h[:, :1]), torch.zeros_like(h[:, :1])
        states, probabilities, updates = [], [], []
        for projected_t in projected.unbind(1):
            probability = accumulated + torch.minimum(increment, 1 - accumulated)  # ũ, (batch, 1)
            update = round_straight_through(probability)  # u
            h_new, c_new = self.cell.step(projected_t, h, c)
            h, c = torch.lerp(h, h_new, update), torch.lerp(c, c_new, update)
            increment = torch.lerp(increment, torch.sigmoid(self.increment(c_new)), update)
            accumulated = (1 - update) * probability
            states.append(h)
            probabilities.append(probability.squeeze(1))
            updates.append(update.squeeze(1))
        return torch.stack(states, 1), torch.stack(probabilities, 1), torch.stack(updates, 1)

    def _start(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """h and c before the first word, `(batch, hidden)`."""
        if self.initial is None:
            zeros = projected.new_zeros(len(projected), self.config.hidden)
            return zeros, zeros
        h, c = self.initial.unsqueeze(1).expand(-1, len(projected), -1)
        return h, c


def round_straight_through(probability: Tensor) -> Tensor:
    """Round half to even, with the gradient of the identity."""
    # the bracket first: its two terms cancel to exactly zero, so the rounded value stays whole
    return probability.round().detach() + (probability - probability.detach())
