"""Leap-LSTM: looks before and behind, then reads or skips (Huang et al., IJCAI 2019, equations 3-10).

At word t, with x_t, the state h_{t-1} of what was read so far, and features of the following text
f_follow(t) = [LSTM_r(t+1); CNN_3(t+1); CNN_4(t+1); CNN_5(t+1)] (h_end where t is the last word):

    s_t = ReLU(W_1 [x_t; h_{t-1}; f_follow(t)] + b_1),   π_t = softmax(W_2 s_t + b_2)        (3), (4)
    keep: h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   skip: h_t, c_t = h_{t-1}, c_{t-1}        (5)
    loss = cross-entropy + λ (r_target - r)²                                                 (6)

r is the skipped share of the batch's real words, as in the authors' published code; the paper names that of the whole
data set, which no step of training knows. In training both outcomes are blended with a Gumbel-softmax
sample of π at a low temperature (8)-(10); served, the larger of the two decides and a tie keeps. LSTM_r reads
the text backwards; CNN_w(t) covers x_t … x_{t+w-1}, zeros past the end.

`without` leaves out one part of what the decision sees, as in the paper's Table 4. The authors' published code lays
the look-ahead out in another way, `layout = "reference_code"`: the filters are centred on x_t, LSTM_r(T+1) is zero, and
there is no h_end. It also has `reverse_hidden = 10`, `decision_hidden = 100`, and a ReLU layer of `mlp = 512` units
before the softmax. It blends when it is tested, too; here a word is then skipped or not.
"""

from __future__ import annotations

from typing import Annotated, Literal

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
_WIDEST_FILTER = 8  # words; a graph carries so many from segment to segment, the shortest of which has 8
Ablation = Literal["nothing", "cnn", "reverse_lstm", "following_text", "state", "word"]
FilterWords = Annotated[int, Field(ge=1, le=_WIDEST_FILTER)]


class LeapLSTMConfig(ModelConfig):
    """Options of Leap-LSTM; the defaults are the paper's, but for the dropout, of which it says nothing."""

    architecture: Literal["leap_lstm"] = "leap_lstm"
    hidden: int = Field(300, ge=1)
    reverse_hidden: int = Field(20, ge=1)
    decision_hidden: int = Field(20, ge=1)
    filter_widths: Annotated[tuple[FilterWords, ...], Field(min_length=1)] = (3, 4, 5)
    filters: int = Field(60, ge=1)  # per width
    temperature: float = Field(0.1, gt=0)
    target_skip_rate: float = Field(0.6, ge=0, lt=1)
    penalty: float = Field(1.0, ge=0)  # λ of equation 6
    # of equation 3: the CNN, LSTM_r, both (f_follow), h_{t-1}, or x_t (Table 4)
    without: Ablation = "nothing"
    layout: Literal["paper", "reference_code"] = "paper"
    mlp: int = Field(0, ge=0)  # units of a ReLU layer before the classifier; 0: none, as in equation 2


class LeapLSTM(Architecture):
    """The reading LSTM, the look-ahead and the decision."""

    def __init__(self, config: LeapLSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.mlp or config.hidden, config)
        width = embedding.shape[1]
        self.config = config
        self.cell = ReadingCell(width, config.hidden)
        seen, units = config.without, config.decision_hidden
        self.look_ahead = None if seen == "following_text" else LookAhead(width, config)
        # W_1's columns for x_t, and b_1
        self.decide_word = Bias(units) if seen == "word" else nn.Linear(width, units)
        self.decide_state = None if seen == "state" else nn.Linear(config.hidden, units, bias=False)
        self.decide_ahead = (
            None if self.look_ahead is None else nn.Linear(self.look_ahead.size, units, bias=False)
        )
        self.decide = nn.Linear(units, 2)
        self.mlp = nn.Linear(config.hidden, config.mlp) if config.mlp else None
        for part in (self.cell, self.classifier):
            init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`; blends in training, decides otherwise."""
        states, skip, _ = self._read(token_ids, lengths)
        real = real_words(token_ids, lengths)
        skip_rate = (skip * real).sum() / real.sum()
        penalty = self.config.penalty * (self.config.target_skip_rate - skip_rate) ** 2
        return Answer(self._classify(at_end(states, lengths)), penalty, skip_rate)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; not causal, since the decisions look ahead, unless they are without that."""
        states, skip, keep_probability = self._read(token_ids, lengths)
        return Trace(self._classify(states), keep_probability, skip > 0.5)

    def _classify(self, states: Tensor) -> Tensor:
        """Class logits of states, `(…, hidden)` -> `(…, classes)`."""
        read = self.dropout(states)
        logits: Tensor = self.classifier(read if self.mlp is None else functional.relu(self.mlp(read)))
        return logits

    def _read(self, token_ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States `(batch, time, hidden)`, skip share and keep probability `(batch, time)` at every word."""
        x = self.embed(token_ids, lengths)  # (batch, time, embedding)
        features = self.decide_word(x)  # (batch, time, decision)
        if self.look_ahead is not None and self.decide_ahead is not None:
            features = features + self.decide_ahead(self.look_ahead(x, lengths))
        projected = self.cell.project(x)  # (batch, time, 4 hidden)
        h = c = x.new_zeros(len(x), self.config.hidden)
        states, skips, keeps = [], [], []
        for features_t, projected_t in zip(features.unbind(1), projected.unbind(1), strict=True):
            seen = features_t if self.decide_state is None else features_t + self.decide_state(h)
            logits = self.decide(functional.relu(seen))  # (batch, 2)
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


class Bias(nn.Module):
    """b_1 alone, for a decision that does not see the word."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(units))

    def forward(self, x: Tensor) -> Tensor:
        """`(batch, time, embedding)` -> `(batch, time, units)`."""
        return self.bias.expand(*x.shape[:-1], -1)


class LookAhead(nn.Module):
    """f_follow(t): features of the text after word t.

    Attributes:
        widths: words of the filters; none for a decision without the CNN.
        before: words that each filter covers before its own, 0 in the paper's layout.
        size: of the features.
        h_end: f_follow at the last word; None in the layout of the authors' code.
    """

    def __init__(self, input_size: int, config: LeapLSTMConfig) -> None:
        super().__init__()
        reverse = 0 if config.without == "reverse_lstm" else config.reverse_hidden
        self.reverse = nn.LSTM(input_size, reverse, batch_first=True) if reverse else None
        self.widths = () if config.without == "cnn" else config.filter_widths
        self.filters = nn.ModuleList(nn.Conv1d(input_size, config.filters, w) for w in self.widths)
        self.size = reverse + config.filters * len(self.widths)
        paper = config.layout == "paper"
        self.before = [0 if paper else (width - 1) // 2 for width in self.widths]
        self.h_end = nn.Parameter(torch.zeros(self.size)) if paper else None

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Features of the following text: `(batch, time, embedding)` -> `(batch, time, size)`."""
        x = x * real_words(x[..., 0], lengths).unsqueeze(-1)
        at_last = (torch.arange(x.shape[1], device=x.device) == (lengths - 1).unsqueeze(1)).unsqueeze(-1)
        backwards = self._backwards(x, lengths)  # each (batch, time, …)
        windows = self._windows(x)
        if self.h_end is not None:
            ahead = _of_next_word(torch.cat([*backwards, *windows], dim=-1))
            return torch.where(at_last, self.h_end, ahead)
        after = [_of_next_word(values).masked_fill(at_last, 0) for values in backwards]
        return torch.cat([*after, *windows], dim=-1)

    def _backwards(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """LSTM_r at every word, `(batch, time, reverse)`, where there is one."""
        if self.reverse is None:
            return []
        return [reverse_words(self.reverse(reverse_words(x, lengths))[0], lengths)]

    def _windows(self, x: Tensor) -> list[Tensor]:
        """The features of each width at every word, `(batch, time, filters)`."""
        channels = x.transpose(1, 2)  # (batch, embedding, time)
        return [
            functional.relu(conv(functional.pad(channels, (before, width - 1 - before)))).transpose(1, 2)
            for conv, width, before in zip(self.filters, self.widths, self.before, strict=True)
        ]


def _of_next_word(values: Tensor) -> Tensor:
    """At every word the value of the next one, zeros after the last column: `(batch, time, …)`."""
    return functional.pad(values[:, 1:], (0, 0, 0, 1))
