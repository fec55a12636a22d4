"""What the models with one recurrent layer share: reading in one direction or in both, and the readout.

In both directions the classifier reads [→h_T; ←h_1], the forward state at the last word beside the backward state
at the first. Its trace has the forward state at each word beside that same backward state, which has read the whole
text: it ends at the answer, and it is not causal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import (
    Answer,
    Architecture,
    ModelConfig,
    Trace,
    WordSource,
    at_end,
    init_uniform,
    reverse_words,
)

Readout = Literal["last", "mean"]


class RecurrentConfig(ModelConfig):
    """Options of a recurrent layer."""

    hidden: int = Field(100, ge=1)  # units of each direction
    bidirectional: bool = False


class Recurrent(Architecture):
    """A recurrent layer and a linear classifier.

    Args:
        config: the shared options.
        embedding: `(vocabulary, embedding)`, the initial word vectors.
        classes: the number of classes.
        make_cell: gives a layer for one direction: `(batch, time, input)` to a tuple that starts with its states
            `(batch, time, hidden)`.
        read_units: how many units the classifier reads of each direction, from the first; None: all.
        readout: the state at the end, or the mean of the states after all words.
    """

    def __init__(
        self,
        config: RecurrentConfig,
        embedding: WordSource,
        classes: int,
        make_cell: Callable[[], nn.Module],
        read_units: int | None = None,
        readout: Readout = "last",
    ) -> None:
        units = read_units or config.hidden
        super().__init__(embedding, classes, units * (1 + config.bidirectional), config)
        self.read_units, self.readout = units, readout
        self.cell = make_cell()
        self.backward_cell = make_cell() if config.bidirectional else None
        for part in (self.cell, self.backward_cell, self.classifier):
            if part is not None:
                init_uniform(part, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        x = self.read_words(token_ids, lengths)
        ends = [at_end(self._read(self.cell(x)[0]), lengths), *self._backward(x, lengths)]
        return Answer(self.classifier(self.dropout(torch.cat(ends, dim=-1))))

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal in one direction, see the module for both."""
        x = self.read_words(token_ids, lengths)
        return Trace(self.logits_per_word(self.cell(x)[0], x, lengths))

    def read_words(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """What the layer reads at every word, `(batch, time, input)`; no word may look ahead."""
        return self.embed(token_ids, lengths)

    def logits_per_word(self, states: Tensor, x: Tensor, lengths: Tensor) -> Tensor:
        """Class logits `(batch, time, classes)` from the forward states `(batch, time, hidden)`."""
        read = self._read(states)  # (batch, time, read units)
        whole = [end.unsqueeze(1).expand_as(read) for end in self._backward(x, lengths)]
        logits: Tensor = self.classifier(self.dropout(torch.cat([read, *whole], dim=-1)))
        return logits

    def _backward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """What the classifier reads of the backward direction, `(batch, read units)`, where there is one."""
        if self.backward_cell is None:
            return []
        states = self.backward_cell(reverse_words(x, lengths))[0]
        return [at_end(self._read(states), lengths)]

    def _read(self, states: Tensor) -> Tensor:
        """What the classifier reads after every word: `(batch, time, hidden)` -> `(batch, time, read units)`."""
        read = states[..., : self.read_units]
        return running_mean(read) if self.readout == "mean" else read


def running_mean(states: Tensor) -> Tensor:
    """The mean of the states up to each word, `(batch, time, hidden)`."""
    words = torch.arange(1, states.shape[1] + 1, device=states.device, dtype=states.dtype)
    return states.cumsum(dim=1) / words.unsqueeze(-1)
