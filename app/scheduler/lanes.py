"""The waiting documents: one lane per model, pass and length bucket.

Models share the engine's time evenly, and so do the lanes of a model: a short document waits for few runs,
however many long ones wait. Within a lane the document goes first whose turn came first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from app.scheduler.document import Document
from app.scheduler.segments import Lane
from app.scheduler.shares import Shares

_REMEMBERED_MODELS = 256
_Line = list[tuple[float, int, Document]]  # a heap of (turn, order of arrival, document)


class Lanes:
    """Not thread-safe: the scheduler's lock guards it."""

    def __init__(self) -> None:
        self._models: dict[str, dict[Lane, _Line]] = {}  # only what is not empty
        self._model_shares: Shares[str] = Shares()
        self._lane_shares: dict[str, Shares[Lane]] = {}

    def push(self, document: Document) -> None:
        """Let a document wait for the run of its next segment."""
        lane = document.lane
        lines = self._models.get(lane.model)
        if lines is None:
            self._forget_the_gone()
            lines = self._models[lane.model] = {}
            self._model_shares.join(lane.model)
        line = lines.get(lane)
        if line is None:
            line = lines[lane] = []
            self._lane_shares.setdefault(lane.model, Shares()).join(lane)
        heapq.heappush(line, (document.turn_seconds, document.sequence, document))

    def next_lane(self) -> Lane | None:
        """The lane whose turn it is."""
        if not self._models:
            return None
        model = self._model_shares.next(self._models)
        return self._lane_shares[model].next(self._models[model])

    def waiting(self, lane: Lane) -> int:
        """How many documents wait in a lane, also those that nobody wants any more."""
        return len(self._models.get(lane.model, {}).get(lane, ()))

    def oldest_turn(self, lane: Lane) -> float | None:
        """The first turn in a lane; None where nothing waits there."""
        line = self._models.get(lane.model, {}).get(lane)
        return line[0][0] if line else None

    def take(self, lane: Lane) -> Iterator[Document]:
        """Take documents out of a lane, those first whose turn came first, for as long as the caller asks."""
        lines = self._models[lane.model]
        line = lines[lane]
        while line:
            document = heapq.heappop(line)[-1]
            if not line:
                del lines[lane]
                if not lines:
                    del self._models[lane.model]
            yield document

    def charge(self, lane: Lane, seconds: float) -> None:
        """Count a run against the lane's share and its model's."""
        self._model_shares.charge(lane.model, seconds)
        self._lane_shares[lane.model].charge(lane, seconds)

    def take_all(self) -> list[Document]:
        """Take out everything."""
        lines = [line for lines in self._models.values() for line in lines.values()]
        self._models.clear()
        return [document for line in lines for *_, document in line]

    def _forget_the_gone(self) -> None:
        """Models come and go with their bundles; those that have nothing waiting lose nothing but a debt."""
        if len(self._lane_shares) >= _REMEMBERED_MODELS:
            self._lane_shares = {one: self._lane_shares[one] for one in self._models}
