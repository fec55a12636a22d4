"""Admits documents, forms batches, has them run, and answers every document exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from app.errors import EngineFailed, NotANumber, Problem, ShuttingDown
from app.logs import get_logger
from app.scheduler.admission import Admission, Limits
from app.scheduler.backlog import Backlog
from app.scheduler.batch import Batch, Reason, assemble
from app.scheduler.document import Document, Reading
from app.scheduler.lanes import Lanes
from app.scheduler.order import give_turns, put_back
from app.scheduler.places import Places
from app.scheduler.runner import Engine, FailedRun, Row, Runner, RunObserver
from app.scheduler.segments import Lane
from app.scheduler.watch import Watch

Outcome = Reading | Problem | None  # None: nobody waits for the document any more
Ended = tuple[Document, Outcome]
Deliver = Callable[[Sequence[Ended]], None]
DropStage = Literal["queue", "border"]  # before the first run of a document, or after one
DropReason = Literal["left", "expired"]  # the caller left, or the deadline passed

_PREDICTED_OF = 16

_log = get_logger("readtrace.scheduler")


class Reservation:
    """Room and time that were promised to a request; the scheduler's lock guards it."""

    def __init__(self, estimates: Sequence[Document]) -> None:
        self._estimates = estimates

    def take(self) -> Sequence[Document]:
        """What is reserved still, and is not afterwards."""
        estimates, self._estimates = self._estimates, ()
        return estimates


class Observer(RunObserver, Protocol):
    """What wants to know what happens; called from engine threads."""

    def dispatched(self, lane: Lane, reason: Reason) -> None:
        """A batch was formed."""

    def dropped(self, stage: DropStage, reason: DropReason) -> None:
        """A document was not read on."""

    def queue_changed(self, documents: int, tokens: int) -> None:
        """Documents came, moved on or left."""


class Scheduler:
    """Thread-safe. Callers submit; engine threads take batches and process them.

    ``deliver`` gets every admitted document exactly once with its outcome, one call per batch, on the
    thread that ended it.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        observer: Observer,
        deliver: Deliver,
        watch: Watch,
        clock: Callable[[], float] = time.monotonic,
        places: int = 1,
    ) -> None:
        """Run at most ``places`` batches at the same time."""
        self._engine = engine
        self._lanes = Lanes()
        self._backlog = Backlog(engine.costs, self._lanes.oldest_turn, places)
        self._admission = Admission(limits, self._backlog)
        self._observer = observer
        self._deliver = deliver
        self._clock = clock
        self._runner = Runner(engine, watch, observer, clock)
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._places = Places(places, self._lock, clock)
        self._sequence = 0
        self._found_others = 0  # requests that did
        self._closed = False

    def submit(self, documents: Sequence[Document], reservation: Reservation | None = None) -> None:
        """Queue the documents of a request, all or none; engine threads that wait learn of them by ``wake``.

        Args:
            documents: of one request.
            reservation: what was reserved for them, which ends.

        Raises:
            Refused: not now; the error says when to come back.
            RequestTooLarge: never.
        """
        with self._lock:
            if self._closed:
                raise ShuttingDown("The service is stopping.", 1)
            if reservation is None:
                self._admission.check(documents, self._clock())
            else:
                self.release(reservation)
                self._admission.check_reserved(documents)
            give_turns(documents, self._engine.costs)
            wait_seconds = self._predicted_wait_seconds(documents)
            for document in documents:
                document.predicted_queue_seconds = wait_seconds
                self._sequence += 1
                document.sequence = self._sequence
                self._backlog.add(document)
                self._lanes.push(document)
            self._observe_queue()

    def wake(self) -> None:
        """Let the engine begin with what was submitted, where it does not run already."""
        with self._lock:
            self._wake()

    def reserve(self, estimates: Sequence[Document], preparation_seconds: float) -> Reservation:
        """Promise a request its room and time, while what it is to read is known by an estimate only.

        Without that, all requests that are cut into tokens at the same time would be told of the same
        free room, and most refused after the work of cutting.

        Args:
            estimates: as long as the documents probably are; they are not queued.
            preparation_seconds: until they are known, as predicted.

        Raises:
            Refused: not now; the error says when to come back.
        """
        with self._lock:
            if self._closed:
                raise ShuttingDown("The service is stopping.", 1)
            self._admission.check_estimate(estimates, self._clock() + preparation_seconds)
            for document in estimates:
                self._backlog.add(document)
            self._observe_queue()
        return Reservation(estimates)

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved; nothing happens where that ended already."""
        with self._lock:
            for document in reservation.take():
                self._backlog.remove(document)
            self._observe_queue()

    def take(self) -> Batch | None:
        """Wait for a batch; None once the scheduler is closed."""
        with self._lock:
            while not self._closed:
                if (batch := self.try_take()) is not None:
                    return batch
                self._work.wait()
            return None

    def try_take(self) -> Batch | None:
        """The next batch, or None where none may be formed now."""
        with self._lock:
            lane = self._takable()
            if lane is None:
                return None
            costs, waiting = self._engine.costs(lane), self._lanes.waiting(lane)
            batch = Batch(lane, costs.choose(waiting))
            now = self._clock()
            for document in self._lanes.take(lane):
                (batch.dropped if document.is_over(now) else batch.documents).append(document)
                if len(batch.documents) == batch.rows:
                    break
            if len(batch.documents) == costs.row_counts[-1]:
                batch.reason = "full"
            elif self._lanes.waiting(lane):
                batch.reason = "cheaper"
            batch.rows = costs.fitting(len(batch.documents))
            if batch.documents:
                self._lanes.charge(lane, costs.seconds(batch.rows))
                if not self._places.free:
                    batch.reason = "prepared"
                self._places.reserve(batch)
            self._wake()
            return batch

    def process(self, batch: Batch) -> None:
        """Run a batch, settle the documents that end here and queue the next segments of the others."""
        if batch.documents:
            self._observer.dispatched(batch.lane, batch.reason)
        self._settle(batch, self._read(batch))

    def abandon(self, batch: Batch, why: FailedRun) -> None:
        """Fail what a dead or stuck thread held and had not settled; what it still does counts no more."""
        with self._lock:
            if batch.settled or batch.abandoned:
                return
            batch.abandoned = True
            self._places.release(batch)
            self._wake()
        self._observer.run_failed(batch.lane, why)
        problem = EngineFailed("The engine failed while it read the document.")
        held = [*batch.documents, *batch.dropped]
        self._end([(document, problem) for document in held], [])

    def close(self) -> None:
        """Take nothing new, let every engine thread end, and fail what still waits."""
        with self._lock:
            self._closed = True
            waiting = self._lanes.take_all()
            self._work.notify_all()
        self._end([(document, _stopped()) for document in waiting], [])

    def _predicted_wait_seconds(self, documents: Sequence[Document]) -> float:
        """Of one in sixteen requests that find others: to tell how good predictions are, not worth more."""
        if not self._backlog.documents:
            return 0.0
        self._found_others += 1
        return self._backlog.wait_seconds(documents) if self._found_others % _PREDICTED_OF == 1 else 0.0

    def _takable(self) -> Lane | None:
        """The lane of the next batch.

        While all places are taken only a full batch is formed, to be prepared: another might still grow.
        """
        lane = self._lanes.next_lane()
        if lane is None or self._places.free:
            return lane
        full = self._lanes.waiting(lane) >= self._engine.costs(lane).row_counts[-1]
        return lane if full and self._places.may_prepare else None

    def _wake(self) -> None:
        """Wake one thread where a batch may be formed; it wakes the next where another one may."""
        if self._takable() is not None:
            self._work.notify()

    def _read(self, batch: Batch) -> list[tuple[Document, Problem | None]]:
        """Run what is to be run; every document comes out, with its problem where it has one."""
        if not batch.documents:
            return []
        arrays = assemble(batch.documents, batch.rows)
        with self._lock:
            self._places.wait(batch)
        if batch.abandoned:
            return []
        try:
            found = list(self._runner.read(batch, arrays))
        finally:
            with self._lock:
                if not batch.abandoned:
                    self._places.release(batch)
                    self._wake()
        if batch.abandoned:
            return []
        return [
            (document, _accept(document, part) if isinstance(part, Row) else part) for document, part in found
        ]

    def _settle(self, batch: Batch, read: Sequence[tuple[Document, Problem | None]]) -> None:
        with self._lock:
            if batch.abandoned:
                return
            batch.settled = True
            now = self._clock()
            self._learn(batch, now)
        ended: list[Ended] = [(document, self._drop(document, now)) for document in batch.dropped]
        going_on: list[Document] = []
        for document, problem in read:
            if problem is not None:
                ended.append((document, problem))
            elif document.finished:
                ended.append((document, document.reading(now)))
            elif document.is_over(now):
                ended.append((document, self._drop(document, now)))
            else:
                going_on.append(document)
                self._tell_border(document, now)
        self._end(ended, going_on)

    def _learn(self, batch: Batch, now: float) -> None:
        """Correct the costs: by the time on its place, with the work around the run, where it had that one run."""
        costs = self._engine.costs(batch.lane)
        if len(batch.runs) == 1 and not batch.run_failed:
            ((rows, _),) = batch.runs
            costs.observe(rows, now - batch.placed_seconds)
            return
        for rows, seconds in batch.runs:
            costs.observe(rows, seconds)

    def _end(self, ended: Sequence[Ended], going_on: Sequence[Document]) -> None:
        with self._lock:
            if self._closed:
                ended, going_on = [*ended, *((document, _stopped()) for document in going_on)], []
            for document, _ in ended:
                self._backlog.remove(document)
            for document in going_on:
                self._backlog.progress(document)
                put_back(document, self._engine.costs)
                self._lanes.push(document)
            self._wake()
            self._observe_queue()
        if ended:
            self._deliver(ended)

    def _drop(self, document: Document, now: float) -> Outcome:
        stage: DropStage = "border" if document.position else "queue"
        expired = now >= document.deadline_seconds
        self._observer.dropped(stage, "expired" if expired else "left")
        return document.expired(now) if expired and document.wanted else None

    def _tell_border(self, document: Document, now: float) -> None:
        if document.on_border is None or (so_far := document.reading(now)) is None:
            return
        try:
            document.on_border(so_far)
        except Exception as error:  # a listener that fails must not take the whole batch with it
            document.on_border = None
            _log.error("border_listener_failed", error=type(error).__name__)

    def _observe_queue(self) -> None:
        """Called under the lock: two threads that tell in the wrong order would leave a wrong gauge behind."""
        self._observer.queue_changed(self._backlog.documents, self._backlog.tokens)


def _accept(document: Document, part: Row) -> Problem | None:
    if document.accept(part.outputs, part.row):
        return None
    return NotANumber("The model answered with what is no number.")


def _stopped() -> ShuttingDown:
    return ShuttingDown("The service stopped before the document was read.", 1)
