"""Leap-LSTM: looks before and behind, then reads or skips (Huang et al., IJCAI 2019, equations 3-10).

At word t, with x_t, the state h_{t-1} of what was read so far, and features of the following text
f_follow(t) = [LSTM_r(t+1); CNN_3(t+1); CNN_4(t+1); CNN_5(t+1)] (h_end where t is the last word):

    s_t = ReLU(W_1 [x_t; h_{t-1}; f_follow(t)] + b_1),   π_t = softmax(W_2 s_t + b_2)        (3), (4)
    keep: h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   skip: h_t, c_t = h_{t-1}, c_{t-1}        (5)
    loss = cross-entropy + λ (r_target - r)²                                                 (6)

r is the skipped share of the batch's real words. In training both outcomes are blended with a Gumbel-softmax
sample of π at a low temperature (7)-(10); served, the larger of the two decides and a tie keeps. LSTM_r reads
the text backwards; CNN_w(t) covers x_t … x_{t+w-1}, zeros past the end.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import (
    Answer,
    Architecture,
    ModelConfig,
    Trace,
    at_end,
    init_uniform,
    real_words,
    reverse_words,
)
from models.architectures.reading_cell import ReadingCell

KEEP, SKIP = 0, 1


class LeapLSTMConfig(ModelConfig):
    """Options of Leap-LSTM; the defaults are the paper's."""

    architecture: Literal["leap_lstm"] = "leap_lstm"
    hidden: int = Field(300, ge=1)
    reverse_hidden: int = Field(20, ge=1)
    decision_hidden: int = Field(20, ge=1)
    filter_widths: tuple[int, ...] = (3, 4, 5)
    filters: int = Field(60, ge=1)  # per width
    temperature: float = Field(0.1, gt=0)
    target_skip_rate: float = Field(0.6, ge=0, lt=1)
    penalty: float = Field(1.0, ge=0)  # λ of equation 6


class LeapLSTM(Architecture):
    """The reading LSTM, the look-ahead and the decision."""

    def __init__(self, config: LeapLSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.hidden, config)
        width = embedding.shape[1]
        self.config = config
        self.cell = ReadingCell(width, config.hidden)
        self.look_ahead = LookAhead(width, config)
        self.decide_word = nn.Linear(width, config.decision_hidden)  # W_1's columns for x_t, and b_1
        self.decide_state = nn.Linear(config.hidden, config.decision_hidden, bias=False)
        self.decide_ahead = nn.Linear(self.look_ahead.size, config.decision_hidden, bias=False)
        self.decide = nn.Linear(config.decision_hidden, 2)
        for part in (self.cell, self.classifier):
            init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`; blends in training, decides otherwise."""
        states, skip, _ = self._read(token_ids, lengths)
        real = real_words(token_ids, lengths)
        skip_rate = (skip * real).sum() / real.sum()
        penalty = self.config.penalty * (self.config.target_skip_rate - skip_rate) ** 2
        return Answer(self.classifier(self.dropout(at_end(states, lengths))), penalty, skip_rate)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; not causal: the decisions look ahead."""
        states, skip, keep_probability = self._read(token_ids, lengths)
        return Trace(self.classifier(self.dropout(states)), keep_probability, skip > 0.5)

    def _read(self, token_ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States `(batch, time, hidden)`, skip share and keep probability `(batch, time)` at every word."""
        x = self.embed(token_ids, lengths)  # (batch, time, embedding)
        features = self.decide_word(x) + self.decide_ahead(
            self.look_ahead(x, lengths)
        )  # (batch, time, decision)
        projected = self.cell.project(x)  # (batch, time, 4 hidden)
        h = c = x.new_zeros(len(x), self.config.hidden)
        states, skips, keeps = [], [], []
        for features_t, projected_t in zip(features.unbind(1), projected.unbind(1), strict=True):
            logits = self.decide(functional.relu(features_t + self.decide_state(h)))  # (batch, 2)
            skip = self._skip_share(logits)  # (batch, 1)
            h_new, c_new = self.cell.step(projected_t, h, c)
            h, c = torch.lerp(h_new, h, skip), torch.lerp(c_new, c, skip)
            states.append(h)
            skips.append(skip.squeeze(1))
            keeps.append(functional.softmax(logits, dim=-1)[:, KEEP])
        return torch.stack(states, 1), torch.stack(skips, 1), torch.stack(keeps, 1)

    def _skip_share(self, logits: Tensor) -> Tensor:
        if self.training:
            return functional.gumbel_softmax(logits, tau=self.config.temperature)[:, SKIP:]
        return (logits[:, SKIP:] > logits[:, KEEP:SKIP]).to(logits.dtype)


class LookAhead(nn.Module):
    """f_follow(t): features of the text after word t."""

    def __init__(self, input_size: int, config: LeapLSTMConfig) -> None:
        super().__init__()
        self.reverse = nn.LSTM(input_size, config.reverse_hidden, batch_first=True)
        self.widths = config.filter_widths
        self.filters = nn.ModuleList(nn.Conv1d(input_size, config.filters, w) for w in config.filter_widths)
        self.size = config.reverse_hidden + config.filters * len(config.filter_widths)
        self.h_end = nn.Parameter(torch.zeros(self.size))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Features of the following text: `(batch, time, embedding)` -> `(batch, time, size)`."""
        x = x * real_words(x[..., 0], lengths).unsqueeze(-1)
        backwards = reverse_words(
            self.reverse(reverse_words(x, lengths))[0], lengths
        )  # (batch, time, reverse)
        channels = x.transpose(1, 2)  # (batch, embedding, time)
        windows = [
            functional.relu(conv(functional.pad(channels, (0, width - 1)))).transpose(1, 2)
            for conv, width in zip(self.filters, self.widths, strict=True)
        ]  # each (batch, time, filters)
        at_word = torch.cat([backwards, *windows], dim=-1)
        ahead = functional.pad(at_word[:, 1:], (0, 0, 0, 1))  # word t gets the features of t + 1
        last = torch.arange(x.shape[1], device=x.device) == (lengths - 1).unsqueeze(1)  # (batch, time)
        return torch.where(last.unsqueeze(-1), self.h_end, ahead)
