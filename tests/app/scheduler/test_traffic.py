"""Any traffic, any faults, in any order: every document is answered once, and with the truth."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.errors import (
    DeadlineExceeded,
    EngineFailed,
    NotANumber,
    QueueFull,
    ReadingFailed,
    ReadingTerminated,
    RequestTooLarge,
    WaitTooLong,
)
from app.scheduler.batch import Batch
from app.scheduler.document import Document, Reading
from app.scheduler.scheduler import Reservation
from tests.app.scheduler.fakes import (
    FORWARD,
    HANGING,
    KILLER,
    NOT_A_NUMBER,
    POISON,
    STUCK,
    SUMS,
    WRONG_SHAPE,
    Bench,
    Version,
    expected,
)

GOOD = [2, 3, 4, 5] * 3
TOKENS = [*GOOD, POISON, NOT_A_NUMBER, WRONG_SHAPE, HANGING, STUCK, KILLER]
TEXTS = st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=23), min_size=1, max_size=6)
# Whose fault each answer may be.
FAULTS = {ReadingFailed: POISON, ReadingTerminated: HANGING, NotANumber: NOT_A_NUMBER}


class Traffic(RuleBasedStateMachine):
    """Requests come, clients leave, time passes, threads take batches and run them, well or not."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(documents=12, tokens=300, run_seconds=0.01)
        self.admitted: list[Document] = []
        self.left: set[Document] = set()
        self.reserved: list[tuple[Reservation, list[Document]]] = []  # of requests whose texts are being cut
        self.taken: list[Batch] = []  # the first has the engine's place, another is prepared

    @rule(
        texts=TEXTS,
        patience=st.sampled_from([0.5, 5.0, 1e6]),
        partial=st.booleans(),
        version=st.sampled_from([SUMS, FORWARD]),
    )
    def request(self, texts: list[list[int]], patience: float, partial: bool, version: Version) -> None:
        deadline = self.bench.clock() + patience
        made = [self.bench.document(ids, deadline, version) for ids in texts]
        for document in made:
            document.partial = partial
        try:
            self.bench.scheduler.submit(made)
        except (QueueFull, RequestTooLarge, WaitTooLong):
            assert all(document not in self.bench.book.delivered for document in made)
        else:
            self.admitted += made

    @rule(texts=TEXTS, patience=st.sampled_from([0.5, 5.0, 1e6]), shorter=st.booleans())
    def request_is_estimated(self, texts: list[list[int]], patience: float, shorter: bool) -> None:
        deadline = self.bench.clock() + patience
        made = [self.bench.document(ids, deadline) for ids in texts]
        estimates = [self.bench.document(ids[:1] if shorter else ids * 2, deadline) for ids in texts]
        try:
            self.reserved.append((self.bench.scheduler.reserve(estimates, 0.1), made))
        except (QueueFull, WaitTooLong):
            assert self.waiting

    @precondition(lambda self: self.reserved)
    @rule(leaves=st.booleans())
    def texts_are_cut(self, leaves: bool) -> None:
        reservation, made = self.reserved.pop(0)
        if leaves:
            self.bench.scheduler.release(reservation)
            return
        try:
            self.bench.scheduler.submit(made, reservation)
        except (QueueFull, RequestTooLarge):
            assert all(document not in self.bench.book.delivered for document in made)
        else:
            self.admitted += made

    @property
    def waiting(self) -> int:
        """Documents that are queued, read or reserved for."""
        unanswered = sum(one not in self.bench.book.outcomes for one in self.admitted)
        return unanswered + sum(len(made) for _, made in self.reserved)

    @rule(data=st.data())
    def client_leaves(self, data: st.DataObject) -> None:
        waiting = [one for one in self.admitted if one not in self.bench.book.outcomes]
        if waiting:
            document = data.draw(st.sampled_from(waiting))
            document.wanted = False
            self.left.add(document)

    @rule(seconds=st.sampled_from([0.1, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.now += seconds

    @rule(slowness=st.sampled_from([0.5, 1.0, 20.0]))
    def engine_changes_its_pace(self, slowness: float) -> None:
        self.bench.engine.slowness = slowness

    @rule()
    def thread_takes_a_batch(self) -> None:
        if (batch := self.bench.scheduler.try_take()) is not None:
            self.taken.append(batch)

    @precondition(lambda self: self.taken)
    @rule()
    def thread_works(self) -> None:
        self.process(next(one for one in self.taken if one.running or not one.documents))

    def process(self, batch: Batch) -> None:
        self.taken.remove(batch)
        self.bench.process(batch)

    @invariant()
    def nothing_is_delivered_twice(self) -> None:
        assert all(count == 1 for count in self.bench.book.delivered.values())

    @invariant()
    def one_batch_runs_and_at_most_one_is_prepared(self) -> None:
        assert sum(batch.running for batch in self.taken) <= 1
        assert sum(bool(batch.documents) and not batch.running for batch in self.taken) <= 1

    @invariant()
    def the_queue_is_what_was_not_answered(self) -> None:
        assert self.bench.book.queue[0] == self.waiting

    def teardown(self) -> None:
        while self.reserved:
            self.bench.scheduler.release(self.reserved.pop()[0])
        while self.taken:
            self.thread_works()
        self.bench.work()
        for document in self.admitted:
            self.check(document)
        self.counters_add_up()

    def check(self, document: Document) -> None:
        outcome = self.bench.book.outcomes[document]
        ids = document.token_ids.tolist()
        if outcome is None:
            assert document in self.left
        elif isinstance(outcome, DeadlineExceeded):
            assert self.bench.clock() >= document.deadline_seconds
        elif isinstance(outcome, EngineFailed):
            assert self.engine_faults()
        elif isinstance(outcome, Reading):
            self.check_reading(document, outcome)
        else:
            assert FAULTS[type(outcome)] in ids  # type: ignore[index]

    def check_reading(self, document: Document, reading: Reading) -> None:
        ids = document.token_ids.tolist()
        if reading.tokens < len(ids):
            assert document.partial
            assert self.bench.clock() >= document.deadline_seconds
        # What reads from the end has met every fault before it gives its first part.
        met = ids if document.model is SUMS else ids[: reading.tokens]
        assert not {POISON, HANGING, KILLER} & set(met)
        assert not {NOT_A_NUMBER, WRONG_SHAPE} & set(ids[: reading.tokens])
        sums = expected(ids)
        if document.model is FORWARD:
            sums = sums[:, [0, 0]]
        np.testing.assert_array_equal(reading.steps["probabilities"], sums[: reading.tokens])

    def engine_faults(self) -> int:
        failed = self.bench.book.failed_runs
        return failed["wrong-output"] + failed["died"] + failed["stuck"]

    def counters_add_up(self) -> None:
        book, outcomes = self.bench.book, list(self.bench.book.outcomes.values())
        assert book.queue == (0, 0)
        assert self.bench.backlog_seconds == 0
        assert set(book.outcomes) == set(self.admitted)
        cut_short = [
            document
            for document, outcome in book.outcomes.items()
            if isinstance(outcome, Reading) and outcome.tokens < len(document.token_ids)
        ]
        late = sum(isinstance(outcome, DeadlineExceeded) for outcome in outcomes)
        assert book.drops.total() == outcomes.count(None) + late + len(cut_short)
        problems = [type(outcome) for outcome in outcomes]
        assert problems.count(ReadingFailed) <= book.failed_runs["raised"]
        assert problems.count(ReadingTerminated) <= book.failed_runs["terminated"]
        assert sum(run.documents for run in book.ran_) >= problems.count(Reading)


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=40)
