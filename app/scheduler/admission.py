"""Says no before anything waits: bounds what is queued and predicts how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import QueueFull, RequestTooLarge, WaitTooLong
from app.scheduler.backlog import Backlog
from app.scheduler.document import Document

_MARGIN = 1.5  # where few documents wait, fewer share a run than predicted; the answer has its way to go too


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may wait, and for how long.

    Attributes:
        documents: accepted and unanswered.
        tokens: unread ones of these, over all passes.
        wait_seconds: that a request may be predicted to wait for others, however late its deadline: what keeps
            the latency of the accepted where it is while more come than can be read.
    """

    documents: int
    tokens: int
    wait_seconds: float = math.inf


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
            WaitTooLong: they would not be read by their deadline.
        """
        self.check_reserved(documents)
        self._check_wait(documents, now_seconds)

    def check_estimate(self, estimates: Sequence[Document], ready_seconds: float) -> None:
        """Let a request in by an estimate of its documents; an empty queue lets every one in.

        Args:
            estimates: as long as the documents probably are.
            ready_seconds: when they are known, on the scheduler's clock.

        Raises:
            QueueFull: too much waits already.
            WaitTooLong: they would not be read by their deadline.
        """
        if self._backlog.documents:
            tokens = sum(document.unread_tokens for document in estimates)
            self._check_room(min(len(estimates), self._limits.documents), min(tokens, self._limits.tokens))
            self._check_wait(estimates, ready_seconds)

    def check_reserved(self, documents: Sequence[Document]) -> None:
        """Let in what an estimate of it let in before: whether it will be in time was decided then.

        Raises:
            RequestTooLarge: they could never be admitted.
            QueueFull: they are longer than estimated, and too much waits already.
        """
        tokens = sum(document.unread_tokens for document in documents)
        if len(documents) > self._limits.documents or tokens > self._limits.tokens:
            raise RequestTooLarge(
                f"The request has {len(documents)} documents and {tokens} tokens to read; expected at most "
                f"{self._limits.documents} and {self._limits.tokens}. Send it in parts."
            )
        self._check_room(len(documents), tokens)

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
        """Refuse what would be late: reading it in vain would make others late too."""
        if not self._backlog.documents:
            return  # costs that were learned wrong must not refuse for ever what nothing stands in the way of
        patience_seconds = max(0.0, min(document.deadline_seconds for document in documents) - now_seconds)
        own_seconds = self._backlog.own_seconds(documents)
        in_time = patience_seconds - _MARGIN * own_seconds  # the longest wait that leaves time to read
        most_seconds = min(in_time, self._limits.wait_seconds)
        if _MARGIN * self._backlog.seconds <= most_seconds:
            return  # no wait is longer than all that is queued
        wait_seconds = self._backlog.wait_seconds(documents)
        if _MARGIN * wait_seconds > most_seconds:
            detail = (
                f"The queue takes about {wait_seconds:.1f} s and reading {own_seconds:.1f} s; the deadline is in "
                f"{patience_seconds:.1f} s, and the longest wait {self._limits.wait_seconds:g} s."
            )
            # Only what is queued in all falls by a second each second.
            spare_seconds = max(0.0, most_seconds)
            raise WaitTooLong(detail, _whole(_MARGIN * self._backlog.seconds - spare_seconds))


def _whole(seconds: float) -> int:
    """``Retry-After``: a caller who comes back then is let in, unless others were quicker."""
    return max(1, math.ceil(seconds))
