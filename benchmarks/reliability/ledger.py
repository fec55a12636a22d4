"""What became of every request, and when."""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Literal, TypedDict

import httpx
import numpy as np

# answered: 200 with the right content; problem: the error that the request deserves; refused: 429 or 503 with
# `Retry-After`; expired: 504; left: the client left first; wrong: any other answer; lost: none, and the client stayed
Outcome = Literal["answered", "problem", "refused", "expired", "left", "wrong", "lost"]

_EXAMPLES = 20


class Minute(TypedDict):
    """The latencies of one minute."""

    minute: int
    answered: int
    p50_ms: float
    p99_ms: float


class Ledger:
    """Counts outcomes by kind of traffic, and keeps the times of what was answered to `timed` kinds."""

    def __init__(self, *timed: str) -> None:
        self.counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
        self.examples: list[str] = []  # of what went wrong
        self._timed = timed
        self._begun = time.monotonic()
        self._seconds: dict[int, list[float]] = defaultdict(list)  # by minute

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def note(self, kind: str, outcome: Outcome, seconds: float = 0, example: str = "") -> None:
        """Count one request; wrong and lost ones leave an example."""
        self.counts[kind][outcome] += 1
        if outcome in ("wrong", "lost") and len(self.examples) < _EXAMPLES:
            self.examples.append(f"{self.elapsed:.0f} s, {kind}, {outcome}: {example}")
        if outcome == "answered" and kind in self._timed:
            self._seconds[int((self.elapsed - seconds) // 60)].append(seconds)

    def minutes(self) -> list[Minute]:
        """The middle and the 99th percentile, by the minute in which the request began."""
        return [
            Minute(
                minute=minute,
                answered=len(seconds),
                p50_ms=round(statistics.median(seconds) * 1e3, 1),
                p99_ms=round(float(np.quantile(seconds, 0.99)) * 1e3, 1),
            )
            for minute, seconds in sorted(self._seconds.items())
        ]


def refusal(response: httpx.Response) -> Outcome | None:
    """What a service that is too busy answers: a refusal says when to come back."""
    if response.status_code in (429, 503) and "retry-after" in response.headers:
        return "refused"
    return "expired" if response.status_code == 504 else None


def slope(seconds: Sequence[float], values: Sequence[float]) -> float:
    """Growth per minute of the least-squares line; 0 for fewer than two samples."""
    if len(seconds) < 2:
        return 0.0
    return float(np.polyfit(np.asarray(seconds) / 60, values, 1)[0])
