"""Leap-LSTM as two passes: looking ahead, backwards; then reading, a loop over the words that are read."""

from __future__ import annotations

from app.bundle import TensorSpec, TraceSpec
from export.lowering.base import BUCKETS, Lowered
from export.lowering.leap_look_ahead import look_ahead
from export.lowering.leap_read import read
from models.architectures.leap import LeapLSTM
from models.text.storage import StoredVectors

_TRACE = TraceSpec(
    causal=False,
    meaning="after each word, given the decisions taken; the decisions look at the text ahead",
)


def lower(model: LeapLSTM, embedding: StoredVectors) -> Lowered:
    """The passes `look_ahead` (backward) and `read` (forward)."""
    features = TensorSpec(name="decision_features", shape=(model.config.decision_hidden,))
    ahead, ahead_graph = look_ahead(model, embedding, features)
    reading, reading_graph = read(model, embedding, features)
    graphs = {ahead.graph: ahead_graph.model(), reading.graph: reading_graph.model()}
    return Lowered((ahead, reading), graphs, _TRACE, None, BUCKETS)
