"""A clock that moves when told, an engine that computes sums and can be told to fail, and a book of deliveries."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from app.manifest import GoldenDocument, Manifest, PassSpec, TensorSpec, TraceSpec, Training
from app.scheduler.admission import Limits
from app.scheduler.batch import Batch, Reason
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array, Document
from app.scheduler.runner import FailedRun, Run
from app.scheduler.scheduler import DropReason, DropStage, Ended, Outcome, Scheduler
from app.scheduler.segments import Lane, cut
from app.scheduler.watch import RunControl, Watch

POISON = 13  # a token id that makes the engine raise
NOT_A_NUMBER = 14  # a token id that is answered with NaN
WRONG_SHAPE = 15  # a token id that makes the last pass answer with too short arrays
HANGING = 16  # a token id whose run ends only when it is told to stop
STUCK = 17  # a token id whose run does not stop then either
KILLER = 18  # a token id that kills the thread
LIMIT_SECONDS = 5.0  # of a run
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
    def __init__(self, manifest: Manifest, load: int = 1) -> None:
        self.manifest = manifest
        self.key = f"{manifest.name}@{manifest.version}#{load}"


SUMS = Version(MANIFEST)
# One pass forward, so that its readings can go on with more words.
FORWARD = Version(
    MANIFEST.model_copy(
        update={"name": "forward", "passes": (MANIFEST.passes[1].model_copy(update={"reads": ()}),)}
    )
)


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
    """Sums from both ends; certain token ids make it fail, each in its own way."""

    def __init__(self, clock: Clock, run_seconds: float) -> None:
        self.clock = clock
        self.run_seconds = run_seconds  # of two rows of one word
        self.slowness = 1.0  # how much longer a run takes than was measured
        self._costs: dict[Lane, RunCosts] = {}
        self.runs: list[tuple[Lane, int]] = []
        self.before_run: Callable[[], None] = lambda: None
        self.pass_limit: Callable[[float], None] = lambda _: None

    def costs(self, lane: Lane) -> RunCosts:
        return self._costs.setdefault(lane, RunCosts({rows: self.seconds(rows, lane) for rows in ROW_COUNTS}))

    def seconds(self, rows: int, lane: Lane) -> float:
        """Of a run; half as much again for twice the rows."""
        return self.run_seconds * lane.bucket * {2: 1.0, 4: 1.5}[rows]

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        self.before_run()
        ids, lengths = arrays["token_ids"], arrays["lengths"]
        assert ids.shape[0] in ROW_COUNTS
        assert ids.shape[1] == lane.bucket
        assert ((lengths >= 1) & (lengths <= lane.bucket)).all()
        self.runs.append((lane, ids.shape[0]))
        self._fail(ids, control)
        self.clock.now += self.seconds(ids.shape[0], lane) * self.slowness
        total = arrays["total"] + ids.sum(axis=1)
        if lane.reading == "suffix":
            rest = ids[:, ::-1].cumsum(axis=1)[:, ::-1] + arrays["total"][:, None]
            return {"rest": rest, "total_next": total}
        sums = ids.cumsum(axis=1) + arrays["total"][:, None]
        read = np.stack([sums, arrays.get("rest", sums)], axis=2).astype(np.float32)
        read[(ids == NOT_A_NUMBER).any(axis=1)] = np.nan
        if (ids == WRONG_SHAPE).any():
            read = read[:, :-1]
        return {"logits": read, "probabilities": read, "total_next": total}

    def _fail(self, ids: Array, control: RunControl) -> None:
        if (ids == KILLER).any():
            raise SystemExit
        if (ids == POISON).any():
            raise RuntimeError("poison")
        if (ids == HANGING).any():
            stopped = threading.Event()
            control.stops_by(stopped.set)
            self.pass_limit(1.01 * LIMIT_SECONDS)
            assert stopped.is_set()
            raise RuntimeError("told to stop")
        if (ids == STUCK).any():
            self.pass_limit(2.01 * LIMIT_SECONDS)  # and then it answers after all


class Book:
    """Counts deliveries and what the scheduler tells."""

    def __init__(self) -> None:
        self.delivered: Counter[Document] = Counter()
        self.outcomes: dict[Document, Outcome] = {}
        self.calls = 0
        self.reasons: list[Reason] = []
        self.ran_: list[Run] = []
        self.failed_runs: Counter[FailedRun] = Counter()
        self.drops: Counter[tuple[DropStage, DropReason]] = Counter()
        self.queue = (0, 0)
        self.working = 0
        self.restarts = 0

    def deliver(self, ended: Sequence[Ended]) -> None:
        self.calls += 1
        for document, outcome in ended:
            self.delivered[document] += 1
            self.outcomes[document] = outcome

    def dispatched(self, _: Lane, reason: Reason) -> None:
        self.reasons.append(reason)

    def ran(self, run: Run) -> None:
        self.ran_.append(run)

    def run_failed(self, _: Lane, why: FailedRun) -> None:
        self.failed_runs[why] += 1

    def dropped(self, stage: DropStage, reason: DropReason) -> None:
        self.drops[stage, reason] += 1

    def queue_changed(self, documents: int, tokens: int) -> None:
        self.queue = (documents, tokens)

    def threads_changed(self, working: int) -> None:
        self.working = working

    def restarted(self) -> None:
        self.restarts += 1


class Bench:
    """A scheduler with its fakes; ``work`` plays the engine thread."""

    def __init__(
        self,
        documents: int = 1000,
        tokens: int = 100_000,
        run_seconds: float = 0.0,
        places: int = 1,
        watch: Watch | None = None,
        wait_seconds: float = math.inf,
    ) -> None:
        self.clock = Clock()
        self.engine = SumEngine(self.clock, run_seconds)
        self.engine.pass_limit = self._pass_limit
        self.book = Book()
        self.watch = watch or Watch(LIMIT_SECONDS, self.clock)
        limits = Limits(documents, tokens, wait_seconds)
        self.scheduler = Scheduler(
            self.engine, limits, self.book, self.book.deliver, self.watch, self.clock, places
        )

    def document(
        self, token_ids: Sequence[int], deadline_seconds: float = 100.0, version: Version = SUMS
    ) -> Document:
        return Document(
            model=version,
            token_ids=np.array(token_ids, np.int64),
            segments=cut(version.manifest, len(token_ids)),
            arrived_seconds=self.clock(),
            deadline_seconds=deadline_seconds,
        )

    def submit(self, *documents: Sequence[int], version: Version = SUMS) -> list[Document]:
        made = [self.document(token_ids, version=version) for token_ids in documents]
        self.scheduler.submit(made)
        self.scheduler.wake()
        return made

    def work_once(self) -> bool:
        batch = self.scheduler.try_take()
        if batch is None:
            return False
        self.process(batch)
        return True

    def process(self, batch: Batch) -> None:
        """Play the thread that took a batch, also where it dies of it."""
        try:
            self.scheduler.process(batch)
        except SystemExit:
            self.scheduler.abandon(batch, "died")

    def work(self) -> None:
        while self.work_once():
            pass

    @property
    def backlog_seconds(self) -> float:
        """Work that is counted as waiting."""
        return self.scheduler._backlog.seconds

    def _pass_limit(self, seconds: float) -> None:
        self.clock.now += seconds
        self.watch.check(lambda batch: self.scheduler.abandon(batch, "stuck"))
