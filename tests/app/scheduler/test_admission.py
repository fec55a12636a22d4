"""Refusals are honest: a caller who waits as told is let in, where nobody else comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import QueueFull, Refused, WaitTooLong
from app.scheduler.document import Document
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


def probe(bench: Bench, patience_seconds: float = 100.0) -> Document:
    return bench.document(np.full(1, 2).tolist(), bench.clock() + patience_seconds)


def test_estimate_refuses_what_the_full_queue_would() -> None:
    bench = slow_bench(tokens=100)
    bench.submit([2] * 40)
    with pytest.raises(QueueFull, match="80 unread tokens"):
        bench.scheduler.check_early(probe(bench), 1, 30)
    bench.scheduler.check_early(probe(bench), 1, 20)
    assert bench.book.queue == (1, 80)


def test_estimate_refuses_what_would_outwait_its_deadline() -> None:
    bench = slow_bench()
    bench.submit(*[[2]] * 12)
    with pytest.raises(WaitTooLong):
        bench.scheduler.check_early(probe(bench, 1.0), 1, 2)
    bench.scheduler.check_early(probe(bench, 50.0), 1, 2)


def test_estimate_refuses_nothing_where_nothing_waits() -> None:
    bench = slow_bench(documents=1, tokens=10)
    bench.scheduler.check_early(probe(bench), 1, 1000)
    bench.submit([2])
    bench.work()
    bench.scheduler.check_early(probe(bench), 5, 1000)
