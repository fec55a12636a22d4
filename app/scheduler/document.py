"""A document on its way through the passes of its model, segment by segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.errors import DeadlineExceeded
from app.scheduler.segments import Lane, Segment

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a later reading may go on: the states after the first ``tokens`` words of this one."""

    tokens: int
    states: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the last pass wrote by name, per word ``[tokens, …]`` and on the whole, and where the time went."""

    steps: Mapping[str, Array]
    queue_seconds: float
    run_seconds: float
    results: Mapping[str, Array] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None  # the last there is; only models of one forward pass have any
    predicted_queue_seconds: float = 0.0  # when its request came; 0 where that was not predicted

    @property
    def tokens(self) -> int:
        """Words that were read: all of the document, or the first ones where it was cut short."""
        return len(next(iter(self.steps.values())))


class ModelVersion(Protocol):
    """A loaded version of a model. Its documents hold it, so it lives until the last of them is answered."""

    @property
    def key(self) -> str:
        """What its lanes are told apart by: never that of another load, even of the same version."""


@dataclass(frozen=True, slots=True)
class _Border:
    """What stands after a segment of the last pass; other threads may look at it while the next one is read."""

    tokens: int
    results: Mapping[str, Array]
    checkpoint: Checkpoint | None


@dataclass(slots=True, eq=False)
class Document:
    """One text's token ids, its place in its passes, and what they wrote so far.

    At any time either a lane or one engine thread holds it, so it needs no lock. Its caller, on another
    thread, only sets ``wanted`` and looks at what was read so far.
    """

    model: ModelVersion
    token_ids: NDArray[np.int64]
    segments: tuple[Segment, ...]
    arrived_seconds: float  # on the scheduler's clock, like the next
    deadline_seconds: float
    partial: bool = False  # whether at the deadline the reading so far is the answer
    on_border: Callable[[Reading], None] | None = None  # gets it on an engine's thread, after each segment
    states: Mapping[str, Array] = field(default_factory=dict)  # to begin with, and then of the border
    again: int = 0  # words at its begin that an earlier reading answered for; not to be told once more
    wanted: bool = True  # until the caller leaves or was answered
    sequence: int = 0  # order of arrival, given at submission, like the next
    predicted_queue_seconds: float = 0.0
    turn_seconds: float = 0.0  # of its next segment, on the scheduler's clock (order.py)
    position: int = 0
    unread: Counter[Lane] = field(init=False)  # segments by lane, as the backlog counted them last
    counted: int = 0  # the position until which it did
    run_seconds: float = 0.0
    steps: dict[str, Array] = field(default_factory=dict)
    _border: _Border | None = None

    def __post_init__(self) -> None:
        self.unread = Counter(map(self.lane_of, self.segments))

    @property
    def unread_tokens(self) -> int:
        """Over all passes."""
        return sum(segment.tokens for segment in self.segments[self.position :])

    @property
    def segment(self) -> Segment:
        """The segment to run next."""
        return self.segments[self.position]

    @property
    def lane(self) -> Lane:
        """Where it waits for that segment's run."""
        return self.lane_of(self.segment)

    @property
    def finished(self) -> bool:
        """Whether every segment of every pass was read."""
        return self.position == len(self.segments)

    def is_over(self, now_seconds: float) -> bool:
        """Whether nobody waits for it any more, or not beyond now."""
        return not self.wanted or now_seconds >= self.deadline_seconds

    def expired(self, now_seconds: float) -> Reading | DeadlineExceeded:
        """Its answer at the deadline: what was read so far where that will do, or the problem."""
        so_far = self.reading(now_seconds) if self.partial else None
        return so_far or DeadlineExceeded("The deadline passed before the last word was read.")

    def lane_of(self, segment: Segment) -> Lane:
        """Where a segment of it is run."""
        return Lane(self.model.key, segment.reading.name, segment.bucket)

    def accept(self, outputs: Mapping[str, Array], row: int) -> bool:
        """Take over a row of a run's outputs and move to the next segment.

        Returns:
            Whether all its numbers are finite; the document has not moved where they are not.
        """
        segment = self.segment
        written = {step.name: outputs[step.name][row, : segment.tokens] for step in segment.reading.steps}
        results = {result.name: outputs[result.name][row] for result in segment.reading.results}
        if not all(np.isfinite(array).all() for array in (*written.values(), *results.values())):
            return False
        for step in segment.reading.steps:
            whole = self.steps.get(step.name)
            if whole is None:
                whole = np.empty((len(self.token_ids), *step.shape), step.dtype)
                self.steps[step.name] = whole
            whole[segment.start : segment.stop] = written[step.name]
        # A copy: a view would keep the whole batch's array alive for as long as this document lives.
        self.states = {
            state.name: outputs[f"{state.name}_next"][row].copy() for state in segment.reading.states
        }
        self._move_on(segment, {name: array.copy() for name, array in results.items()})
        return True

    def reading(self, now_seconds: float) -> Reading | None:
        """What was read so far; None before a first part of the answer is there, or where it says nothing new.

        Models that read from the end have no first part before their last pass goes forward.
        """
        border = self._border
        if border is None or border.tokens <= self.again:
            return None
        names = [step.name for step in self.segments[-1].reading.steps]
        return Reading(
            steps={name: self.steps[name][: border.tokens] for name in names},
            queue_seconds=max(0.0, now_seconds - self.arrived_seconds - self.run_seconds),
            run_seconds=self.run_seconds,
            predicted_queue_seconds=self.predicted_queue_seconds,
            results=border.results,
            checkpoint=border.checkpoint,
        )

    def _move_on(self, read: Segment, results: Mapping[str, Array]) -> None:
        self.position += 1
        last = self.segments[-1].reading
        if read.reading is last and (read.reading.direction == "forward" or self.finished):
            tokens = len(self.token_ids) if self.finished else read.stop
            self._border = _Border(tokens, results, self._checkpoint(read))
        if self.finished:
            self.steps = {step.name: self.steps[step.name] for step in last.steps}
            self.states = {}
        elif self.segment.reading is not read.reading:
            self.states = {}

    def _checkpoint(self, read: Segment) -> Checkpoint | None:
        """States are defined after full segments; those of several passes cannot go on with more words."""
        if self.segments[0].reading is not read.reading or read.reading.direction == "backward":
            return None
        if read.tokens == read.bucket:
            return Checkpoint(read.stop, self.states)
        return self._border.checkpoint if self._border is not None else None
