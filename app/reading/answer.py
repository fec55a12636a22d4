"""What reading one text gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.engine.model import Model
from app.scheduler.document import Reading
from app.text.tokens import TokenizedText


@dataclass(frozen=True, eq=False)
class Answer:
    """One document's reading with its text, as far as it was read, and its times."""

    model: Model
    text: TokenizedText
    reading: Reading
    tokenize_seconds: float
    share_read: float = 1.0  # of the text's tokens; below one where the deadline cut the reading short
    words_before: int = 0  # of the same document, read earlier
    probabilities_before: NDArray[np.float32] | None = None  # the answer that those left (classes,)
    state: str | None = None  # the token with which to go on, where it was asked for and the model can

    def since(self, first: int) -> Answer:
        """The same answer with only the tokens from ``first`` on, of which there must be some."""
        steps = {name: array[first:] for name, array in self.reading.steps.items()}
        return replace(self, text=self.text.since(first), reading=replace(self.reading, steps=steps))

    @property
    def partial(self) -> bool:
        """Whether only the text's first part was read."""
        return self.share_read < 1

    @cached_property
    def probabilities(self) -> NDArray[np.float32]:
        """The answer, ``[classes]``: what the last word left."""
        last: NDArray[np.float32] = self.reading.steps["probabilities"][-1]
        return last

    @cached_property
    def winner(self) -> int:
        """The index of the most probable label."""
        shares: list[float] = self.probabilities.tolist()
        return shares.index(max(shares))  # NumPy's own search hands the interpreter's lock to another thread
