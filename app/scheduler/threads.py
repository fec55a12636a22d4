"""The engine threads: each takes a batch, processes it, and takes the next; idle ones wait without waking."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.logs import get_logger
from app.scheduler.scheduler import Scheduler

_log = get_logger("readtrace.engine")


class EngineThreads:
    """A fixed number of threads on one scheduler."""

    def __init__(self, scheduler: Scheduler, threads: int, on_restart: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._on_restart = on_restart
        self._threads = [
            threading.Thread(target=self._keep_working, name=f"engine-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def join(self, timeout_seconds: float) -> None:
        """Wait for the threads to end, which they do once the scheduler is closed."""
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _keep_working(self) -> None:
        """Work; when that dies of anything, even of what is no ``Exception``, count it and work on."""
        while True:
            try:
                self._work()
                return
            except BaseException as error:
                _log.error("engine_restarted", error=type(error).__name__)
                self._on_restart()

    def _work(self) -> None:
        while (batch := self._scheduler.take()) is not None:
            try:
                self._scheduler.process(batch)
            except BaseException:
                self._scheduler.abandon(batch)
                raise
