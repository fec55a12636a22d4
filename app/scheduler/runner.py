"""Runs a batch on the engine and finds out whom to blame where that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from app.errors import EngineFailed, Problem, ReadingFailed, ReadingTerminated
from app.logs import get_logger
from app.manifest import PassSpec, TensorSpec
from app.scheduler.batch import Batch, assemble
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array, Document
from app.scheduler.segments import Lane
from app.scheduler.watch import RunControl, Watch

FailedRun = Literal["raised", "terminated", "wrong-output", "died", "stuck"]
Read = tuple[Document, "Row | Problem | None"]  # None: it was not run, as nobody waits any more

_log = get_logger("readtrace.scheduler")


class Engine(Protocol):
    """What runs a batch."""

    def costs(self, lane: Lane) -> RunCosts:
        """The numbers of rows that a run of this lane may have, and what each costs; learns from every run."""

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        """Run one pass over one batch; may raise, also because ``control`` told it to stop."""


@dataclass(frozen=True, slots=True)
class Row:
    """Where a document's part of a run's outputs is."""

    outputs: Mapping[str, Array]
    row: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the engine, for the observer."""

    lane: Lane
    documents: int
    rows: int
    tokens: int
    seconds: float
    predicted_seconds: float


class RunObserver(Protocol):
    """What wants to know of runs; called from engine threads."""

    def ran(self, run: Run) -> None:
        """The engine ran."""

    def run_failed(self, lane: Lane, why: FailedRun) -> None:
        """A run gave nothing."""


class WrongOutputError(Exception):
    """A run answered with other arrays than its graph declares: the engine is to blame, no document."""


class _TerminatedError(Exception):
    """The run was told to stop, and did."""


class Runner:
    """Called by engine threads, many at a time."""

    def __init__(
        self, engine: Engine, watch: Watch, observer: RunObserver, clock: Callable[[], float]
    ) -> None:
        self._engine = engine
        self._watch = watch
        self._observer = observer
        self._clock = clock

    def read(self, batch: Batch, arrays: Mapping[str, Array]) -> Iterator[Read]:
        """Run a batch whose arrays are ``assemble``'s; every document of it comes out once.

        A run that raises or is terminated is run again in halves, until the document to blame is alone.
        """
        return self._read(batch, batch.documents, arrays)

    def _read(
        self, batch: Batch, documents: Sequence[Document], arrays: Mapping[str, Array]
    ) -> Iterator[Read]:
        try:
            outputs = self._run(batch, documents, arrays)
        except WrongOutputError as error:
            self._failed(batch, "wrong-output", str(error))
            problem = EngineFailed("The engine gave no answer to the document.")
            yield from ((document, problem) for document in documents)
        except _TerminatedError:
            self._failed(batch, "terminated")
            yield from self._blame(
                batch, documents, ReadingTerminated("The model took too long with this document.")
            )
        except Exception as error:
            self._failed(batch, "raised", type(error).__name__)
            yield from self._blame(batch, documents, ReadingFailed("The model failed on this document."))
        else:
            yield from ((document, Row(outputs, row)) for row, document in enumerate(documents))

    def _run(
        self, batch: Batch, documents: Sequence[Document], arrays: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        rows = len(arrays["token_ids"])
        predicted_seconds = self._engine.costs(batch.lane).seconds(rows)
        control = self._watch.start(batch)
        started = self._clock()
        try:
            outputs = self._engine.run(batch.lane, arrays, control)
        except Exception:
            if control.terminated:
                raise _TerminatedError from None
            raise
        finally:
            self._watch.end(control)
        seconds = self._clock() - started
        _check(outputs, documents[0].segment.reading, arrays["token_ids"].shape)
        for document in documents:
            document.run_seconds += seconds
        tokens = sum(document.segment.tokens for document in documents)
        batch.runs.append((rows, seconds))
        self._observer.ran(Run(batch.lane, len(documents), rows, tokens, seconds, predicted_seconds))
        return outputs

    def _blame(self, batch: Batch, documents: Sequence[Document], problem: Problem) -> Iterator[Read]:
        """Run the documents of a failed run in halves; one that is alone is to blame."""
        if len(documents) == 1:
            yield documents[0], problem
            return
        middle = len(documents) // 2
        for half in (documents[:middle], documents[middle:]):
            now = self._clock()
            over = [document for document in half if batch.abandoned or document.is_over(now)]
            yield from ((document, None) for document in over)
            if wanted := [document for document in half if document not in over]:
                rows = self._engine.costs(batch.lane).fitting(len(wanted))
                yield from self._read(batch, wanted, assemble(wanted, rows))

    def _failed(self, batch: Batch, why: FailedRun, error: str = "") -> None:
        batch.run_failed = True
        _log.error("run_failed", **batch.lane._asdict(), why=why, error=error or None)
        self._observer.run_failed(batch.lane, why)


def _check(outputs: Mapping[str, Array], reading: PassSpec, padded: tuple[int, ...]) -> None:
    """Compare names, types and shapes with what the pass declares.

    Raises:
        WrongOutputError: they differ.
    """
    for specs, suffix, leading in (
        (reading.steps, "", padded),
        (reading.results, "", padded[:1]),
        (reading.states, "_next", padded[:1]),
    ):
        for spec in specs:
            _check_one(outputs.get(spec.name + suffix), spec, leading)


def _check_one(found: Array | None, spec: TensorSpec, leading: tuple[int, ...]) -> None:
    expected = (*leading, *spec.shape)
    if found is None or found.shape != expected or found.dtype != np.dtype(spec.dtype):
        seen = "nothing" if found is None else f"{found.dtype} {found.shape}"
        raise WrongOutputError(f"{spec.name}: expected {spec.dtype} {expected}, got {seen}")
