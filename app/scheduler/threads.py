"""The engine threads: each takes a batch, processes it, and takes the next; idle ones wait without waking."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from app.logs import get_logger
from app.scheduler.batch import Batch
from app.scheduler.runner import FailedRun
from app.scheduler.scheduler import Scheduler
from app.scheduler.watch import Watch

_WINDOW_SECONDS = 3600.0  # restarts longer ago say nothing about the engine of now

_log = get_logger("readtrace.engine")


class ThreadObserver(Protocol):
    """What wants to know of the threads; called from any of them."""

    def threads_changed(self, working: int) -> None:
        """Threads were started, or one is lost."""

    def restarted(self) -> None:
        """A lost thread is replaced."""


@dataclass(slots=True, eq=False)
class _Worker:
    thread: threading.Thread | None = None
    batch: Batch | None = None
    lost: bool = False  # dead, or stuck and left behind


class EngineThreads:
    """As many threads as run at the same time, and one more that prepares a batch meanwhile.

    A thread that dies, or is stuck in a run that does not stop, fails what it held and is replaced.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        watch: Watch,
        threads: int,
        observer: ThreadObserver,
        most_restarts: int,
        give_up: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """After ``most_restarts`` within an hour, the next loss calls ``give_up`` with a message."""
        self._scheduler = scheduler
        self._watch = watch
        self._wanted = threads + 1
        self._observer = observer
        self._most_restarts = most_restarts
        self._give_up = give_up
        self._clock = clock
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._started = 0
        self._restarts: deque[float] = deque()
        self._watcher = threading.Thread(
            target=watch.run_forever, args=(self._stuck,), name="engine-watch", daemon=True
        )

    @property
    def complete(self) -> bool:
        """Whether every thread that should work does, and the one that stops runs."""
        return len(self._workers) == self._wanted and self._watcher.is_alive()

    def start(self) -> None:
        """Start all threads."""
        for _ in range(self._wanted):
            self._start_one()
        self._watcher.start()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the threads to end, which they do once the scheduler is closed."""
        until = self._clock() + timeout_seconds
        with self._lock:
            threads = [worker.thread for worker in self._workers if worker.thread is not None]
        for thread in threads:
            thread.join(max(0.0, until - self._clock()))
        self._watch.close()
        self._watcher.join(max(0.0, until - self._clock()))

    def _stuck(self, batch: Batch) -> None:
        """The run of a batch does not stop: leave its thread behind."""
        with self._lock:
            worker = next((one for one in self._workers if one.batch is batch), None)
        if worker is not None:
            self._lose(worker, batch, "stuck", "a run did not stop")

    def _start_one(self) -> None:
        worker = _Worker()
        with self._lock:  # who waits for the listed threads finds only started ones
            self._started += 1
            worker.thread = threading.Thread(
                target=self._work, args=(worker,), name=f"engine-{self._started}", daemon=True
            )
            try:
                worker.thread.start()
                self._workers.append(worker)
            except RuntimeError:  # no more threads on this machine
                worker.lost = True
        if worker.lost:
            self._give_up("an engine thread cannot be started")
        self._tell()

    def _tell(self) -> None:
        with self._lock:  # two threads that tell in the wrong order would leave a wrong gauge behind
            self._observer.threads_changed(len(self._workers))

    def _work(self, worker: _Worker) -> None:
        try:
            while not worker.lost and self._work_once(worker):
                pass
        except BaseException as error:  # also of what is no Exception: whatever ends a thread
            self._lose(worker, worker.batch, "died", type(error).__name__)

    def _work_once(self, worker: _Worker) -> bool:
        """One batch; apart from the loop, so that a waiting thread keeps no documents and their model alive."""
        batch = self._scheduler.take()
        if batch is None:
            return False
        worker.batch = batch
        self._scheduler.process(batch)
        worker.batch = None
        return True

    def _lose(self, worker: _Worker, batch: Batch | None, why: FailedRun, error: str) -> None:
        """Fail the batch that the thread was lost with, and replace it, once."""
        with self._lock:
            if worker.lost:
                return
            worker.lost = True
            self._workers.remove(worker)
        self._tell()
        _log.error("engine_thread_lost", why=why, error=error)
        if batch is not None:
            self._scheduler.abandon(batch, why)
        if self._too_many_restarts():
            self._give_up(
                f"engine threads were lost {len(self._restarts)} times within an hour, last: {error}"
            )
            return
        self._observer.restarted()
        self._start_one()

    def _too_many_restarts(self) -> bool:
        with self._lock:
            now = self._clock()
            self._restarts.append(now)
            while self._restarts[0] < now - _WINDOW_SECONDS:
                self._restarts.popleft()
            return len(self._restarts) > self._most_restarts
