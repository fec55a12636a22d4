"""Bounds the load of a bundle in time: every run of its graphs, and the whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from app.background import in_background
from app.bundle import BundleError
from app.engine.model import Model
from app.engine.sessions import Graph
from app.errors import StartError
from app.scheduler.document import Array
from app.scheduler.watch import RunControl

_T = TypeVar("_T")


class LoadWatch:
    """One load. What is over a limit is told to stop; what does not stop is left behind in its thread."""

    def __init__(
        self,
        folder: Path,
        run_limit_seconds: float,
        load_limit_seconds: float,
        closing: Future[None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The load also ends as soon as ``closing`` is done."""
        self._folder = folder
        self._run_limit_seconds = run_limit_seconds
        self._load_limit_seconds = load_limit_seconds
        self._closing: Future[None] = closing or Future()
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._run: tuple[RunControl, float] | None = None  # with when it began
        self._over: str | None = None  # which limit

    def watched(self, model: Model) -> Model:
        """The same model, whose runs are bounded as long as it loads."""
        graphs = {
            reading: _WatchedGraph(graph.session, graph.outputs, self)
            for reading, graph in model.graphs.items()
        }
        return replace(model, graphs=graphs)

    def load(self, work: Callable[[], _T]) -> _T:
        """Do the work in a thread of its own, and give what it returns.

        Raises:
            BundleError: a run or the whole took too long.
            StartError: the service ends.
            Exception: whatever the work raises.
        """
        loading = in_background(work, "load-bundle")
        while not loading.done() and self._over is None:
            either: list[Future[Any]] = [loading, self._closing]
            wait(either, self.check(), FIRST_COMPLETED)
            if self._closing.done():
                with self._lock:
                    self._stop("the service ends")
        if self._over is not None:
            wait([loading], self._run_limit_seconds)  # what can stop does so soon
        if self._closing.done():
            raise StartError("The service ends.")
        if self._over is not None:
            raise BundleError(self._over)
        return loading.result()

    def check(self) -> float:
        """Tell what is over its limit to stop.

        Returns:
            Seconds until there may be something to do again; 0 where something is over.
        """
        with self._lock:
            now = self._clock()
            load_left = self._began + self._load_limit_seconds - now
            # A run that begins after this look is younger than its limit at the next.
            run_left = self._run_limit_seconds
            if self._run is not None:
                run_left += self._run[1] - now
            if load_left <= 0:
                self._stop(
                    f"loading took more than {self._load_limit_seconds:g} seconds (setting load_limit_seconds)"
                )
            elif run_left <= 0:
                self._stop(
                    f"a run took more than {self._run_limit_seconds:g} seconds (setting run_limit_seconds)"
                )
            return max(0.0, min(load_left, run_left))

    def begin(self) -> RunControl:
        """A run begins.

        Raises:
            BundleError: the load is over.
        """
        control = RunControl()
        with self._lock:
            if self._over is not None:
                raise BundleError(self._over)
            self._run = control, self._clock()
        return control

    def end(self) -> None:
        """The run is over, however it ended."""
        with self._lock:
            self._run = None

    def _stop(self, why: str) -> None:
        self._over = f"{self._folder}: {why}"
        if self._run is not None:
            self._run[0].terminate()


@dataclass(frozen=True, slots=True, eq=False)
class _WatchedGraph(Graph):
    watch: LoadWatch

    def run(self, arrays: Mapping[str, Array], control: RunControl | None = None) -> dict[str, Array]:
        control = self.watch.begin()
        try:
            # not super(): a class with slots is made twice, and it would name the first
            return Graph.run(self, arrays, control)
        finally:
            self.watch.end()
