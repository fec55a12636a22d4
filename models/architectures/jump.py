"""LSTM-Jump: reads a few words, then jumps (Yu, Lee, Le, "Learning to Skim Text", ACL 2017, sections 2.1-2.3).

Written down from knowledge of that paper. An LSTM reads R words; from the state h behind the last of them a jump κ
is drawn, and the next run of R words begins κ words on, so κ = 1 skips nothing:

    p(κ | h) = softmax(W_j h + b_j),  κ in {0, 1, …, K}

The reading ends where κ = 0 is drawn, after the run that follows the N-th jump, or with the text; the last state
classifies. Served, the most probable κ is taken. The loss has three parts,

    J_1 = cross-entropy, given the jumps that were drawn
    J_2 = E[reward], reward 1 where the class is right and -1 where not
    J_3 = Σ_n (reward - b_n)²,  b_n = w_b h_n + c_b

of which J_1 - J_2 + J_3 is minimised, averaged over documents. The gradient of J_2 is REINFORCE's with the baseline
b_n and one sample, Σ_n ∇ log p(κ_n | h_n) (reward - b_n); it trains W_j and b_j, as J_3 trains the baseline, and
neither changes the state. Jumps drawn at a document's last word have no outcome and are left out. The paper sets R, K
and N per data set; the defaults here are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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

PAST_THE_END = 2**40  # words: a jump past any document ends the reading


class LSTMJumpConfig(ModelConfig):
    """Options of LSTM-Jump."""

    architecture: Literal["lstm_jump"] = "lstm_jump"
    hidden: int = Field(300, ge=1)
    run: int = Field(8, ge=1)  # R, words read before a jump
    longest_jump: int = Field(10, ge=1)  # K, words
    jumps: int = Field(20, ge=1)  # N, in a document


@dataclass(frozen=True)
class _Reading:
    """A batch as it was read, every value per word.

    Attributes:
        states: `(batch, time, hidden)`.
        reads: bool `(batch, time)`.
        margin: of the jump that decided on the word, see `Trace.decision_margin`, `(batch, time)`.
        draws: bool `(batch, time)`, whether a jump was drawn behind the word.
        log_probability: of that jump, `(batch, time)`.
        baseline: b, `(batch, time)`.
    """

    states: Tensor
    reads: Tensor
    margin: Tensor
    draws: Tensor
    log_probability: Tensor
    baseline: Tensor


class LSTMJump(Architecture):
    """The reading LSTM, the jump and the baseline of its training."""

    def __init__(self, config: LSTMJumpConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.hidden, config)
        self.config = config
        self.cell = ReadingCell(embedding.shape[1], config.hidden)
        self.jump = nn.Linear(config.hidden, config.longest_jump + 1)
        self.baseline = nn.Linear(config.hidden, 1)
        for part in (self.cell, self.jump, self.baseline, self.classifier):
            init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`; draws its jumps in training, takes the most probable otherwise."""
        reading = self._read(token_ids, lengths)
        logits = self.classifier(self.dropout(at_end(reading.states, lengths)))
        read = (reading.reads * real_words(token_ids, lengths)).sum()
        skip_rate = 1 - read / lengths.sum()
        return Answer(
            logits, skip_rate=skip_rate, reward_loss=partial(_reward_loss, reading, logits, lengths)
        )

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal: a word that is jumped over repeats the answer before it."""
        reading = self._read(token_ids, lengths)
        logits = self.classifier(self.dropout(reading.states))
        return Trace(logits, skipped=~reading.reads, decision_margin=reading.margin)

    def _read(self, token_ids: Tensor, lengths: Tensor) -> _Reading:
        config = self.config
        projected = self.cell.project(self.embed(token_ids, lengths))  # (batch, time, 4 hidden)
        h = c = projected.new_zeros(len(projected), config.hidden)
        wait = in_run = jumps = torch.zeros_like(
            lengths
        )  # words to pass over, words of the run, jumps so far
        margin = projected.new_ones(len(projected))
        steps = []
        for projected_t in projected.unbind(1):
            reads, decided_by = wait == 0, margin  # (batch,)
            h_new, c_new = self.cell.step(projected_t, h, c)
            h, c = (torch.where(reads.unsqueeze(1), new, old) for new, old in ((h_new, h), (c_new, c)))
            in_run = in_run + reads
            ends = reads & (in_run == config.run)
            draws = ends & (jumps < config.jumps)
            log_probability, distance, gap = self._jump(h.detach())
            distance = torch.where(draws, distance, PAST_THE_END)
            wait = torch.where(ends, distance, torch.where(reads, 1, wait)) - 1
            in_run, jumps = in_run.masked_fill(ends, 0), jumps + draws
            margin = torch.where(draws, gap, margin)
            baseline = self.baseline(h.detach()).squeeze(1)
            steps.append((h, reads, decided_by, draws, log_probability, baseline))
        return _Reading(*(torch.stack(column, dim=1) for column in zip(*steps, strict=True)))

    def _jump(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From h `(batch, hidden)`: log p of the jump taken, its distance, and the lead of the most probable one."""
        log_p = functional.log_softmax(self.jump(h), dim=-1)  # (batch, K + 1)
        first, second = log_p.exp().topk(2, dim=-1).values.unbind(-1)
        jump = torch.multinomial(log_p.exp(), 1) if self.training else log_p.argmax(dim=-1, keepdim=True)
        taken = log_p.gather(1, jump).squeeze(1)
        return taken, jump.squeeze(1).masked_fill(jump.squeeze(1) == 0, PAST_THE_END), first - second


def _reward_loss(reading: _Reading, logits: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
    """-J_2 + J_3, a scalar whose gradient is REINFORCE's; labels `(batch,)`."""
    words = torch.arange(reading.draws.shape[1], device=lengths.device)
    counted = reading.draws & (words < (lengths - 1).unsqueeze(1))  # (batch, time)
    reward = torch.where(logits.argmax(dim=-1) == labels, 1.0, -1.0).to(logits.dtype).unsqueeze(1)
    advantage = reward - reading.baseline
    loss = advantage.square() - reading.log_probability * advantage.detach()
    return (loss * counted).sum() / len(logits)
