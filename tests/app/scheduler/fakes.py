"""A clock that stands still, an engine that computes sums and can be told to fail, and a book of deliveries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import numpy as np

from app.bundle import (
    GoldenDocument,
    Manifest,
    PassSpec,
    TensorSpec,
    TraceSpec,
    Training,
)
from app.scheduler.admission import Limits
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array, Document
from app.scheduler.scheduler import Outcome, Reason, Run, Scheduler
from app.scheduler.segments import Lane, cut

POISON = 13  # a token id that makes the engine raise
NOT_A_NUMBER = 14  # a token id that is answered with NaN
ROW_COUNTS = (2, 4)

_ANSWER = tuple(TensorSpec(name=name, shape=(2,)) for name in ("logits", "probabilities"))
MANIFEST = Manifest(
    name="sums",
    version="1",
    architecture="none",
    sizes={},
    labels=("low", "high"),
    trace=TraceSpec(causal=True, meaning=""),
    passes=(
        PassSpec(
            name="suffix",
            graph="suffix.onnx",
            direction="backward",
            states=(TensorSpec(name="total", dtype="int64"),),
            steps=(TensorSpec(name="rest", dtype="int64"),),
        ),
        PassSpec(
            name="prefix",
            graph="prefix.onnx",
            reads=("rest",),
            states=(TensorSpec(name="total", dtype="int64"),),
            steps=_ANSWER,
        ),
    ),
    length_buckets=(2, 4),
    longest_document=1000,
    opset=20,
    training=Training(data="", terms="", recipe="", seed=0, metrics={}),
    golden=(GoldenDocument(text="", probabilities=(0, 1)),),
    golden_tolerance=1e-6,
    sha256=dict.fromkeys(("suffix.onnx", "prefix.onnx", "tokenizer.json"), "0" * 64),
)


class Version:
    def __init__(self, key: str) -> None:
        self.key = key


SUMS = Version("sums@1#1")


def expected(token_ids: Sequence[int]) -> Array:
    """What reading must give: sums of the ids up to and from each word on, ``[tokens, 2]``."""
    ids = np.array(token_ids, np.int64)
    return np.stack([ids.cumsum(), ids[::-1].cumsum()[::-1]], axis=1).astype(np.float32)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SumEngine:
    """Sums from both ends; refuses poison, and answers ``NOT_A_NUMBER`` with NaN."""

    def __init__(self, run_seconds: float) -> None:
        self.run_seconds = run_seconds  # of two rows of one word
        self._costs: dict[Lane, RunCosts] = {}
        self.runs: list[tuple[Lane, int]] = []
        self.before_run: Callable[[], None] = lambda: None

    def costs(self, lane: Lane) -> RunCosts:
        return self._costs.setdefault(lane, RunCosts({rows: self.seconds(rows, lane) for rows in ROW_COUNTS}))

    def seconds(self, rows: int, lane: Lane) -> float:
        """Of a run; half as much again for twice the rows."""
        return self.run_seconds * lane.bucket * {2: 1.0, 4: 1.5}[rows]

    def run(self, lane: Lane, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        self.before_run()
        ids, lengths = arrays["token_ids"], arrays["lengths"]
        assert ids.shape[0] in ROW_COUNTS
        assert ids.shape[1] == lane.bucket
        assert ((lengths >= 1) & (lengths <= lane.bucket)).all()
        self.runs.append((lane, ids.shape[0]))
        if (ids == POISON).any():
            raise RuntimeError("poison")
        total = arrays["total"] + ids.sum(axis=1)
        if lane.reading == "suffix":
            rest = ids[:, ::-1].cumsum(axis=1)[:, ::-1] + arrays["total"][:, None]
            return {"rest": rest, "total_next": total}
        sums = ids.cumsum(axis=1) + arrays["total"][:, None]
        read = np.stack([sums, arrays["rest"]], axis=2).astype(np.float32)
        read[(ids == NOT_A_NUMBER).any(axis=1)] = np.nan
        return {"logits": read, "probabilities": read, "total_next": total}


class Book:
    """Counts deliveries and resolves futures, as the event loop does."""

    def __init__(self) -> None:
        self.delivered: Counter[Document] = Counter()
        self.outcomes: dict[Document, Outcome] = {}
        self.calls = 0
        self.reasons: list[Reason] = []
        self.ran_: list[Run] = []
        self.queue = (0, 0)

    def deliver(self, ended: Sequence[tuple[Document, Outcome]]) -> None:
        self.calls += 1
        for document, outcome in ended:
            self.delivered[document] += 1
            self.outcomes[document] = outcome

    def dispatched(self, lane: Lane, reason: Reason) -> None:
        assert lane.model == SUMS.key
        self.reasons.append(reason)

    def ran(self, run: Run) -> None:
        self.ran_.append(run)

    def queue_changed(self, documents: int, tokens: int) -> None:
        self.queue = (documents, tokens)


class Bench:
    """A scheduler with its fakes; ``work`` plays the engine thread."""

    def __init__(self, documents: int = 1000, tokens: int = 100_000, run_seconds: float = 0.0) -> None:
        self.clock = Clock()
        self.engine = SumEngine(run_seconds)
        self.book = Book()
        self.scheduler = Scheduler(
            self.engine, Limits(documents, tokens), self.book, self.book.deliver, self.clock
        )

    def document(self, token_ids: Sequence[int], deadline_seconds: float = 100.0) -> Document:
        return Document(
            model=SUMS,
            token_ids=np.array(token_ids, np.int64),
            segments=cut(MANIFEST, len(token_ids)),
            arrived_seconds=self.clock(),
            deadline_seconds=deadline_seconds,
            future=Future(),
        )

    def submit(self, *documents: Sequence[int]) -> list[Document]:
        made = [self.document(token_ids) for token_ids in documents]
        self.scheduler.submit(made)
        return made

    def work_once(self) -> bool:
        batch = self.scheduler.try_take()
        if batch is None:
            return False
        self.scheduler.process(batch)
        return True

    def work(self) -> None:
        while self.work_once():
            pass
