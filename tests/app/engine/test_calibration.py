from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from app.engine.calibration import (
    ROW_COUNTS,
    Measurement,
    calibrate,
    choose_buckets,
    choose_rows,
    one_row_will_do,
)
from app.engine.registry import Registry
from app.engine.sessions import Graph
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array
from app.scheduler.watch import RunControl


def rows(chosen: list[Measurement]) -> tuple[int, ...]:
    return tuple(one.rows for one in chosen)


def measured(*milliseconds: float) -> list[Measurement]:
    return [
        Measurement("read", 16, rows, taken / 1000)
        for rows, taken in zip(ROW_COUNTS, milliseconds, strict=False)
    ]


def test_most_rows_where_more_rows_are_nearly_free() -> None:
    assert rows(choose_rows(measured(1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6))) == (1, 2, 4, 8, 16, 32, 64)


def test_few_rows_where_more_rows_only_take_longer() -> None:
    assert rows(choose_rows(measured(1, 2, 4, 8, 16, 32))) == (1,)


def test_last_five_percent_are_not_worth_longer_runs() -> None:
    assert rows(choose_rows(measured(1, 1.5, 2.9))) == (1, 2)


def costs(**seconds: tuple[float, float]) -> dict[tuple[str, int], RunCosts]:
    """Of runs of one row and of eight, by the pass and bucket `PASS_BUCKET`."""
    found = {}
    for name, (one, eight) in seconds.items():
        reading, _, bucket = name.partition("_")
        found[reading, int(bucket)] = RunCosts({1: one, 8: eight})
    return found


def test_buckets_that_are_as_slow_as_the_next_are_not_used() -> None:
    flat = costs(read_8=(1.0, 2.0), read_16=(1.05, 2.1), read_32=(1.1, 2.2))
    assert choose_buckets((8, 16, 32), flat) == (32,)
    steep = costs(read_8=(1.0, 2.0), read_16=(1.05, 2.1), read_32=(2.0, 4.0))
    assert choose_buckets((8, 16, 32), steep) == (16, 32)


def test_bucket_is_used_that_pays_with_few_rows_or_with_many() -> None:
    assert choose_buckets((8, 16), costs(read_8=(0.8, 2.0), read_16=(1.0, 2.0))) == (8, 16)
    assert choose_buckets((8, 16), costs(read_8=(1.0, 1.6), read_16=(1.0, 2.0))) == (8, 16)


def test_bucket_must_pay_over_all_passes() -> None:
    both = costs(ahead_8=(1.0, 2.0), ahead_16=(1.0, 2.0), read_8=(0.8, 1.6), read_16=(1.0, 2.0))
    assert choose_buckets((8, 16), both) == (8, 16)
    assert choose_buckets((8, 16), both | costs(ahead_8=(9.0, 18.0), ahead_16=(9.0, 18.0))) == (16,)


def test_calibrated_model_uses_its_largest_bucket(registry: Registry) -> None:
    model = registry.find("reviews")
    buckets = calibrate(model, max_run_seconds=0.05).buckets
    assert buckets[-1] == model.manifest.length_buckets[-1]
    assert set(buckets) <= set(model.manifest.length_buckets)


def test_calibration_stops_at_the_longest_run_allowed(registry: Registry) -> None:
    calibration = calibrate(registry.find("reviews"), max_run_seconds=1e-12)
    assert {costs.row_counts for costs in calibration.costs.values()} == {(1,)}


def test_one_row_is_not_run_where_it_gives_other_bits(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_run = Graph.run

    def otherwise_alone(
        graph: Graph, arrays: Mapping[str, Array], control: RunControl | None = None
    ) -> dict[str, Any]:
        found = plain_run(graph, arrays, control)
        if len(arrays["token_ids"]) == 1:
            found["logits"] = np.nextafter(found["logits"], np.float32(9))
        return found

    monkeypatch.setattr(Graph, "run", otherwise_alone)
    model = registry.find("reviews")
    assert not one_row_will_do(model)
    assert {costs.row_counts for costs in calibrate(model, max_run_seconds=1e-12).costs.values()} == {(2,)}


def test_every_shape_that_may_run_was_warmed(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: set[tuple[int, ...]] = set()
    plain_run = Graph.run

    def recording_run(
        graph: Graph, arrays: Mapping[str, Array], control: RunControl | None = None
    ) -> dict[str, Any]:
        shapes.add(arrays["token_ids"].shape)
        return plain_run(graph, arrays, control)

    monkeypatch.setattr(Graph, "run", recording_run)
    calibration = calibrate(registry.find("topics"), max_run_seconds=1)
    allowed = {
        (rows, bucket) for (_, bucket), costs in calibration.costs.items() for rows in costs.row_counts
    }
    assert allowed <= shapes
