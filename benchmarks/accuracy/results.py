"""The committed result files, `results/SET/MODEL.json`: one row's measures, a record for each of its units."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.accuracy.grid import HERE, Row

RESULTS = HERE / "results"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LengthDecile(_Record):
    """Accuracy of a tenth of the test documents, by length in words."""

    shortest: int
    longest: int
    documents: int
    accuracy: float


class UnitResult(_Record):
    """One training; accuracies are shares from 0 to 1."""

    date: str
    dev_accuracy: float
    test_accuracy: float
    test_macro_f1: float
    skip_rate: float | None = None  # share of the test words
    best_epoch: float
    train_documents: int
    training_cpu_seconds: float | None = None  # None: it was resumed, so only a part was measured
    curve: list[tuple[float, float]]  # epoch, dev accuracy
    test_by_length: list[LengthDecile]


class Cost(_Record):
    """What the exported model costs in the service's own process, with explanations off."""

    date: str
    unit: str
    documents: int
    cpu_microseconds: float  # per document: processor time of all threads
    bundle_megabytes: float


class RowResult(_Record):
    """All that is known of a row."""

    parameters: int = 0  # word vectors left out
    model: dict[str, object] = {}  # the configuration as it was run
    training: dict[str, object] = {}
    units: dict[str, UnitResult] = {}
    cost: Cost | None = None


def path_of(row: Row) -> Path:
    """Where a row's results lie."""
    return RESULTS / row.set_name / f"{row.model_name}.json"


def read_result(row: Row) -> RowResult:
    """A row's results so far.

    Raises:
        SystemExit: the file is damaged; the message names it.
    """
    path = path_of(row)
    try:
        return RowResult.model_validate_json(path.read_bytes()) if path.exists() else RowResult()
    except ValidationError as error:
        raise SystemExit(f"{path}: expected the results of {row.name}: {error}") from error


@contextmanager
def changed_result(row: Row) -> Iterator[RowResult]:
    """Change a row's results; several trainings of a row may end at once."""
    path = path_of(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f".{path.name}.lock")):
        result = read_result(row)
        yield result
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(result.model_dump_json(indent=1, exclude_none=True) + "\n", encoding="utf-8")
        partial.replace(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; it goes with the last holder's work."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether this process is the only one at work on what `path` stands for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
