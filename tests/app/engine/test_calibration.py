from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from app.engine.calibration import ROW_COUNTS, Measurement, calibrate, choose_rows, one_row_will_do
from app.engine.registry import Registry
from app.engine.sessions import Graph
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
