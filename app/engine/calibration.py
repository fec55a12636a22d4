"""Finds, for every pass and length bucket, the row counts worth running, and warms each of them up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.engine.golden import read_alone
from app.engine.model import Model
from app.manifest import UNKNOWN_ID, PassSpec, TensorSpec
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array

ROW_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_GOOD_ENOUGH = 0.95  # of the best rate: more rows for the last 5 % would only make everyone wait longer
_SHORTER_PAYS = 0.9  # of the longer bucket's time


@dataclass(frozen=True, slots=True)
class Measurement:
    """Speed of full rows: ``rows`` documents of ``bucket`` tokens took ``seconds``."""

    reading: str
    bucket: int
    rows: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokens of this pass read per second."""
        return self.rows * self.bucket / self.seconds


@dataclass(frozen=True, slots=True)
class Calibration:
    """The row counts to use, each warmed up, with what their runs cost, and the length buckets to use."""

    costs: Mapping[tuple[str, int], RunCosts]  # by pass and bucket
    buckets: tuple[int, ...]  # rising; the largest is the manifest's


def calibrate(model: Model, max_run_seconds: float) -> Calibration:
    """Measure every pass and bucket with ever more rows, until a run takes ``max_run_seconds``.

    A run of one row is used only where it gives the same bits as one of two.
    """
    row_counts = ROW_COUNTS if one_row_will_do(model) else ROW_COUNTS[1:]
    costs: dict[tuple[str, int], RunCosts] = {}
    for reading in model.manifest.passes:
        for bucket in model.manifest.length_buckets:
            measured = _measure_rows(model, reading, bucket, row_counts, max_run_seconds)
            costs[reading.name, bucket] = RunCosts({one.rows: one.seconds for one in choose_rows(measured)})
    return Calibration(costs, choose_buckets(model.manifest.length_buckets, costs))


def choose_buckets(buckets: Sequence[int], costs: Mapping[tuple[str, int], RunCosts]) -> tuple[int, ...]:
    """The buckets that pay: others are as slow as the next longer one, whose runs more documents can share.

    A bucket pays where its runs are clearly faster, with few rows or with many, over all passes.

    Args:
        buckets: those of the manifest, rising.
        costs: by pass and bucket.
    """
    readings = {reading for reading, _ in costs}

    def seconds(bucket: int) -> tuple[float, float]:
        found = [costs[reading, bucket] for reading in readings]
        return sum(one.seconds(one.row_counts[0]) for one in found), sum(
            one.document_seconds for one in found
        )

    chosen = [buckets[-1]]
    for bucket in reversed(buckets[:-1]):
        pairs = zip(seconds(bucket), seconds(chosen[0]), strict=True)
        if any(shorter <= _SHORTER_PAYS * longer for shorter, longer in pairs):
            chosen.insert(0, bucket)
    return tuple(chosen)


def choose_rows(measured: list[Measurement]) -> list[Measurement]:
    """The row counts up to the first that is nearly as fast, per token, as any."""
    best = max(measurement.tokens_per_second for measurement in measured)
    last = next(
        index for index, found in enumerate(measured) if found.tokens_per_second >= _GOOD_ENOUGH * best
    )
    return measured[: last + 1]


def one_row_will_do(model: Model) -> bool:
    """Whether a lone row gives the bits that it gives beside another.

    Matrix libraries may have a kernel of their own for one row, which sums in another order. Which kernel
    runs depends on the shapes, so every pass and bucket is tried with random words, and the golden documents
    with all their segments.
    """
    manifest = model.manifest
    return all(
        _same_bits_alone(model, reading, bucket)
        for reading in manifest.passes
        for bucket in manifest.length_buckets
    ) and all(
        _equal(read_alone(model, golden.text, rows=1), read_alone(model, golden.text, rows=2))
        for golden in manifest.golden
    )


def _same_bits_alone(model: Model, reading: PassSpec, bucket: int) -> bool:
    two = _full_rows(model, reading, bucket, 2)
    alone = model.run(reading.name, {name: array[:1] for name, array in two.items()})
    return _equal(alone, {name: array[:1] for name, array in model.run(reading.name, two).items()})


def _equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return all(array.tobytes() == other[name].tobytes() for name, array in one.items())


def _measure_rows(
    model: Model, reading: PassSpec, bucket: int, row_counts: tuple[int, ...], max_run_seconds: float
) -> list[Measurement]:
    measured: list[Measurement] = []
    for rows in row_counts:
        found = measure(model, reading, bucket, rows)
        if measured and found.seconds > max_run_seconds:
            break
        measured.append(found)
    return measured


def measure(model: Model, reading: PassSpec, bucket: int, rows: int, repeats: int = 2) -> Measurement:
    """The best of ``repeats`` timed runs after one that warms the shape up."""
    arrays = _full_rows(model, reading, bucket, rows)
    model.run(reading.name, arrays)
    seconds = min(_timed_run(model, reading.name, arrays) for _ in range(repeats))
    return Measurement(reading.name, bucket, rows, seconds)


def _timed_run(model: Model, reading: str, arrays: Mapping[str, Array]) -> float:
    started = time.perf_counter()
    model.run(reading, arrays)
    return time.perf_counter() - started


def _full_rows(model: Model, reading: PassSpec, bucket: int, rows: int) -> dict[str, Array]:
    words = max(UNKNOWN_ID + 1, model.tokenizer.get_vocab_size())
    random = np.random.default_rng(0)
    written: dict[str, TensorSpec] = {
        step.name: step for earlier in model.manifest.passes for step in earlier.steps
    }
    return {
        "token_ids": random.integers(UNKNOWN_ID, words, (rows, bucket), np.int64),
        "lengths": np.full(rows, bucket, np.int64),
        **{
            name: np.zeros((rows, bucket, *written[name].shape), written[name].dtype)
            for name in reading.reads
        },
        **{state.name: np.zeros((rows, *state.shape), state.dtype) for state in reading.states},
    }
