from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.engine.calibration import ROW_COUNTS, Measurement, calibrate, choose_rows
from app.engine.registry import Registry
from app.engine.sessions import Graph
from app.scheduler.document import Array


def rows(chosen: list[Measurement]) -> tuple[int, ...]:
    return tuple(one.rows for one in chosen)


def measured(*milliseconds: float) -> list[Measurement]:
    return [
        Measurement("read", 16, rows, taken / 1000)
        for rows, taken in zip(ROW_COUNTS, milliseconds, strict=False)
    ]


def test_most_rows_where_more_rows_are_nearly_free() -> None:
    assert rows(choose_rows(measured(1, 1.1, 1.2, 1.3, 1.4, 1.5))) == (2, 4, 8, 16, 32, 64)


def test_few_rows_where_more_rows_only_take_longer() -> None:
    assert rows(choose_rows(measured(1, 2, 4, 8, 16, 32))) == (2,)


def test_last_five_percent_are_not_worth_longer_runs() -> None:
    assert rows(choose_rows(measured(1, 1.5, 2.9))) == (2, 4)


def test_calibration_stops_at_the_longest_run_allowed(registry: Registry) -> None:
    calibration = calibrate(registry.find("reviews"), max_run_seconds=1e-12)
    assert {costs.row_counts for costs in calibration.costs.values()} == {(2,)}


def test_every_shape_that_may_run_was_warmed(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: set[tuple[int, ...]] = set()
    plain_run = Graph.run

    def recording_run(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Any]:
        shapes.add(arrays["token_ids"].shape)
        return plain_run(graph, arrays)

    monkeypatch.setattr(Graph, "run", recording_run)
    calibration = calibrate(registry.find("topics"), max_run_seconds=1)
    allowed = {
        (rows, bucket) for (_, bucket), costs in calibration.costs.items() for rows in costs.row_counts
    }
    assert allowed <= shapes
