from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from app.bundle import BundleError
from app.engine.load_watch import LoadWatch
from app.engine.loading import load_registry
from app.errors import StartError
from app.settings import read_settings
from tests.app.scheduler.fakes import Clock
from tests.app.tiny import make_endless, write_all, write_reviews

FOLDER = Path("reviews/1")


def test_graph_that_does_not_end_is_refused_and_the_others_serve(tmp_path: Path) -> None:
    write_all(tmp_path)
    make_endless(write_reviews(tmp_path, name="endless"))
    registry = load_registry(read_settings(bundles=tmp_path, run_limit_seconds=0.5))
    assert set(registry.loaded) == {"reviews@1", "topics@1"}
    assert {bundle.id: bundle.reason for bundle in registry.refused} == {
        "endless@1": "endless/1: a run took more than 0.5 seconds (setting run_limit_seconds)"
    }


def test_load_that_does_not_end_is_left_behind() -> None:
    watch = LoadWatch(FOLDER, run_limit_seconds=0.01, load_limit_seconds=0.02)
    ended = threading.Event()
    try:
        with pytest.raises(
            BundleError, match=r"1: loading took more than 0.02 seconds \(setting load_limit_seconds\)"
        ):
            watch.load(ended.wait)
        with pytest.raises(BundleError, match="loading took more"):  # should it ever go on
            watch.begin()
    finally:
        ended.set()


def test_run_is_stopped_at_its_limit_and_no_other_begins() -> None:
    clock = Clock()
    watch = LoadWatch(FOLDER, 5, 100, clock=clock)
    assert watch.check() == 5
    run = watch.begin()
    clock.now = 3
    assert watch.check() == 2
    watch.end()
    clock.now = 6
    assert watch.check() == 5
    run = watch.begin()
    clock.now = 11
    assert watch.check() == 0
    assert run.terminated
    with pytest.raises(BundleError, match=r"reviews/1: a run took more than 5 seconds"):
        watch.begin()


def test_limit_of_the_load_stops_a_run_within_its_own() -> None:
    clock = Clock()
    watch = LoadWatch(FOLDER, 5, 100, clock=clock)
    clock.now = 98
    run = watch.begin()
    assert watch.check() == 2
    clock.now = 100
    assert watch.check() == 0
    assert run.terminated


def test_error_of_the_load_is_the_callers() -> None:
    def fail() -> None:
        raise BundleError("no graph")

    with pytest.raises(BundleError, match="no graph"):
        LoadWatch(FOLDER, 5, 100).load(fail)


def test_load_ends_with_the_service() -> None:
    closing: Future[None] = Future()
    watch = LoadWatch(FOLDER, 0.01, 100, closing)
    run = watch.begin()

    def work() -> None:
        closing.set_result(None)
        stopped.wait()

    stopped = threading.Event()
    run.stops_by(stopped.set)
    with pytest.raises(StartError, match="The service ends"):
        watch.load(work)
    assert stopped.is_set()
