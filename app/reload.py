"""Reads the folder of bundles anew and lets other models answer, without a request noticing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial

from app.background import in_background
from app.engine.loading import Serving, load_catalogue
from app.engine.registry import Catalogue, Registry
from app.errors import ReloadFailed, StartError
from app.logs import get_logger, where
from app.machine import give_memory_back
from app.observability.metrics import MODEL_CHANGES, Metrics
from app.settings import Settings

_STOP_SECONDS = 1.0  # a run that is told to stop takes milliseconds

_log = get_logger("readtrace.reload")


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reload did; ids are ``name@version``."""

    finished: int  # seconds since 1970
    seconds: float
    loaded: list[str]
    replaced: list[str]
    removed: list[str]
    refused: dict[str, str]  # with the reason; of those loaded before, the old one serves on
    failed: str | None = None  # why nothing was changed


class Reloader:
    """One reload at a time, in a thread, and at most one more that waits: it sees what changed meanwhile."""

    def __init__(
        self, settings: Settings, registry: Registry, metrics: Metrics, show: Callable[[Catalogue], None]
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._metrics = metrics
        self._show = show
        self._running = asyncio.Lock()
        self._waiting: asyncio.Task[Reload] | None = None
        self._closing: Future[None] = Future()
        self._last: Reload | None = None

    @property
    def last(self) -> dict[str, object] | None:
        """What the last reload did, as JSON has it; None where there was none."""
        return None if self._last is None else asdict(self._last)

    async def reload(self) -> Reload:
        """Load what is new, check it, swap, and let go of what is gone.

        A bundle that fails leaves the version that was loaded before.

        Raises:
            ReloadFailed: the folder as a whole cannot be served; everything stays as it was.
        """
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._reload())
        # A caller that leaves stops no one else's reload.
        done = await asyncio.shield(self._waiting)
        if done.failed is not None:
            raise ReloadFailed(done.failed)
        return done

    async def close(self) -> None:
        """End the reload that runs, and wait a moment for it; there will be no other."""
        if not self._closing.done():
            self._closing.set_result(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS), self._running:
                pass

    async def _reload(self) -> Reload:
        async with self._running:
            self._waiting = None  # what changes from here on is for the next one
            started = time.perf_counter()
            before = self._registry.catalogue
            try:
                loading = partial(load_catalogue, self._settings, self._serving())
                after = await asyncio.wrap_future(in_background(loading, "reload"))
            except StartError as error:
                done = _report(before, before, time.perf_counter() - started, str(error))
            except Exception as error:
                kind = type(error).__name__
                _log.error("bug", error=kind, at=where(error.__traceback__))
                done = _report(
                    before, before, time.perf_counter() - started, f"A bug: {kind}; the log has the place."
                )
            else:
                done = _report(before, after, time.perf_counter() - started)
                self._show(after)  # its series exist before its first answer
                self._registry.replace(after)
                await asyncio.to_thread(give_memory_back)
            self._tell(done)
            return done

    def _serving(self) -> Serving:
        catalogue = self._registry.catalogue
        retiring_bytes = sum(model.file_bytes for model in self._registry.retiring)
        return Serving(tuple(catalogue.loaded.values()), catalogue.stable, retiring_bytes, self._closing)

    def _tell(self, done: Reload) -> None:
        self._last = done
        told = asdict(done)
        self._metrics.reloads_total.labels("done" if done.failed is None else "failed").inc()
        self._metrics.reload_seconds.set(done.seconds)
        for change in MODEL_CHANGES:
            self._metrics.model_changes_total.labels(change).inc(len(told[change]))
        (_log.info if done.failed is None else _log.error)("reloaded", **told)


def _report(before: Catalogue, after: Catalogue, seconds: float, failed: str | None = None) -> Reload:
    old, new = before.loaded, after.loaded
    return Reload(
        finished=int(time.time()),
        seconds=round(seconds, 3),
        loaded=sorted(new.keys() - old.keys()),
        replaced=sorted(id_ for id_ in new.keys() & old.keys() if new[id_] is not old[id_]),
        removed=sorted(old.keys() - new.keys()),
        refused={} if failed else {bundle.id: bundle.reason for bundle in after.refused},
        failed=failed,
    )
