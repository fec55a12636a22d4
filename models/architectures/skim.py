"""Skim-LSTM: unimportant words are read with a small cell (Seo et al., "Neural Speed Reading via Skim-RNN", ICLR 2018).

At every word the word and the state decide between the large cell over all h units and a small cell over the first
h' of them; what the small cell does not write is carried over, for h and c alike:

    p_t = softmax(W_p [x_t; h_{t-1}] + b_p),   p¹ to read fully, p² to skim
    read: h_t = LSTM(x_t, h_{t-1})             skim: h_t = [LSTM'(x_t, h_{t-1}[1:h']); h_{t-1}[h'+1:h]]
    loss = cross-entropy + γ (1/T) Σ_t -log p²_t, averaged over documents

In training both outcomes are blended with a Gumbel-softmax sample of p; served, the larger decides and a tie reads.
The paper lowers the temperature from 1 to 0.5 as training goes on; here it is 0.5 from the start, as in the
Leap-LSTM paper's comparison. γ is our own: that comparison's published code has 1.5e-4, which skims less. The paper's
p²_t is the second component of p_t; that code takes it for a square.
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
)
from models.architectures.reading_cell import ReadingCell
from models.errors import ConfigError

READ, SKIM = 0, 1


class SkimLSTMConfig(ModelConfig):
    """Options of Skim-LSTM."""

    architecture: Literal["skim_lstm"] = "skim_lstm"
    hidden: int = Field(300, ge=1)
    small_hidden: int = Field(5, ge=1)  # h', units of the small cell
    temperature: float = Field(0.5, gt=0)
    penalty: float = Field(0.01, ge=0)  # γ; the larger, the more words are skimmed


class SkimLSTM(Architecture):
    """The large cell, the small cell and the decision.

    Raises:
        ConfigError: a small cell of more units than the large one.
    """

    def __init__(self, config: SkimLSTMConfig, embedding: Tensor, classes: int) -> None:
        if config.small_hidden > config.hidden:
            raise ConfigError(
                f"small_hidden: expected at most the {config.hidden} hidden units, found {config.small_hidden}"
            )
        super().__init__(embedding, classes, config.hidden, config)
        width = embedding.shape[1]
        self.config = config
        self.large = ReadingCell(width, config.hidden)
        self.small = ReadingCell(width, config.small_hidden)
        self.decide_word = nn.Linear(width, 2)  # W_p's columns for x_t, and b_p
        self.decide_state = nn.Linear(config.hidden, 2, bias=False)
        for part in (self.large, self.small, self.classifier):
            init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`; blends in training, decides otherwise."""
        states, skim, logits = self._read(token_ids, lengths)
        real = real_words(token_ids, lengths)
        skim_rate = (skim * real).sum() / real.sum()
        to_skim = -functional.log_softmax(logits, dim=-1)[..., SKIM] * real  # (batch, time)
        penalty = self.config.penalty * (to_skim.sum(dim=1) / lengths).mean()
        return Answer(self.classifier(self.dropout(at_end(states, lengths))), penalty, skim_rate)

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal."""
        states, skim, logits = self._read(token_ids, lengths)
        read_probability = functional.softmax(logits, dim=-1)[..., READ]
        return Trace(
            self.classifier(self.dropout(states)), skimmed=skim > 0.5, read_probability=read_probability
        )

    def _read(self, token_ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States `(batch, time, hidden)`, skimmed share `(batch, time)`, decision logits `(batch, time, 2)`."""
        x = self.embed(token_ids, lengths)  # (batch, time, embedding)
        inputs = (self.large.project(x), self.small.project(x), self.decide_word(x))
        small = self.config.small_hidden
        h = c = x.new_zeros(len(x), self.config.hidden)
        states, skims, decisions = [], [], []
        for large_t, small_t, decide_t in zip(*(values.unbind(1) for values in inputs), strict=True):
            logits = decide_t + self.decide_state(h)  # (batch, 2)
            skim = self._skim_share(logits)  # (batch, 1)
            h_read, c_read = self.large.step(large_t, h, c)
            h_small, c_small = self.small.step(small_t, h[:, :small], c[:, :small])
            h = torch.lerp(h_read, torch.cat([h_small, h[:, small:]], dim=1), skim)
            c = torch.lerp(c_read, torch.cat([c_small, c[:, small:]], dim=1), skim)
            states.append(h)
            skims.append(skim.squeeze(1))
            decisions.append(logits)
        return torch.stack(states, 1), torch.stack(skims, 1), torch.stack(decisions, 1)

    def _skim_share(self, logits: Tensor) -> Tensor:
        if self.training:
            return functional.gumbel_softmax(logits, tau=self.config.temperature)[:, SKIM:]
        return (logits[:, SKIM:] > logits[:, READ:SKIM]).to(logits.dtype)
