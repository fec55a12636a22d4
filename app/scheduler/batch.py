"""Documents taken together, and the arrays of their run, padded to a row count that was warmed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from app.manifest import UNKNOWN_ID
from app.scheduler.document import Array, Document
from app.scheduler.segments import Lane

Reason = Literal["full", "prepared", "cheaper", "oldest"]


@dataclass(slots=True, eq=False)
class Batch:
    """Documents of one lane taken together, each of which is settled once, with the batch or one by one."""

    lane: Lane
    rows: int  # of its run, as chosen
    reason: Reason = "oldest"
    documents: list[Document] = field(default_factory=list)
    dropped: list[Document] = field(default_factory=list)
    runs: list[tuple[int, float]] = field(default_factory=list)  # rows and seconds of those that succeeded
    run_failed: bool = False  # whether one of its runs gave nothing
    running: bool = False  # whether one of the engine's places is its own
    placed_seconds: float = 0.0  # when it got the place, on the scheduler's clock
    settled: bool = False
    abandoned: bool = False  # the thread that held it is dead or stuck; what it still finds counts no more


def assemble(documents: Sequence[Document], rows: int) -> dict[str, Array]:
    """The input arrays of the documents' next segments, which must be of one pass and one bucket.

    Rows beyond the documents hold one unknown word each: no row of the graphs' contract is empty.
    """
    first = documents[0].segment
    token_ids = np.zeros((rows, first.bucket), np.int64)
    token_ids[len(documents) :, 0] = UNKNOWN_ID
    lengths = np.ones(rows, np.int64)
    for row, document in enumerate(documents):
        segment = document.segment
        token_ids[row, : segment.tokens] = document.token_ids[segment.start : segment.stop]
        lengths[row] = segment.tokens
    return {"token_ids": token_ids, "lengths": lengths, **_states(documents, rows), **_reads(documents, rows)}


def _states(documents: Sequence[Document], rows: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for state in documents[0].segment.reading.states:
        array = np.zeros((rows, *state.shape), state.dtype)
        for row, document in enumerate(documents):
            if state.name in document.states:
                array[row] = document.states[state.name]
        arrays[state.name] = array
    return arrays


def _reads(documents: Sequence[Document], rows: int) -> dict[str, Array]:
    first = documents[0].segment
    arrays: dict[str, Array] = {}
    for name in first.reading.reads:
        written = documents[0].steps[name]
        array = np.zeros((rows, first.bucket, *written.shape[1:]), written.dtype)
        for row, document in enumerate(documents):
            segment = document.segment
            array[row, : segment.tokens] = document.steps[name][segment.start : segment.stop]
        arrays[name] = array
    return arrays
