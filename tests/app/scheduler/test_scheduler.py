from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import (
    DeadlineExceeded,
    NotANumber,
    QueueFull,
    ReadingFailed,
    RequestTooLarge,
    ShuttingDown,
    WaitTooLong,
)
from app.scheduler.document import Document, Reading
from tests.app.scheduler.fakes import HANGING, NOT_A_NUMBER, POISON, Bench, expected

ANY_TOKEN_IDS = st.lists(st.sampled_from([2, 3, 4, 5, POISON, NOT_A_NUMBER]), min_size=1, max_size=23)


def check_outcome(bench: Bench, document: Document) -> None:
    """Delivered once: read right, or failed where it must fail."""
    ids = document.token_ids.tolist()
    assert bench.book.delivered[document] == 1
    outcome = bench.book.outcomes[document]
    if POISON in ids:
        assert isinstance(outcome, ReadingFailed)
    elif NOT_A_NUMBER in ids:
        assert isinstance(outcome, NotANumber)
    else:
        assert isinstance(outcome, Reading)
        np.testing.assert_array_equal(outcome.steps["probabilities"], expected(ids))


@given(st.lists(ANY_TOKEN_IDS, min_size=1, max_size=12))
def test_bad_documents_fail_alone_and_all_are_answered_once(texts: list[list[int]]) -> None:
    bench = Bench()
    documents = bench.submit(*texts)
    bench.work()
    for document in documents:
        check_outcome(bench, document)
    assert bench.book.queue == (0, 0)


def test_batch_mates_share_runs() -> None:
    bench = Bench()
    bench.submit([2, 3], [4, 5], [6, 7])
    bench.work()
    assert [(run.documents, run.rows) for run in bench.book.ran_] == [(3, 4), (3, 4)]
    assert bench.book.calls == 1


def test_dispatch_says_whether_the_batch_was_full() -> None:
    bench = Bench()
    bench.submit(*[[2, 3]] * 5)
    bench.work()
    assert bench.book.reasons == ["full", "oldest", "full", "oldest"]


def test_dispatch_says_cheaper_only_where_some_were_left_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(bench.engine, "seconds", lambda rows, _: {2: 1.0, 4: 4.0}[rows])
    bench.submit(*[[2, 3]] * 3)
    bench.work_once()
    bench.work_once()
    assert [(run.lane.reading, run.documents) for run in bench.book.ran_] == [("suffix", 2), ("prefix", 2)]
    assert bench.book.reasons == ["cheaper", "oldest"]


def test_time_of_a_run_that_failed_is_not_learned_of_the_one_that_did_not() -> None:
    bench = Bench(run_seconds=0.01)
    bench.submit([2, 3], [4, HANGING])
    while not bench.book.failed_runs:
        bench.work_once()
    (run,) = bench.book.ran_
    costs = bench.engine.costs(run.lane)
    assert costs.seconds(run.rows) == pytest.approx(run.seconds)


def test_short_document_waits_for_one_run_of_a_long_one() -> None:
    bench = Bench()
    bench.submit([2] * 200)
    bench.work_once()
    (short,) = bench.submit([3])
    for _ in range(4):
        bench.work_once()
    assert bench.book.delivered[short] == 1


def test_oldest_document_of_a_lane_goes_first() -> None:
    bench = Bench()
    old = bench.submit(*[[2] * 8] * 4)
    bench.submit(*[[3] * 8] * 4)
    while len(bench.book.outcomes) < len(old):
        bench.work_once()
    assert set(bench.book.outcomes) == set(old)


def test_departed_client_is_dropped_at_the_next_border() -> None:
    bench = Bench()
    (document,) = bench.submit([2] * 12)
    bench.work_once()
    document.wanted = False
    bench.work()
    assert bench.book.outcomes[document] is None
    assert len(bench.engine.runs) == 1


def test_late_document_is_dropped_and_told() -> None:
    bench = Bench()
    (document,) = bench.submit([2] * 12)
    bench.work_once()
    bench.clock.now = 1e3
    bench.work()
    assert isinstance(bench.book.outcomes[document], DeadlineExceeded)


def test_full_queue_refuses_before_anything_waits() -> None:
    bench = Bench(documents=2, run_seconds=1.0)
    bench.submit([2, 3], [4])
    with pytest.raises(QueueFull) as caught:
        bench.submit([5])
    assert (
        caught.value.retry_after_seconds == 6
    )  # two passes, each with one run of two words, and half as much for safety
    assert bench.book.queue == (2, 6)


def test_request_is_admitted_whole_or_not_at_all() -> None:
    bench = Bench(tokens=10)
    bench.submit([2, 3])
    with pytest.raises(QueueFull):
        bench.submit([2], [3, 4, 5])
    assert bench.book.queue == (1, 4)


def test_request_that_never_fits_is_told_so() -> None:
    bench = Bench(tokens=10)
    with pytest.raises(RequestTooLarge, match="12 tokens to read; expected at most 1000 and 10"):
        bench.submit([2] * 6)


def test_request_that_would_outwait_its_deadline_is_refused() -> None:
    bench = Bench(run_seconds=1.0)
    bench.submit(*[[2]] * 12)
    with pytest.raises(
        WaitTooLong, match=r"takes about 18\.0 s and reading 6\.0 s; the deadline is in 10\.0 s"
    ):
        bench.scheduler.submit([bench.document([2], deadline_seconds=10.0)])


@pytest.mark.parametrize("tokens", [1, 4])
def test_shorter_text_does_not_count_all_of_a_long_one_as_waiting_before_it(tokens: int) -> None:
    bench = Bench(run_seconds=1.0)
    bench.submit([2] * 300)
    short = bench.document([2] * tokens, deadline_seconds=30.0)
    bench.scheduler.submit([short])
    while short not in bench.book.outcomes:
        bench.work_once()
    assert bench.clock() < 30.0


def test_closed_scheduler_fails_what_waits_and_takes_nothing() -> None:
    bench = Bench()
    (document,) = bench.submit([2])
    bench.scheduler.close()
    assert isinstance(bench.book.outcomes[document], ShuttingDown)
    with pytest.raises(ShuttingDown):
        bench.submit([2])


def test_document_between_two_segments_fails_when_the_scheduler_closes() -> None:
    bench = Bench()
    (document,) = bench.submit([2] * 12)
    bench.engine.before_run = bench.scheduler.close
    bench.work()
    assert isinstance(bench.book.outcomes[document], ShuttingDown)
    assert bench.book.queue == (0, 0)
