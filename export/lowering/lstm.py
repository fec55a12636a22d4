"""The standard LSTM as ONNX's own LSTM operator."""

from __future__ import annotations

from app.bundle import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    CAUSAL,
    Lowered,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    lstm,
    pass_inputs,
    state_input,
    state_output,
)
from models.architectures.lstm import LSTM
from models.text.storage import StoredVectors

BUCKETS = (8, 16, 24, 32, 48, 64, 96, 128)


def lower(model: LSTM, embedding: StoredVectors) -> Lowered:
    """One forward pass with the states h and c."""
    classes, hidden = model.classifier.out_features, model.cell.hidden_size
    states = (TensorSpec(name="h", shape=(hidden,)), TensorSpec(name="c", shape=(hidden,)))
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    h, c = (state_input(graph, state) for state in states)
    hidden_states, h_next, c_next = lstm(
        graph, model.cell, "cell", embed(graph, embedding, token_ids), (h, c)
    )
    logits = linear(
        graph, hidden_states, "classifier", array(model.classifier.weight), array(model.classifier.bias)
    )
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    for state, value in zip(states, (h_next, c_next), strict=True):
        state_output(graph, state, value)
    reading = PassSpec(name="read", graph="read.onnx", states=states, steps=answer_steps(classes))
    return Lowered((reading,), {"read.onnx": graph.model()}, CAUSAL, None, BUCKETS)
