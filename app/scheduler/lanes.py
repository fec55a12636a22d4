"""The waiting documents: one lane per model, pass and length bucket.

Lanes take turns, so a short document waits for at most one run of every other lane, however long the
documents there are. Within a lane the oldest document goes first, so what was begun is finished.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from app.scheduler.document import Document


class Lane(NamedTuple):
    """What the documents of one run have in common."""

    model: str  # name@version
    reading: str  # the pass's name
    bucket: int


@dataclass(slots=True)
class _Line:
    """The documents of a lane, oldest first, and the lane's place among the others."""

    turn: int
    heap: list[tuple[int, Document]] = field(default_factory=list)


class Lanes:
    """Not thread-safe: the scheduler's lock guards it."""

    def __init__(self) -> None:
        self._lines: dict[Lane, _Line] = {}
        self._turns = count()

    def push(self, document: Document) -> None:
        """Let a document wait for the run of its next segment."""
        segment = document.segment
        lane = Lane(document.model, segment.reading.name, segment.bucket)
        line = self._lines.get(lane)
        if line is None:
            line = self._lines[lane] = _Line(next(self._turns))
        heapq.heappush(line.heap, (document.sequence, document))

    def next_lane(self) -> Lane | None:
        """The lane whose turn it is."""
        return min(self._lines, key=lambda lane: self._lines[lane].turn, default=None)

    def take(self, lane: Lane) -> Iterator[Document]:
        """Take documents out of a lane, oldest first, for as long as the caller asks.

        The lane goes behind all others at the first document, and away with its last one.
        """
        line = self._lines[lane]
        line.turn = next(self._turns)
        while line.heap:
            _, document = heapq.heappop(line.heap)
            if not line.heap:
                del self._lines[lane]
            yield document

    def take_all(self) -> list[Document]:
        """Take out everything."""
        documents = [document for line in self._lines.values() for _, document in line.heap]
        self._lines.clear()
        return documents
