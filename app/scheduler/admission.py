"""Says no before anything waits: bounds what is queued and predicts how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import QueueFull, RequestTooLarge, WaitTooLong
from app.scheduler.backlog import Backlog
from app.scheduler.document import Document

_MARGIN = 1.5  # where few documents wait, fewer share a run than predicted


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
        tokens = sum(document.unread_tokens for document in documents)
        if len(documents) > self._limits.documents or tokens > self._limits.tokens:
            raise RequestTooLarge(
                f"The request has {len(documents)} documents and {tokens} tokens to read; expected at most "
                f"{self._limits.documents} and {self._limits.tokens}. Send it in parts."
            )
        self._check_room(len(documents), tokens)
        self._check_wait(documents, now_seconds)

    def check_early(self, probe: Document, documents: int, tokens: int, now_seconds: float) -> None:
        """Refuse what ``check`` would refuse, by an estimate; an empty queue lets everything on to ``check``.

        Raises:
            QueueFull: too much waits already.
            WaitTooLong: even the probe would wait beyond its deadline.
        """
        if self._backlog.documents:
            self._check_room(min(documents, self._limits.documents), min(tokens, self._limits.tokens))
            self._check_wait([probe], now_seconds)

    def _check_room(self, documents: int, tokens: int) -> None:
        queued = self._backlog
        if (
            queued.documents + documents > self._limits.documents
            or queued.tokens + tokens > self._limits.tokens
        ):
            detail = f"{queued.documents} documents with {queued.tokens} unread tokens wait already."
            # Not less: which documents leave first, and with how many tokens, is not known beforehand.
            raise QueueFull(detail, _whole(_MARGIN * queued.seconds))

    def _check_wait(self, documents: Sequence[Document], now_seconds: float) -> None:
        patience_seconds = max(0.0, min(document.deadline_seconds for document in documents) - now_seconds)
        wait_seconds = self._backlog.wait_seconds(documents)
        if wait_seconds > patience_seconds:
            detail = f"The queue takes {wait_seconds:.1f} s; the deadline is in {patience_seconds:.1f} s."
            # No wait is longer than all that is queued, and only that falls by a second each second.
            raise WaitTooLong(detail, _whole(_MARGIN * self._backlog.seconds - patience_seconds))


def _whole(seconds: float) -> int:
    """``Retry-After``: a caller who comes back then is let in, unless others were quicker."""
    return max(1, math.ceil(seconds))
