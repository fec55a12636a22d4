"""Ends runs that overshoot: told to stop at the limit, given up as stuck where they do not stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.scheduler.batch import Batch


class RunControl:
    """One run that may be told to stop; the engine says how."""

    def __init__(self) -> None:
        self.terminated = False
        self._stop: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def stops_by(self, stop: Callable[[], None]) -> None:
        """Called by the engine before it begins; ``stop`` is called from another thread, at most once."""
        with self._lock:
            self._stop = stop
            if self.terminated:
                stop()

    def terminate(self) -> None:
        """Tell the run to stop."""
        with self._lock:
            if not self.terminated:
                self.terminated = True
                if self._stop is not None:
                    self._stop()


class Watch:
    """Knows what runs and since when. A thread of its own sleeps until the next limit; idle, it never wakes."""

    def __init__(self, limit_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """A run is told to stop after ``limit_seconds``; one that takes twice as long is stuck."""
        self._limit_seconds = limit_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._started: dict[RunControl, tuple[Batch, float]] = {}  # in order
        self._asleep = False
        self._closed = False

    def start(self, batch: Batch) -> RunControl:
        """A run of a batch begins."""
        control = RunControl()
        with self._changed:
            self._started[control] = batch, self._clock()
            if self._asleep:
                self._changed.notify()
        return control

    def end(self, control: RunControl) -> None:
        """The run is over, however it ended."""
        with self._changed:
            self._started.pop(control, None)

    def check(self, on_stuck: Callable[[Batch], None]) -> float:
        """Stop what is over its limit, and hand over what did not stop.

        Returns:
            Seconds until there may be something to do again.
        """
        with self._changed:
            now = self._clock()
            late = {run: now - since for run, (_, since) in self._started.items()}
            over_twice = [run for run, seconds in late.items() if seconds >= 2 * self._limit_seconds]
            stuck = {run: self._started.pop(run)[0] for run in over_twice}
        for run, seconds in late.items():
            if seconds >= self._limit_seconds:
                run.terminate()
        for batch in stuck.values():
            on_stuck(batch)
        waits = [
            (2 if run.terminated else 1) * self._limit_seconds - seconds
            for run, seconds in late.items()
            if run not in stuck
        ]
        return min(waits, default=self._limit_seconds)

    def run_forever(self, on_stuck: Callable[[Batch], None]) -> None:
        """Check whenever a limit may be over; returns once closed."""
        while True:
            wait_seconds = self.check(on_stuck)
            with self._changed:
                # A run that begins need not wake the thread as long as it wakes by itself within the limit.
                self._changed.wait_for(lambda: self._closed, wait_seconds)
                self._asleep = not self._started
                self._changed.wait_for(lambda: self._closed or self._started)
                self._asleep = False
                if self._closed:
                    return

    def close(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
