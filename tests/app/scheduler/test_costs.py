from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scheduler.costs import RunCosts


def test_rows_are_those_that_are_cheapest_for_the_documents_that_wait() -> None:
    costs = RunCosts({1: 1.0, 2: 1.1, 4: 2.6, 8: 3.0})
    assert [costs.choose(waiting) for waiting in (1, 2, 3, 4, 5, 8, 100)] == [1, 2, 2, 2, 2, 8, 8]


def test_work_is_the_time_of_the_runs_that_would_be_formed() -> None:
    costs = RunCosts({1: 1.0, 2: 1.5, 4: 2.0})
    assert [costs.work_seconds(count) for count in (0, 1, 2, 3, 4, 5, 8)] == [0, 1, 1.5, 2, 2, 3, 4]


def test_runs_correct_what_was_measured_and_the_row_counts_that_were_not_run_follow_in_part() -> None:
    costs = RunCosts({1: 1.0, 4: 2.0})
    for _ in range(100):
        costs.observe(4, 4.0)
    assert costs.seconds(4) == pytest.approx(4.0, rel=0.01)
    assert 1.3 < costs.seconds(1) < 2.0


def test_fewer_rows_never_take_longer_than_more() -> None:
    costs = RunCosts({1: 9.0, 2: 1.0, 4: 1.5})
    assert [costs.seconds(rows) for rows in (1, 2, 4)] == [1.0, 1.0, 1.5]


def test_stalls_among_many_quick_runs_do_not_carry_up_what_is_never_run() -> None:
    costs = RunCosts({1: 1.0, 64: 8.0})
    for index in range(20_000):
        costs.observe(1, 10.0 if index % 12 == 0 else 0.5)
    assert costs.seconds(1) < 2.5
    assert costs.seconds(64) == pytest.approx(8 * costs.seconds(1), rel=0.5)


def test_one_stall_is_no_trend() -> None:
    costs = RunCosts({1: 1.0})
    costs.observe(1, 1000.0)
    assert costs.seconds(1) < 2


@given(st.lists(st.floats(0, 100), max_size=50), st.integers(1, 200))
def test_costs_stay_positive_and_a_choice_always_holds_a_document(seconds: list[float], waiting: int) -> None:
    costs = RunCosts({1: 0.5, 2: 0.6, 16: 3.0})
    for index, one in enumerate(seconds):
        costs.observe(costs.row_counts[index % 3], one)
    assert all(costs.seconds(rows) > 0 for rows in costs.row_counts)
    assert costs.choose(waiting) in costs.row_counts
    assert costs.choose(waiting) <= costs.fitting(waiting)
