"""What the service is asked to read, and the way from its texts to documents and from readings to answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.engine.registry import LoadedModel
from app.errors import DocumentTooLong, Problem
from app.keys import Caller
from app.reading.answer import Answer
from app.reading.continuation import BEGINNING, Continuation
from app.scheduler.document import Document, Reading
from app.scheduler.segments import Segment, continues, cut
from app.text.tokens import TokenizedText, Truncate, tokenize

Tokenized = list[tuple[TokenizedText | Problem, float]]  # with the seconds that each took


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the documents of a request are to be read."""

    truncate: Truncate = "error"  # what happens to documents beyond the limit
    partial: bool = (
        False  # whether at the deadline what was read so far is the answer, where there is a first part
    )
    continued: Continuation = (
        BEGINNING  # what was read before; where that is something, there is one document
    )
    return_state: bool = False  # whether answers have the state to go on from, where the model can


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Texts that are read together, for whom and until when."""

    model: LoadedModel
    texts: Sequence[str]
    wanted: Wanted
    deadline_seconds: float  # on the monotonic clock
    caller: Caller | None = None

    @property
    def characters(self) -> int:
        """Of all texts."""
        return sum(map(len, self.texts))

    def most_tokens(self, limit: int) -> int:
        """Tokens that a document may have, where the service reads ``limit`` at once.

        Raises:
            DocumentTooLong: the document that is continued has no room left.
        """
        words, longest = self.wanted.continued.words, self.model.manifest.longest_document
        if words >= longest:
            raise DocumentTooLong(f"The document has {words} tokens already; expected less than {longest}.")
        return min(limit, longest - words)

    def tokenize(self, most_tokens: int, is_given_up: Callable[[], bool] = lambda: False) -> Tokenized:
        """Cut the texts; one that cannot be read, or is not any more, takes its place as a problem."""
        tokenized: Tokenized = []
        for text in self.texts:
            started = time.perf_counter()
            try:
                result: TokenizedText | Problem = tokenize(
                    self.model.tokenizer,
                    text,
                    most_tokens,
                    self.wanted.truncate,
                    self.model.places,
                    is_given_up,
                )
            except Problem as problem:
                result = problem
            tokenized.append((result, time.perf_counter() - started))
        return tokenized

    def document(self, text: TokenizedText) -> Document:
        """What the scheduler reads."""
        continued = self.wanted.continued
        token_ids = continued.token_ids(text.token_ids)
        return Document(
            self.model,
            token_ids,
            self._segments(len(token_ids)),
            time.monotonic(),
            self.deadline_seconds,
            self.wanted.partial,
            states=continued.states,
            again=len(continued.tail),
        )

    def estimate(self, tokens: int) -> Document:
        """A document of so many tokens, none of which is known yet; not to be read."""
        return Document(
            self.model,
            np.empty(0, np.int64),
            self._segments(tokens),
            time.monotonic(),
            self.deadline_seconds,
            self.wanted.partial,
        )

    def answer(self, text: TokenizedText, reading: Reading, tokenize_seconds: float) -> Answer:
        """What a reading of its document says, without the words that were read again."""
        continued = self.wanted.continued
        again = len(continued.tail)
        tokens = reading.tokens - again
        return Answer(
            self.model,
            text.first(tokens),
            replace(reading, steps={name: array[again:] for name, array in reading.steps.items()}),
            tokenize_seconds,
            tokens / len(text.token_ids),
            continued.words,
            continued.probabilities,
        )

    def after(self, text: TokenizedText, reading: Reading) -> Continuation | None:
        """Where a later reading goes on; None where that was not asked for or cannot be."""
        # After a text whose end was cut off, further words would follow a gap.
        cut_off = text.truncated and self.wanted.truncate == "right"
        if cut_off or not self._is_to_continue:
            return None
        continued = self.wanted.continued
        return continued.after(continued.token_ids(text.token_ids), reading)

    def _segments(self, tokens: int) -> tuple[Segment, ...]:
        buckets = self.model.calibration.buckets
        return cut(self.model.manifest, tokens, self._is_to_continue, buckets)

    @property
    def _is_to_continue(self) -> bool:
        return self.wanted.return_state and continues(self.model.manifest)
