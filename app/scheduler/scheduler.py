"""Admits documents, forms batches, runs them, and answers every document exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from app.errors import DeadlineExceeded, Problem, ReadingFailed, ShuttingDown
from app.logs import get_logger
from app.scheduler.admission import Admission, Limits
from app.scheduler.backlog import Backlog
from app.scheduler.batch import assemble
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array, Document, Reading
from app.scheduler.lanes import Lanes
from app.scheduler.order import give_turns, put_back
from app.scheduler.segments import Lane

Outcome = Reading | Problem | None  # None: nobody waits for the document any more
Deliver = Callable[[Sequence[tuple[Document, Outcome]]], None]
Reason = Literal["full", "cheaper", "oldest"]

_log = get_logger("readtrace.scheduler")


class Engine(Protocol):
    """What runs a batch."""

    def costs(self, lane: Lane) -> RunCosts:
        """The numbers of rows that a run of this lane may have, and what each costs; learns from every run."""

    def run(self, lane: Lane, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run one pass over one batch; may raise."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the engine, for the observer."""

    lane: Lane
    documents: int
    rows: int
    tokens: int
    seconds: float
    predicted_seconds: float


class Observer(Protocol):
    """What wants to know what happens; called from engine threads."""

    def dispatched(self, lane: Lane, reason: Reason) -> None:
        """A batch was formed."""

    def ran(self, run: Run) -> None:
        """The engine ran."""

    def queue_changed(self, documents: int, tokens: int) -> None:
        """Documents came, moved on or left."""


@dataclass(slots=True)
class Batch:
    """Documents of one lane taken together; ``documents`` empties when they are settled."""

    lane: Lane
    reason: Reason = "oldest"
    documents: list[Document] = field(default_factory=list)
    dropped: list[Document] = field(default_factory=list)


class Scheduler:
    """Thread-safe. Callers submit; engine threads take batches and process them.

    ``deliver`` gets every admitted document exactly once with its outcome, one call per batch, on the
    engine's thread.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        observer: Observer,
        deliver: Deliver,
        clock: Callable[[], float] = time.monotonic,
        threads: int = 1,
    ) -> None:
        self._engine = engine
        self._backlog = Backlog(engine.costs, threads)
        self._admission = Admission(limits, self._backlog)
        self._observer = observer
        self._deliver = deliver
        self._clock = clock
        self._lanes = Lanes()
        self._changed = threading.Condition()
        self._sequence = 0
        self._closed = False

    def submit(self, documents: Sequence[Document]) -> None:
        """Queue the documents of a request, all or none.

        Raises:
            Refused: not now; the error says when to come back.
            RequestTooLarge: never.
        """
        with self._changed:
            if self._closed:
                raise ShuttingDown("The service is stopping.", 1)
            self._admission.check(documents, self._clock())
            give_turns(documents, self._engine.costs)
            for document in documents:
                self._sequence += 1
                document.sequence = self._sequence
                self._backlog.add(document)
                self._lanes.push(document)
            self._changed.notify(len(documents))
            self._observe_queue()

    def check_early(self, probe: Document, documents: int, tokens: int) -> None:
        """Refuse a request, of which only the size is known, where too much waits already.

        Args:
            probe: as long as the longest document of the request, up to one segment; it is not queued.
            documents: of the request.
            tokens: of the request, over all passes, as estimated.

        Raises:
            Refused: not now; the error says when to come back.
        """
        with self._changed:
            self._admission.check_early(probe, documents, tokens, self._clock())

    def take(self) -> Batch | None:
        """Wait for work; the next batch, or None once the scheduler is closed."""
        with self._changed:
            while not self._closed and self._lanes.next_lane() is None:
                self._changed.wait()
            return self.try_take()

    def try_take(self) -> Batch | None:
        """The next batch, or None where nothing waits."""
        with self._changed:
            lane = self._lanes.next_lane()
            if lane is None:
                return None
            batch = Batch(lane)
            costs, waiting = self._engine.costs(lane), self._lanes.waiting(lane)
            rows = costs.choose(waiting)
            for document in self._lanes.take(lane):
                (batch.dropped if self._is_over(document) else batch.documents).append(document)
                if len(batch.documents) == rows:
                    batch.reason = "full" if rows == costs.row_counts[-1] else "cheaper"
                    break
            if batch.documents:
                self._lanes.charge(lane, costs.seconds(costs.fitting(len(batch.documents))))
            return batch

    def process(self, batch: Batch) -> None:
        """Run a batch, settle the documents that end here and queue the next segments of the others."""
        ended: list[tuple[Document, Outcome]] = [
            (document, self._farewell(document)) for document in batch.dropped
        ]
        going_on: list[Document] = []
        if batch.documents:
            self._observer.dispatched(batch.lane, batch.reason)
            for document, problem in self._read(batch, batch.documents):
                if problem is not None:
                    ended.append((document, problem))
                elif document.finished:
                    ended.append((document, document.result(self._clock())))
                else:
                    going_on.append(document)
        self._settle(batch, ended, going_on)

    def abandon(self, batch: Batch) -> None:
        """Fail what a dying engine thread held and had not settled."""
        problem = ReadingFailed("The engine failed while it read the document.")
        held = [(document, problem) for document in (*batch.documents, *batch.dropped)]
        self._settle(batch, held, [])

    def close(self) -> None:
        """Take nothing new, let every engine thread end, and fail what still waits."""
        with self._changed:
            self._closed = True
            waiting = self._lanes.take_all()
            self._changed.notify_all()
        self._end([(document, _stopped()) for document in waiting], [])

    def _read(self, batch: Batch, documents: Sequence[Document]) -> Iterator[tuple[Document, Problem | None]]:
        """Run documents together; where that raises, in halves, until the one to blame is alone."""
        try:
            outputs = self._run(batch, documents)
        except Exception as error:
            if len(documents) == 1:
                _log.error("run_failed", **batch.lane._asdict(), error=type(error).__name__)
                yield documents[0], ReadingFailed("The model failed on this document.")
                return
            middle = len(documents) // 2
            yield from self._read(batch, documents[:middle])
            yield from self._read(batch, documents[middle:])
            return
        for row, document in enumerate(documents):
            finite = document.accept(outputs, row)
            yield document, None if finite else ReadingFailed("The model answered with what is no number.")

    def _run(self, batch: Batch, documents: Sequence[Document]) -> Mapping[str, Array]:
        costs = self._engine.costs(batch.lane)
        rows = costs.fitting(len(documents))
        tokens = sum(document.segment.tokens for document in documents)
        started = self._clock()
        outputs = self._engine.run(batch.lane, assemble(documents, rows))
        seconds = self._clock() - started
        for document in documents:
            document.run_seconds += seconds
        predicted_seconds = costs.seconds(rows)
        self._observer.ran(Run(batch.lane, len(documents), rows, tokens, seconds, predicted_seconds))
        with self._changed:
            costs.observe(rows, seconds)
        return outputs

    def _settle(
        self, batch: Batch, ended: Sequence[tuple[Document, Outcome]], going_on: Sequence[Document]
    ) -> None:
        batch.documents, batch.dropped = [], []  # whatever fails from here on, they are settled
        self._end(ended, going_on)

    def _end(self, ended: Sequence[tuple[Document, Outcome]], going_on: Sequence[Document]) -> None:
        with self._changed:
            if self._closed:
                ended, going_on = [*ended, *((document, _stopped()) for document in going_on)], []
            for document, _ in ended:
                self._backlog.remove(document)
            for document in going_on:
                self._backlog.progress(document)
                put_back(document, self._engine.costs)
                self._lanes.push(document)
            self._changed.notify(len(going_on))
            self._observe_queue()
        if ended:
            self._deliver(ended)

    def _is_over(self, document: Document) -> bool:
        return document.future.done() or self._clock() >= document.deadline_seconds

    def _farewell(self, document: Document) -> Outcome:
        return (
            None if document.future.done() else DeadlineExceeded("The deadline passed before the last word.")
        )

    def _observe_queue(self) -> None:
        """Called under the lock: two threads that tell in the wrong order would leave a wrong gauge behind."""
        self._observer.queue_changed(self._backlog.documents, self._backlog.tokens)


def _stopped() -> ShuttingDown:
    return ShuttingDown("The service stopped before the document was read.", 1)
