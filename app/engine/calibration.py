"""Finds, for every pass and length bucket, the row counts worth running, and warms each of them up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.bundle import UNKNOWN_ID, PassSpec, TensorSpec
from app.engine.model import Model
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array

# From two, because one row might be summed in another order than many (docs/architecture.md).
ROW_COUNTS = (2, 4, 8, 16, 32, 64)
_GOOD_ENOUGH = 0.95  # of the best rate: more rows for the last 5 % would only make everyone wait longer


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
    """The row counts to use, each warmed up, with what their runs cost."""

    costs: Mapping[tuple[str, int], RunCosts]  # by pass and bucket


def calibrate(model: Model, max_run_seconds: float) -> Calibration:
    """Measure every pass and bucket with ever more rows, until a run takes ``max_run_seconds``."""
    costs: dict[tuple[str, int], RunCosts] = {}
    for reading in model.manifest.passes:
        for bucket in model.manifest.length_buckets:
            measured = _measure_rows(model, reading, bucket, max_run_seconds)
            costs[reading.name, bucket] = RunCosts({one.rows: one.seconds for one in choose_rows(measured)})
    return Calibration(costs)


def choose_rows(measured: list[Measurement]) -> list[Measurement]:
    """The row counts up to the first that is nearly as fast, per token, as any."""
    best = max(measurement.tokens_per_second for measurement in measured)
    last = next(
        index for index, found in enumerate(measured) if found.tokens_per_second >= _GOOD_ENOUGH * best
    )
    return measured[: last + 1]


def _measure_rows(model: Model, reading: PassSpec, bucket: int, max_run_seconds: float) -> list[Measurement]:
    measured: list[Measurement] = []
    for rows in ROW_COUNTS:
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
