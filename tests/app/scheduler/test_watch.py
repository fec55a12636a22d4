from __future__ import annotations

from app.scheduler.batch import Batch
from app.scheduler.segments import Lane
from app.scheduler.watch import Watch
from tests.app.scheduler.fakes import Clock


def batch() -> Batch:
    return Batch(Lane("sums@1#1", "prefix", 4), rows=2)


def test_run_is_stopped_at_the_limit_and_stuck_at_twice_that() -> None:
    clock = Clock()
    stuck: list[Batch] = []
    stopped: list[float] = []
    watch = Watch(5.0, clock)
    watched = batch()
    run = watch.start(watched)
    run.stops_by(lambda: stopped.append(clock()))
    for moment, wait_seconds in ((4.0, 1.0), (5.0, 5.0), (8.0, 2.0)):
        clock.now = moment
        assert watch.check(stuck.append) == wait_seconds
    assert stopped == [5.0]
    assert not stuck
    clock.now = 10.0
    watch.check(stuck.append)
    watch.check(stuck.append)
    assert stuck == [watched]
    assert stopped == [5.0]


def test_run_in_time_is_left_alone() -> None:
    clock = Clock()
    stuck: list[Batch] = []
    watch = Watch(5.0, clock)
    run = watch.start(batch())
    watch.end(run)
    clock.now = 60.0
    watch.check(stuck.append)
    assert not run.terminated
    assert not stuck


def test_run_that_was_told_to_stop_before_it_could_hear_stops_at_once() -> None:
    watch = Watch(5.0, Clock())
    run = watch.start(batch())
    run.terminate()
    stopped = []
    run.stops_by(lambda: stopped.append(True))
    assert stopped == [True]
