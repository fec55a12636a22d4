from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from app.errors import EngineFailed
from app.scheduler.document import Document, Reading
from app.scheduler.threads import EngineThreads
from app.scheduler.watch import Watch
from tests.app.scheduler.fakes import KILLER, Bench, expected

_PATIENCE_SECONDS = 10


class Threads:
    """Engine threads on a bench, with what they told."""

    def __init__(self, bench: Bench, threads: int, most_restarts: int, watch: Watch) -> None:
        self.given_up: list[str] = []
        self.engine = EngineThreads(
            bench.scheduler, watch, threads, bench.book, most_restarts, self.given_up.append
        )


@contextmanager
def working(
    bench: Bench, threads: int = 1, most_restarts: int = 5, watch: Watch | None = None
) -> Iterator[Threads]:
    found = Threads(bench, threads, most_restarts, watch or Watch(60))
    found.engine.start()
    try:
        yield found
    finally:
        bench.scheduler.close()
        found.engine.join(_PATIENCE_SECONDS)


def wait_until(true: Callable[[], object]) -> None:
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < _PATIENCE_SECONDS
        time.sleep(0.001)


def wait_for(bench: Bench, documents: list[Document]) -> None:
    wait_until(lambda: all(document in bench.book.outcomes for document in documents))


def assert_read(bench: Bench, document: Document) -> None:
    outcome = bench.book.outcomes[document]
    assert isinstance(outcome, Reading)
    np.testing.assert_array_equal(outcome.steps["probabilities"], expected(document.token_ids.tolist()))


def test_several_threads_read_everything_right() -> None:
    bench = Bench(places=3)
    texts = [[2 + index % 7] * (1 + index % 17) for index in range(200)]
    with working(bench, 3):
        documents = [document for text in texts for document in bench.submit(text)]
        wait_for(bench, documents)
    for document in documents:
        assert_read(bench, document)
    assert set(bench.book.delivered.values()) == {1}


def test_no_more_run_at_once_than_there_are_places() -> None:
    bench = Bench(places=2)
    running, most, lock = 0, 0, threading.Lock()

    def before_run() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    bench.engine.before_run = before_run
    with working(bench, 2):
        wait_for(bench, bench.submit(*[[2, 3, 4]] * 40))
    assert most == 2
    assert "prepared" in bench.book.reasons


def test_dying_thread_fails_what_it_held_and_is_replaced() -> None:
    bench = Bench()
    with working(bench) as threads:
        held = bench.submit([KILLER, 3], [4, 5])
        wait_for(bench, held)
        later = bench.submit([6, 7])
        wait_for(bench, later)
        wait_until(lambda: threads.engine.complete)
        assert bench.book.restarts == 1
        wait_until(lambda: bench.book.working == 2)
    assert all(isinstance(bench.book.outcomes[document], EngineFailed) for document in held)
    assert_read(bench, later[0])
    assert set(bench.book.delivered.values()) == {1}


def test_the_end_waits_for_a_replacement_that_is_just_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    starting = threading.Event()
    start = threading.Thread.start

    def start_slowly(thread: threading.Thread) -> None:
        if thread.name == "engine-3":
            starting.set()
            time.sleep(0.1)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    bench = Bench()
    with working(bench):
        bench.submit([KILLER])
        assert starting.wait(_PATIENCE_SECONDS)
    assert "engine-3" not in [thread.name for thread in threading.enumerate()]


def test_without_the_thread_that_stops_runs_the_engine_is_not_complete() -> None:
    watch = Watch(60)
    with working(Bench(), watch=watch) as threads:
        assert threads.engine.complete
        watch.close()
        wait_until(lambda: not threads.engine.complete)


def test_after_its_restarts_the_engine_is_given_up() -> None:
    bench = Bench()
    with working(bench, most_restarts=2) as threads:
        for _ in range(3):
            wait_for(bench, bench.submit([KILLER]))
        wait_until(lambda: threads.given_up)
        assert not threads.engine.complete
    assert threads.given_up == ["engine threads were lost 3 times within an hour, last: SystemExit"]
    assert bench.book.restarts == 2


def test_stuck_thread_is_left_behind_and_what_it_still_finds_counts_no_more() -> None:
    watch = Watch(0.5)  # far above a run of the others, also on a busy machine
    bench = Bench(watch=watch)
    hold = threading.Event()

    def hang_once() -> None:
        bench.engine.before_run = lambda: None
        hold.wait(_PATIENCE_SECONDS)

    bench.engine.before_run = hang_once
    with working(bench, watch=watch):
        held = bench.submit([2, 3], [4, 5])
        wait_for(bench, held)
        later = bench.submit([6, 7])
        wait_for(bench, later)
        hold.set()
        wait_until(lambda: len(bench.engine.runs) == 3)
    assert all(isinstance(bench.book.outcomes[document], EngineFailed) for document in held)
    assert_read(bench, later[0])
    assert bench.book.failed_runs["stuck"] == 1
    assert bench.book.restarts == 1
    assert set(bench.book.delivered.values()) == {1}
    assert bench.book.queue == (0, 0)


def test_idle_threads_use_no_cpu() -> None:
    bench = Bench()
    with working(bench, 2, watch=Watch(0.01)):
        wait_for(bench, bench.submit([2]))
        time.sleep(0.05)  # the watch looks once more after a run, and then sleeps until the next
        started = time.process_time()
        time.sleep(0.5)
        used_seconds = time.process_time() - started
    assert used_seconds < 0.02


def test_what_is_submitted_together_is_read_together() -> None:
    bench = Bench()
    with working(bench):
        documents = [bench.document([1]) for _ in range(4)]
        for document in documents:
            bench.scheduler.submit([document])
            time.sleep(0.002)  # a thread that was woken would begin
        assert not bench.engine.runs
        bench.scheduler.wake()
        wait_for(bench, documents)
    assert {rows for _, rows in bench.engine.runs} == {4}
