"""Who goes first: even shares between models and lanes, turns within a lane, and nobody starves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.scheduler.document import Document
from app.scheduler.shares import Shares
from tests.app.scheduler.fakes import FORWARD, Bench, Version

OTHER = Version(FORWARD.manifest.model_copy(update={"name": "other"}))


def answered(bench: Bench, documents: list[Document]) -> int:
    return sum(document in bench.book.outcomes for document in documents)


def test_single_document_goes_between_those_of_a_large_request() -> None:
    bench = Bench(run_seconds=1.0)
    large = bench.submit(*[[2, 3]] * 40, version=FORWARD)
    bench.work_once()
    (single,) = bench.submit([4, 5], version=FORWARD)
    while single not in bench.book.outcomes:
        bench.work_once()
    assert answered(bench, large) <= 12


def test_one_model_does_not_hold_up_another() -> None:
    bench = Bench(run_seconds=1.0)
    busy = bench.submit(*[[2] * 40] * 40, version=FORWARD)
    bench.work_once()
    (other,) = bench.submit([3] * 4, version=OTHER)
    bench.work_once()
    bench.work_once()
    assert bench.book.delivered[other] == 1
    assert not answered(bench, busy)


def test_busy_models_get_the_same_time() -> None:
    bench = Bench(run_seconds=1.0)
    one_lane = [bench.document([2] * 4, 1e6, FORWARD) for _ in range(80)]
    two_lanes = [bench.document([2] * (2 + index % 3), 1e6, OTHER) for index in range(160)]
    for documents in (one_lane, two_lanes):
        bench.scheduler.submit(documents)
    seconds = {"forward@1#1": 0.0, "other@1#1": 0.0}
    while bench.clock() < 100:
        started = bench.clock()
        bench.work_once()
        seconds[bench.engine.runs[-1][0].model] += bench.clock() - started
    assert abs(seconds["forward@1#1"] - seconds["other@1#1"]) <= 6  # one run


def test_nearer_deadline_overtakes_those_that_came_shortly_before() -> None:
    bench = Bench(run_seconds=1.0)
    patient = [bench.document([2, 3], deadline_seconds=60, version=FORWARD) for _ in range(20)]
    for document in patient:
        bench.scheduler.submit([document])
    urgent = bench.document([4, 5], deadline_seconds=30, version=FORWARD)
    bench.scheduler.submit([urgent])
    bench.work_once()
    assert bench.book.delivered[urgent] == 1


def test_later_segments_of_a_long_document_let_short_long_ones_pass() -> None:
    bench = Bench(run_seconds=1.0)
    long = bench.submit(*[[2] * 400] * 4, version=FORWARD)
    bench.work_once()
    (shorter,) = bench.submit([2] * 8, version=FORWARD)
    while shorter not in bench.book.outcomes:
        bench.work_once()
    assert len(bench.engine.runs) < 10
    assert not answered(bench, long)


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.floats(0.1, 3600),
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.1, 3600)), min_size=1, max_size=8),
)
def test_nobody_starves_under_overload(
    request: list[int], patience: float, newcomers: list[tuple[int, float]]
) -> None:
    """Four newcomers come with every run, more than it can take, of any length and urgency."""
    bench = Bench(documents=10**6, tokens=10**9, run_seconds=0.5)
    old = [bench.document([2] * tokens, 10.0**9, FORWARD) for tokens in request]
    bench.scheduler.submit(old)
    runs = 0
    while answered(bench, old) < len(old):
        for index in range(4):
            tokens, urgency = newcomers[(runs + index) % len(newcomers)]
            made = bench.document([3] * tokens, bench.clock() + 10**6 + urgency, FORWARD)
            bench.scheduler.submit([made])
        bench.work_once()
        runs += 1
        assert runs < 200


def test_absent_member_saves_nothing_up() -> None:
    shares: Shares[str] = Shares()
    shares.join("busy")
    for _ in range(10):
        shares.charge("busy", 1.0)
    shares.join("late")
    served = []
    for _ in range(6):
        member = shares.next(["busy", "late"])
        shares.charge(member, 1.0)
        served.append(member)
    assert served.count("late") <= 4


def test_members_that_went_are_forgotten() -> None:
    shares: Shares[int] = Shares()
    for member in range(5000):
        shares.join(member)
        shares.charge(member, 1.0)
        shares.charge(member, 0.0)
    assert len(shares._seconds) < 2000
