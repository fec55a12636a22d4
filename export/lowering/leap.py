"""Leap-LSTM as two passes: looking ahead, backwards; then reading, a loop over the words that are read.

Filters that reach back need a pass before these two; decisions without the following text need neither.
"""

from __future__ import annotations

from app.manifest import TensorSpec, TraceSpec
from export.lowering.base import BUCKETS, CAUSAL, Lowered
from export.lowering.leap_look_ahead import look_ahead, words_before
from export.lowering.leap_look_behind import look_behind
from export.lowering.leap_read import read
from models.architectures.leap import LeapLSTM
from models.text.storage import StoredVectors

_TRACE = TraceSpec(
    causal=False,
    meaning="after each word, given the decisions taken; the decisions look at the text ahead",
)


def lower(model: LeapLSTM, embedding: StoredVectors) -> Lowered:
    """The passes `look_ahead` (backward) and `read` (forward), or what is needed of them; see the module."""
    passes = []
    features = None
    if model.look_ahead is not None:
        features = TensorSpec(name="decision_features", shape=(model.config.decision_hidden,))
        previous = None
        if before := words_before(model.look_ahead):
            previous = TensorSpec(name="previous_ids", dtype="int64", shape=(before,))
            passes.append(look_behind(previous))
        passes.append(look_ahead(model, embedding, previous, features))
    passes.append(read(model, embedding, features))
    graphs = {spec.graph: graph.model() for spec, graph in passes}
    trace = CAUSAL if model.look_ahead is None else _TRACE
    return Lowered(tuple(spec for spec, _ in passes), graphs, trace, None, BUCKETS)
