"""Who may run now: the engine's places, and the one batch that is prepared while all are taken."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from app.scheduler.batch import Batch


class Places:
    """At most so many batches run at the same time. The scheduler's lock, which it is given, guards it."""

    def __init__(self, places: int, lock: threading.RLock, clock: Callable[[], float]) -> None:
        self._free = places
        self._clock = clock
        self._next: deque[Batch] = deque()
        self._handed_over = threading.Condition(lock)

    @property
    def free(self) -> bool:
        """Whether a batch may run at once."""
        return self._free > 0

    @property
    def may_prepare(self) -> bool:
        """Whether a batch may be prepared, to run when a place becomes free."""
        return not self._next

    def reserve(self, batch: Batch) -> None:
        """Give a batch a free place, or the next that becomes free."""
        if self._free:
            self._free -= 1
            self._give(batch)
        else:
            self._next.append(batch)

    def wait(self, batch: Batch) -> None:
        """Return once the batch has its place, or was abandoned."""
        self._handed_over.wait_for(lambda: batch.running or batch.abandoned)

    def release(self, batch: Batch) -> None:
        """Take a batch's place back, or its place in the line; hand the place over."""
        if batch.running:
            batch.running = False
            if self._next:
                self._give(self._next.popleft())
            else:
                self._free += 1
        elif batch in self._next:
            self._next.remove(batch)
        self._handed_over.notify_all()

    def _give(self, batch: Batch) -> None:
        batch.running = True
        batch.placed_seconds = self._clock()
