"""The self-attentive LSTM: both directions' states, pooled by several attentions (Lin et al., ICLR 2017).

With the states H = [→h_t; ←h_t] of an LSTM in both directions, r hops of attention over the text's words, and k of
W_s1's rows:

    S = W_s2 tanh(W_s1 H')              A = softmax(S) over the words              (r, time)
    M = A H                             logits = W_y ReLU(W_m M + b_m) + b_y        M read row after row

The loss adds a penalty times ‖A A' - I‖²_F, the mean of the batch, which wants the hops to attend to different words.
The pooled states of the first t words alone give a trace that ends at the answer:

    M_t = Σ_{j≤t} exp(s_j) h_j / Σ_{j≤t} exp(s_j)     for each hop

It is not causal: every state has its backward half from the whole text.

The paper has 300 units per direction, k = 350, r = 30 and a ReLU layer of 3,000 on reviews; the defaults here are small
enough for a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import Answer, Architecture, ModelConfig, Trace, init_uniform, reverse_words


class SelfAttentiveLSTMConfig(ModelConfig):
    """Options of the self-attentive LSTM."""

    architecture: Literal["self_attentive_lstm"] = "self_attentive_lstm"
    hidden: int = Field(100, ge=1)  # units of each direction
    attention: int = Field(100, ge=1)  # k, units of the layer that scores words
    hops: int = Field(8, ge=1)  # r
    mlp: int = Field(150, ge=1)  # units of the ReLU layer before the classifier
    penalty: float = Field(1.0, ge=0)  # of ‖A A' - I‖²


@dataclass(frozen=True)
class _States:
    """What is attended to: the states `(batch, time, 2 hidden)`, and every hop's score `(batch, time, hops)`."""

    states: Tensor
    scores: Tensor


class SelfAttentiveLSTM(Architecture):
    """An LSTM in both directions, and attention over its states."""

    def __init__(self, config: SelfAttentiveLSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.mlp, config)
        self.penalty, self.hops = config.penalty, config.hops
        self.cell, self.backward_cell = (
            nn.LSTM(embedding.shape[1], config.hidden, batch_first=True) for _ in range(2)
        )
        self.score = nn.Linear(2 * config.hidden, config.attention, bias=False)  # W_s1
        self.score_hops = nn.Linear(config.attention, config.hops, bias=False)  # W_s2
        self.mlp = nn.Linear(config.hops * 2 * config.hidden, config.mlp)
        parts = (self.cell, self.backward_cell, self.score, self.score_hops, self.mlp, self.classifier)
        for part in parts:
            init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        read = self._read(token_ids, lengths)
        attention = torch.softmax(read.scores, dim=1).transpose(1, 2)  # (batch, hops, time)
        overlap = attention @ attention.transpose(1, 2) - torch.eye(self.hops).to(attention)
        penalty = self.penalty * overlap.square().sum(dim=(1, 2)).mean()
        return Answer(self._classify(attention @ read.states), penalty)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; it ends at the answer, and is not causal."""
        read = self._read(token_ids, lengths)
        largest = read.scores[:, 0]  # (batch, hops); exp(score - largest) neither overflows nor vanishes
        weights = torch.zeros_like(largest)
        weighted = read.states.new_zeros(*largest.shape, read.states.shape[-1])
        pooled = []
        for score, state in zip(read.scores.unbind(1), read.states.unbind(1), strict=True):
            larger = torch.maximum(largest, score)
            kept, added = torch.exp(largest - larger), torch.exp(score - larger)
            weights = weights * kept + added
            weighted = weighted * kept.unsqueeze(-1) + added.unsqueeze(-1) * state.unsqueeze(1)
            pooled.append(weighted / weights.unsqueeze(-1))
            largest = larger
        return Trace(self._classify(torch.stack(pooled, dim=1)), attention=torch.softmax(read.scores, dim=1))

    def _read(self, token_ids: Tensor, lengths: Tensor) -> _States:
        """States and scores; the scores at padding lower than any other."""
        x = self.embed(token_ids, lengths)
        backward = self.backward_cell(reverse_words(x, lengths))[0]
        states = torch.cat([self.cell(x)[0], reverse_words(backward, lengths)], dim=-1)
        scores = self.score_hops(torch.tanh(self.score(states)))
        padding = torch.arange(x.shape[1], device=lengths.device) >= lengths.unsqueeze(1)
        return _States(states, scores.masked_fill(padding.unsqueeze(-1), torch.finfo(scores.dtype).min))

    def _classify(self, pooled: Tensor) -> Tensor:
        """Class logits `(…, classes)` of pooled states `(…, hops, 2 hidden)`."""
        hidden = functional.relu(self.mlp(pooled.flatten(-2)))
        logits: Tensor = self.classifier(self.dropout(hidden))
        return logits
