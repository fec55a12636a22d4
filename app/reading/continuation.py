"""Where a later reading of the same document goes on, as if its words had come all at once.

A graph's state is defined after full segments only (docs/architecture.md). The words after the last one, the
tail, are therefore read again: they are fewer than the smallest length bucket in use where they were read, though
the process that goes on may use smaller ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.scheduler.document import Array, Reading


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """What was read of a document, for a model of one forward pass."""

    words: int  # read so far, with the tail
    states: Mapping[str, Array]  # before the tail; those that are absent are zeros
    tail: NDArray[np.int64]  # token ids (words,)
    probabilities: NDArray[np.float32] | None = (
        None  # the answer so far (classes,); None where no word was read
    )

    def token_ids(self, further: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is to be read: the tail, then the further words."""
        return np.concatenate([self.tail, further])

    def after(self, token_ids: NDArray[np.int64], reading: Reading) -> Continuation:
        """The one that follows it.

        Args:
            token_ids: as `token_ids` gave them.
            reading: of them, all or the first ones, cut to be continued (``segments.cut``).
        """
        read = token_ids[: reading.tokens]
        words = self.words + len(read) - len(self.tail)
        probabilities = reading.steps["probabilities"][-1]
        checkpoint = reading.checkpoint
        if checkpoint is None:
            return Continuation(words, self.states, read, probabilities)
        return Continuation(words, checkpoint.states, read[checkpoint.tokens :], probabilities)


BEGINNING = Continuation(0, {}, np.empty(0, np.int64))
