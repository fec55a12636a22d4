"""What was accepted and is not read yet, by lane, and how long it keeps a newcomer waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from app.scheduler.costs import RunCosts
from app.scheduler.document import Document
from app.scheduler.order import CostsOf, first_turn
from app.scheduler.segments import Lane

OldestTurn = Callable[[Lane], float | None]


class _Unread:
    """The unread segments of one lane."""

    def __init__(self, costs: RunCosts) -> None:
        self._costs = costs
        self.segments = 0
        self._documents: Counter[int] = Counter()  # how many have so many segments
        self._seconds: float | None = None  # every newcomer asks, and a run changes it a little only

    def change(self, before: int, after: int) -> None:
        """A document has ``after`` segments to read where it had ``before``."""
        self.segments += after - before
        self._seconds = None
        for count, step in ((before, -1), (after, 1)):
            if count:
                self._documents[count] += step
                if not self._documents[count]:
                    del self._documents[count]

    def first(self, most: float) -> float:
        """Segments of all documents, of each at most so many."""
        return sum(documents * min(segments, most) for segments, documents in self._documents.items())

    @property
    def seconds(self) -> float:
        """Engine time until all are read, by the costs of when they changed last."""
        if self._seconds is None:
            self._seconds = self._work_out_seconds()
        return self._seconds

    def _work_out_seconds(self) -> float:
        """Segments of one document cannot share a run."""
        total, before, documents = 0.0, 0, self._documents.total()
        for segments, ending in sorted(self._documents.items()):
            total += (segments - before) * self._costs.work_seconds(documents)
            before, documents = segments, documents - ending
        return total


class Backlog:
    """Accepted and unanswered documents. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self, costs_of: CostsOf, oldest_turn: OldestTurn, places: int = 1) -> None:
        self._costs_of = costs_of
        self._oldest_turn = oldest_turn
        self._places = places  # where runs happen at the same time
        self._models: dict[str, dict[Lane, _Unread]] = {}
        self.documents = 0
        self.tokens = 0  # unread, over all passes

    def add(self, document: Document) -> None:
        """Count an accepted document in."""
        self.documents += 1
        self.tokens += sum(segment.tokens for segment in document.segments)
        for lane, segments in document.unread.items():
            lanes = self._models.setdefault(lane.model, {})
            if lane not in lanes:
                lanes[lane] = _Unread(self._costs_of(lane))
            lanes[lane].change(0, segments)

    def progress(self, document: Document) -> None:
        """Count off the segments of a document that were read since it was counted last."""
        self._take_off(document, document.position)

    def remove(self, document: Document) -> None:
        """Count a document out, read to its end or not."""
        self.documents -= 1
        self._take_off(document, len(document.segments))

    @property
    def seconds(self) -> float:
        """How long all of it takes, which falls by a second each second while nothing comes."""
        return sum(map(self._model_seconds, self._models)) / self._places

    def wait_seconds(self, documents: Sequence[Document]) -> float:
        """How long a request's documents would wait for others, beyond the time of their own runs.

        Models share the engine evenly, and so do the lanes of a model: until the request is read, each of
        the others gets at most as much engine time as it. In its own lanes it awaits what has its turn
        before: of a long document as many segments as it has itself, and those that are overdue.
        """
        own = _own(documents)
        first = documents[0]
        waits = [self._until_read(lane, own, own[lane] + self._overdue(first, lane)) for lane in own]
        return min(self.seconds, max(waits) / self._places)

    def own_seconds(self, documents: Sequence[Document]) -> float:
        """How long the request's own runs take, of which each document needs one after another.

        While others wait they share these runs, which are so much longer. What may be answered in part is
        worth the first run, so nothing of it counts.
        """
        sharing = self.documents + len(documents)

        def seconds(document: Document) -> float:
            costs = ((self._costs_of(lane), segments) for lane, segments in document.unread.items())
            return sum(segments * one.seconds(one.fitting(sharing)) for one, segments in costs)

        return max((seconds(document) for document in documents if not document.partial), default=0.0)

    def _overdue(self, newcomer: Document, lane: Lane) -> float:
        """Segments that a document of the lane has at most before the newcomer's first turn."""
        oldest = self._oldest_turn(lane)
        if oldest is None:
            return 0.0
        one = self._costs_of(lane).document_seconds
        return max(0.0, first_turn(newcomer) - oldest) / one if one else float("inf")

    def _until_read(self, lane: Lane, own: Mapping[Lane, int], most_of_each: float) -> float:
        """Engine time that others get before the request's segments of this lane are read."""
        lanes = self._models.get(lane.model, {})
        ahead = lanes[lane].first(most_of_each) if lane in lanes else 0
        in_lane = self._work(lane, ahead + own[lane])
        of_model = in_lane - self._work(lane, own[lane])
        for other, unread in lanes.items():
            if other != lane:
                of_model += min(in_lane, unread.seconds)
        until = of_model + self._work(lane, own[lane])
        others = (self._model_seconds(model) for model in self._models if model != lane.model)
        return of_model + sum(min(until, seconds) for seconds in others)

    def _model_seconds(self, model: str) -> float:
        return sum(unread.seconds for unread in self._models[model].values())

    def _work(self, lane: Lane, segments: float) -> float:
        return self._costs_of(lane).work_seconds(segments)

    def _take_off(self, document: Document, position: int) -> None:
        for segment in document.segments[document.counted : position]:
            lane = document.lane_of(segment)
            unread, left = self._models[lane.model][lane], document.unread[lane]
            unread.change(left, left - 1)
            document.unread[lane] = left - 1
            self.tokens -= segment.tokens
            if not unread.segments:
                del self._models[lane.model][lane]
                if not self._models[lane.model]:
                    del self._models[lane.model]
        document.counted = position


def _own(documents: Sequence[Document]) -> Counter[Lane]:
    own: Counter[Lane] = Counter()
    for document in documents:
        own.update(document.unread)
    return own
