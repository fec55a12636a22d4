"""Says no before anything waits: bounds what is queued and predicts how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import QueueFull, RequestTooLarge, WaitTooLong
from app.scheduler.document import Document

_LONGEST_RETRY_SECONDS = 60
_WEIGHT = 0.1  # of the newest measurement: about the last twenty full runs count


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may wait: accepted and unanswered documents, and their unread tokens over all passes."""

    documents: int
    tokens: int


class Admission:
    """Counts what is queued. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self, limits: Limits, tokens_per_second: float, threads: int = 1) -> None:
        self._limits = limits
        self._tokens_per_second = tokens_per_second  # of one thread
        self._threads = threads
        self.documents = 0
        self.tokens = 0

    @property
    def wait_seconds(self) -> float:
        """How long what is queued will take."""
        return self.tokens / (self._tokens_per_second * self._threads)

    @property
    def retry_after_seconds(self) -> int:
        """When a refused caller should come back: once what is queued now is read."""
        return min(_LONGEST_RETRY_SECONDS, max(1, math.ceil(self.wait_seconds)))

    def admit(self, documents: Sequence[Document], now_seconds: float) -> None:
        """Count the documents of a request in, all or none.

        Raises:
            RequestTooLarge: they could never be admitted.
            QueueFull: too much waits already.
            WaitTooLong: they would wait beyond their deadline.
        """
        tokens = sum(document.unread_tokens for document in documents)
        self._check_size(len(documents), tokens)
        if (
            self.documents + len(documents) > self._limits.documents
            or self.tokens + tokens > self._limits.tokens
        ):
            detail = f"{self.documents} documents with {self.tokens} unread tokens wait already."
            raise QueueFull(detail, self.retry_after_seconds)
        patience_seconds = min(document.deadline_seconds for document in documents) - now_seconds
        if self.tokens and self.wait_seconds > patience_seconds:
            detail = (
                f"The queue takes {self.wait_seconds:.1f} s; the deadline is in {patience_seconds:.1f} s."
            )
            raise WaitTooLong(detail, self.retry_after_seconds)
        self.documents += len(documents)
        self.tokens += tokens
        for document in documents:
            document.counted_tokens = document.unread_tokens

    def progress(self, document: Document) -> None:
        """Count off what was read of a document since it was counted last."""
        self.tokens -= document.counted_tokens - document.unread_tokens
        document.counted_tokens = document.unread_tokens

    def leave(self, document: Document) -> None:
        """Count a document out, read to its end or not."""
        self.documents -= 1
        self.tokens -= document.counted_tokens

    def measure(self, tokens_per_second: float) -> None:
        """Learn from a full run of one thread; others say little about what the engine can do."""
        self._tokens_per_second += _WEIGHT * (tokens_per_second - self._tokens_per_second)

    def _check_size(self, documents: int, tokens: int) -> None:
        if documents > self._limits.documents or tokens > self._limits.tokens:
            raise RequestTooLarge(
                f"The request has {documents} documents and {tokens} tokens to read; expected at most "
                f"{self._limits.documents} and {self._limits.tokens}. Send it in parts."
            )
