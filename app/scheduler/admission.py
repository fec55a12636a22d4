"""Says no before anything waits: bounds what is queued and predicts how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import QueueFull, RequestTooLarge, WaitTooLong
from app.scheduler.backlog import Backlog
from app.scheduler.document import Document

_LONGEST_RETRY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may wait: accepted and unanswered documents, and their unread tokens over all passes."""

    documents: int
    tokens: int


class Admission:
    """Decides on the backlog that it is given. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self, limits: Limits, backlog: Backlog) -> None:
        self._limits = limits
        self._backlog = backlog

    def check(self, documents: Sequence[Document], now_seconds: float) -> None:
        """Let the documents of a request in, all or none; whoever calls counts them.

        Raises:
            RequestTooLarge: they could never be admitted.
            QueueFull: too much waits already.
            WaitTooLong: they would wait beyond their deadline.
        """
        queued = self._backlog
        tokens = sum(document.unread_tokens for document in documents)
        self._check_size(len(documents), tokens)
        if (
            queued.documents + len(documents) > self._limits.documents
            or queued.tokens + tokens > self._limits.tokens
        ):
            detail = f"{queued.documents} documents with {queued.tokens} unread tokens wait already."
            raise QueueFull(detail, _retry_after_seconds(queued.seconds))
        patience_seconds = min(document.deadline_seconds for document in documents) - now_seconds
        wait_seconds = queued.wait_seconds(documents)
        if wait_seconds > max(0.0, patience_seconds):
            detail = f"The queue takes {wait_seconds:.1f} s; the deadline is in {patience_seconds:.1f} s."
            raise WaitTooLong(detail, _retry_after_seconds(wait_seconds))

    def _check_size(self, documents: int, tokens: int) -> None:
        if documents > self._limits.documents or tokens > self._limits.tokens:
            raise RequestTooLarge(
                f"The request has {documents} documents and {tokens} tokens to read; expected at most "
                f"{self._limits.documents} and {self._limits.tokens}. Send it in parts."
            )


def _retry_after_seconds(wait_seconds: float) -> int:
    """When a refused caller should come back: once what is queued now is read."""
    return min(_LONGEST_RETRY_SECONDS, max(1, math.ceil(wait_seconds)))
