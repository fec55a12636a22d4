"""Refusals are honest: a caller who waits as told is let in, where nobody else comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import QueueFull, Refused, ShuttingDown, WaitTooLong
from app.scheduler.document import Document, Reading
from tests.app.scheduler.fakes import Bench

TEXTS = st.lists(st.lists(st.integers(2, 9), min_size=1, max_size=30), min_size=1, max_size=8)


def read_for(bench: Bench, seconds: float) -> None:
    """Let the engine work for so long: each run takes its time on the clock."""
    end = bench.clock.now + seconds
    while bench.clock.now < end:
        if not bench.work_once():
            bench.clock.now = end


def slow_bench(documents: int = 1000, tokens: int = 100_000, run_seconds: float = 0.5) -> Bench:
    return Bench(documents=documents, tokens=tokens, run_seconds=run_seconds)


def submit(bench: Bench, texts: list[list[int]], patience_seconds: float) -> None:
    bench.scheduler.submit([bench.document(ids, bench.clock() + patience_seconds) for ids in texts])


@given(st.lists(TEXTS, max_size=6), TEXTS, st.sampled_from([0.05, 0.2, 1.0]))
def test_caller_that_waits_as_told_is_let_in(
    queued: list[list[list[int]]], texts: list[list[int]], patience_seconds: float
) -> None:
    bench = slow_bench(documents=30, tokens=500, run_seconds=0.02)  # runs of up to 0.12 s
    for others in queued:
        try:
            submit(bench, others, 1e6)
        except QueueFull:
            break
    try:
        submit(bench, texts, patience_seconds)
    except Refused as refusal:
        read_for(bench, refusal.retry_after_seconds)
        submit(bench, texts, patience_seconds)


@given(st.lists(TEXTS, max_size=6), TEXTS)
def test_patient_caller_that_waits_as_told_is_let_in(
    queued: list[list[list[int]]], texts: list[list[int]]
) -> None:
    bench = Bench(run_seconds=0.02, wait_seconds=0.3)
    for others in [*queued, texts]:
        try:
            submit(bench, others, 1e6)
        except Refused as refusal:
            read_for(bench, refusal.retry_after_seconds)
            submit(bench, others, 1e6)


def test_longest_wait_binds_who_has_a_later_deadline() -> None:
    bench = Bench(run_seconds=0.5, wait_seconds=3.0)
    bench.submit(*[[2]] * 6)
    with pytest.raises(WaitTooLong, match=r"the longest wait 3 s"):
        submit(bench, [[2]], 1e6)
    read_for(bench, 3.0)
    submit(bench, [[2]], 1e6)


def estimate(bench: Bench, tokens: int, patience_seconds: float = 100.0) -> Document:
    return bench.document([2] * tokens, bench.clock() + patience_seconds)


def test_estimate_refuses_what_the_full_queue_would() -> None:
    bench = slow_bench(tokens=100)
    bench.submit([2] * 40)
    with pytest.raises(QueueFull, match="80 unread tokens"):
        bench.scheduler.reserve([estimate(bench, 15)], 0.0)
    assert bench.book.queue == (1, 80)
    bench.scheduler.reserve([estimate(bench, 10)], 0.0)
    assert bench.book.queue == (2, 100)


def test_estimate_refuses_what_would_outwait_its_deadline() -> None:
    bench = slow_bench()
    bench.submit(*[[2]] * 12)
    with pytest.raises(WaitTooLong):
        bench.scheduler.reserve([estimate(bench, 1, 1.0)], 0.0)
    with pytest.raises(WaitTooLong):
        bench.scheduler.reserve([estimate(bench, 1, 50.0)], 49.0)
    bench.scheduler.reserve([estimate(bench, 1, 50.0)], 0.0)


def test_document_is_refused_whose_own_runs_outlast_its_deadline_where_others_wait() -> None:
    bench = slow_bench()
    bench.submit([2])
    long, short = ([2] * words for words in (400, 4))
    with pytest.raises(WaitTooLong, match="reading 400"):
        submit(bench, [long], 50.0)
    submit(bench, [short], 50.0)
    anytime = bench.document(long, bench.clock() + 50.0)
    anytime.partial = True
    bench.scheduler.submit([anytime])


def test_what_is_reserved_counts_until_it_is_submitted_or_released() -> None:
    bench = slow_bench(documents=2)
    bench.submit([2])
    reservation = bench.scheduler.reserve([estimate(bench, 3)], 0.0)
    with pytest.raises(QueueFull):
        bench.submit([2])
    document = bench.document([2, 3])
    bench.scheduler.submit([document], reservation)
    assert bench.book.queue == (2, 2 + 4)
    bench.scheduler.release(reservation)
    assert bench.book.queue == (2, 2 + 4)
    bench.work()
    assert bench.book.delivered[document] == 1
    bench.scheduler.release(bench.scheduler.reserve([estimate(bench, 3)], 0.0))
    assert bench.book.queue == (0, 0)


def test_reserved_documents_are_submitted_however_many_came_meanwhile() -> None:
    bench = slow_bench()
    bench.submit([2])
    reservation = bench.scheduler.reserve([estimate(bench, 1, 10.0)], 0.0)
    for _ in range(40):
        bench.submit([2])
    with pytest.raises(WaitTooLong):
        submit(bench, [[2]], 10.0)
    bench.scheduler.submit([estimate(bench, 1, 10.0)], reservation)


def test_estimate_refuses_nothing_where_nothing_waits() -> None:
    bench = slow_bench(documents=1, tokens=10)
    bench.scheduler.release(bench.scheduler.reserve([estimate(bench, 1000)], 0.0))
    bench.submit([2])
    bench.work()
    bench.scheduler.release(bench.scheduler.reserve([estimate(bench, 200)] * 5, 0.0))


def test_stopped_scheduler_reserves_nothing() -> None:
    bench = slow_bench()
    bench.scheduler.close()
    with pytest.raises(ShuttingDown):
        bench.scheduler.reserve([estimate(bench, 1)], 0.0)


def test_reading_tells_the_wait_that_was_predicted_for_it() -> None:
    bench = slow_bench()
    submit(bench, [[2, 3]], 1e6)
    submit(bench, [[4, 5], [6, 7, 8]], 1e6)
    read_for(bench, 10)
    first, *others = bench.book.outcomes.values()
    assert isinstance(first, Reading)
    assert first.predicted_queue_seconds == 0
    for other in others:
        assert isinstance(other, Reading)
        assert 0 < other.queue_seconds <= 1.5 * other.predicted_queue_seconds
