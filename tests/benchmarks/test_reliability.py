"""The soak finds what it looks for, the service stands a short one, and the committed page is what its files say."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import httpx
import pytest

from benchmarks.reliability.contenders import CONTENDERS
from benchmarks.reliability.ledger import Ledger, refusal, slope
from benchmarks.reliability.overload import measure
from benchmarks.reliability.process import Usage
from benchmarks.reliability.results import PAGE, page, table
from benchmarks.reliability.soak import growth, soak
from benchmarks.reliability.traffic import Traffic
from benchmarks.shipped import BUNDLES
from tests.app.tiny import write_fragile
from tests.service import running_server


def test_slope_is_that_of_the_line() -> None:
    assert slope([0, 30, 60, 90], [5, 6, 7, 8]) == pytest.approx(2)
    assert slope([0, 30, 60, 90], [5, 5, 5, 5]) == pytest.approx(0)
    assert slope([0], [5]) == 0


def test_growth_is_told_from_the_time_given_on() -> None:
    samples = [(0.0, Usage(100, 10, 5)), *((60.0 * n, Usage(200 + n, 20, 7)) for n in range(1, 5))]
    told = growth(samples, after=60)
    assert told["rss_mib_per_minute"] == pytest.approx(1)
    assert told["descriptors_mean"] == 20
    assert told["descriptors_per_minute"] == pytest.approx(0)


def test_other_numbers_for_the_same_text_are_noticed() -> None:
    traffic = Traffic("http://127.0.0.1:1", Ledger(), 0, [], [])
    assert traffic.same_as_before("m", ["a", "b"], [{"probs": [0.1]}, {"probs": [0.2]}])
    assert traffic.same_as_before("m", ["b"], [{"probs": [0.2]}])
    assert not traffic.same_as_before("m", ["a"], [{"probs": [0.2]}])
    assert not traffic.same_as_before("m", ["a", "b"], [{"probs": [0.1]}])
    assert not traffic.same_as_before("m", ["c"], [{"error": {}}])


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [(503, {"retry-after": "1"}, "refused"), (503, {}, None), (504, {}, "expired"), (500, {}, None)],
)
def test_refusal_must_say_when_to_come_back(
    status: int, headers: dict[str, str], outcome: str | None
) -> None:
    assert refusal(httpx.Response(status, headers=headers)) == outcome


def test_what_went_wrong_leaves_an_example() -> None:
    ledger = Ledger("steady")
    ledger.note("steady", "answered", 0.25)
    ledger.note("steady", "lost", example="ReadError")
    assert [one["p50_ms"] for one in ledger.minutes()] == [250]
    (example,) = ledger.examples
    assert example.endswith("steady, lost: ReadError")


def test_cells_cannot_break_the_table() -> None:
    assert table(["a"], [["b|c"]]) == ["| a |", "| --- |", "| b\\|c |"]


def test_short_soak_loses_nothing(tmp_path: Path) -> None:
    report = soak(0.05, BUNDLES)
    requests = cast(dict[str, dict[str, int]], report["requests"])
    assert report["examples"] == []
    assert not {"lost", "wrong"} & {outcome for counts in requests.values() for outcome in counts}
    assert requests["steady"]["answered"] > 0
    assert requests["poison"]["answered"] > 0
    assert report["exit_code"] == 0
    (tmp_path / "soak.json").write_text(json.dumps(report))
    assert "| steady |" in page(tmp_path)


def test_overload_accounts_for_every_request(tmp_path: Path) -> None:
    write_fragile(tmp_path)
    with running_server(tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        found = asyncio.run(measure(CONTENDERS[0], port, ["good bad film " * 600], 1.0, 0.5))
    outcomes = cast(dict[str, int], found["outcomes"])
    assert set(outcomes) <= {"answered", "refused", "504", "given up"}
    assert sum(outcomes.values()) > 0
    assert cast(float, found["capacity_per_second"]) > 0
    assert found["recovered_seconds"] is not None
    report = {
        "date": "",
        "cpu": "",
        "cpus": 2,
        "command": "",
        "seconds": 1,
        "deadline_seconds": 2,
        "times": 10,
        "model": "imdb@2, clstm",
    }
    (tmp_path / "overload.json").write_text(json.dumps(report | {"found": {"Readtrace": found}}))
    assert "| Readtrace |" in page(tmp_path)


def test_committed_page_is_what_the_files_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
