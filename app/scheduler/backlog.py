"""What was accepted and is not read yet, by lane, and how long it keeps a newcomer waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from app.scheduler.costs import RunCosts
from app.scheduler.document import Document
from app.scheduler.segments import Lane

CostsOf = Callable[[Lane], RunCosts]


class Backlog:
    """Accepted and unanswered documents. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self, costs_of: CostsOf, threads: int = 1) -> None:
        self._costs_of = costs_of
        self._threads = threads  # that run at the same time
        self._segments: dict[str, Counter[Lane]] = {}  # by model, those unread of every lane
        self.documents = 0
        self.tokens = 0  # unread, over all passes

    def add(self, document: Document) -> None:
        """Count an accepted document in."""
        self.documents += 1
        for lane, segments in document.unread_lanes().items():
            self._segments.setdefault(lane.model, Counter())[lane] += segments
        self.tokens += document.unread_tokens
        document.counted = document.position

    def progress(self, document: Document) -> None:
        """Count off the segments of a document that were read since it was counted last."""
        self._take_off(document, document.position)

    def remove(self, document: Document) -> None:
        """Count a document out, read to its end or not."""
        self.documents -= 1
        self._take_off(document, len(document.segments))

    @property
    def seconds(self) -> float:
        """How long all of it takes."""
        return sum(self._model_seconds(model) for model in self._segments) / self._threads

    def wait_seconds(self, documents: Iterable[Document]) -> float:
        """How long a request's documents would wait for others, beyond the time of their own runs.

        Models share the engine evenly, and so do the lanes of a model: until the request is read, each of
        the others gets at most as much engine time as it. What is ahead in its own lanes it awaits whole.
        """
        own: Counter[Lane] = Counter()
        for document in documents:
            own.update(document.unread_lanes())
        return max((self._until_read(lane, own) for lane in own), default=0.0) / self._threads

    def _until_read(self, lane: Lane, own: Mapping[Lane, int]) -> float:
        """Engine time that others get before the request's segments of this lane are read."""
        mine = self._work(lane, own[lane])
        in_lane = self._work(lane, self._segments.get(lane.model, Counter())[lane] + own[lane])
        of_model = in_lane
        others_own = 0.0
        for other in {*self._segments.get(lane.model, ()), *own} - {lane}:
            if other.model == lane.model:
                waiting = self._segments.get(other.model, Counter())[other]
                of_model += min(in_lane, self._work(other, waiting + own.get(other, 0)))
                others_own += min(in_lane, self._work(other, own.get(other, 0)))
        total = of_model + sum(
            min(of_model, self._model_seconds(model)) for model in self._segments if model != lane.model
        )
        return max(0.0, total - mine - others_own)

    def _model_seconds(self, model: str) -> float:
        return sum(self._work(lane, segments) for lane, segments in self._segments[model].items())

    def _work(self, lane: Lane, segments: int) -> float:
        return self._costs_of(lane).work_seconds(segments)

    def _take_off(self, document: Document, position: int) -> None:
        for segment in document.segments[document.counted : position]:
            lane = document.lane_of(segment)
            lanes = self._segments[lane.model]
            lanes[lane] -= 1
            self.tokens -= segment.tokens
            if not lanes[lane]:
                del lanes[lane]
            if not lanes:
                del self._segments[lane.model]
        document.counted = position
