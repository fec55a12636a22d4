"""A document on its way through the passes of its model, segment by segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.bundle import PassSpec
from app.scheduler.segments import Lane, Segment

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the last pass wrote by name, per word ``[tokens, …]`` and on the whole, and where the time went."""

    steps: Mapping[str, Array]
    queue_seconds: float
    run_seconds: float
    results: Mapping[str, Array] = field(default_factory=dict)


class ModelVersion(Protocol):
    """A loaded version of a model. Its documents hold it, so it lives until the last of them is answered."""

    @property
    def key(self) -> str:
        """What its lanes are told apart by: never that of another load, even of the same version."""


class Promise(Protocol):
    """Where the caller waits: a future of asyncio or of threads."""

    def done(self) -> bool:
        """Whether it was answered, or nobody waits any more."""

    def set_result(self, result: Reading, /) -> None:
        """Answer with a reading."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Answer with a problem."""


@dataclass(slots=True, eq=False)
class Document:
    """One text's token ids, its place in its passes, what they wrote so far, and its future.

    At any time either a lane or one engine thread holds it, so it needs no lock. Only ``future`` is shared:
    the caller ends it to say that nobody waits any more.
    """

    model: ModelVersion
    token_ids: NDArray[np.int64]
    segments: tuple[Segment, ...]
    arrived_seconds: float  # on the scheduler's clock, like the next
    deadline_seconds: float
    future: Promise
    sequence: int = 0  # order of arrival, given at submission
    turn_seconds: float = 0.0  # of its next segment, on the scheduler's clock (order.py)
    unread_tokens: int = field(init=False)  # over all passes
    position: int = 0
    counted: int = 0  # the position that the backlog knows
    run_seconds: float = 0.0
    states: dict[str, Array] = field(default_factory=dict)
    steps: dict[str, Array] = field(default_factory=dict)
    results: dict[str, Array] = field(default_factory=dict)  # of the segment read last

    def __post_init__(self) -> None:
        self.unread_tokens = sum(segment.tokens for segment in self.segments)

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

    def lane_of(self, segment: Segment) -> Lane:
        """Where a segment of it is run."""
        return Lane(self.model.key, segment.reading.name, segment.bucket)

    def unread_lanes(self) -> Counter[Lane]:
        """How many of its segments are still to be run in each lane."""
        return Counter(self.lane_of(segment) for segment in self.segments[self.position :])

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
        self.results = {name: array.copy() for name, array in results.items()}
        self.unread_tokens -= segment.tokens
        self._move_on(segment.reading)
        return True

    def result(self, now_seconds: float) -> Reading:
        """The result of a finished document."""
        queue_seconds = max(0.0, now_seconds - self.arrived_seconds - self.run_seconds)
        return Reading(self.steps, queue_seconds, self.run_seconds, self.results)

    def _move_on(self, previous: PassSpec) -> None:
        self.position += 1
        if self.finished:
            self.steps = {step.name: self.steps[step.name] for step in previous.steps}
            self.states = {}
        elif self.segment.reading is not previous:
            self.states = {}
