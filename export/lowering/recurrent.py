"""Models with one recurrent layer: a forward pass, and for both directions a backward pass before it.

The backward pass writes per word what the backward state there adds to the class logits. The forward pass takes the
value at the first word, where that state has read the whole text, and carries it through its segments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.bundle import PassSpec, TensorSpec, TraceSpec
from export.graph import Graph
from export.lowering import cells
from export.lowering.base import (
    BUCKETS,
    CAUSAL,
    Lowered,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from export.lowering.scan import Words
from models.architectures.recurrent import Recurrent
from models.text.storage import StoredVectors

_BOTH = TraceSpec(
    causal=False,
    meaning="after each word: the forward reading so far beside the backward reading of the whole text; "
    "the last is the answer",
)


def lower(model: Recurrent, embedding: StoredVectors) -> Lowered:
    """The pass `read`, after the pass `read_backward` for a model that reads in both directions."""
    if model.backward_cell is None:
        reading, graph = _read(model, embedding)
        return Lowered((reading,), {reading.graph: graph.model()}, CAUSAL, None, BUCKETS)
    logits = TensorSpec(name="backward_logits", shape=(model.classifier.out_features,))
    backward, backward_graph = _read_backward(model, embedding, logits)
    reading, graph = _read(model, embedding, logits)
    graphs = {backward.graph: backward_graph.model(), reading.graph: graph.model()}
    return Lowered((backward, reading), graphs, _BOTH, None, BUCKETS)


def _read(
    model: Recurrent, embedding: StoredVectors, backward: TensorSpec | None = None
) -> tuple[PassSpec, Graph]:
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    words = Words(embed(graph, embedding, token_ids))
    states = cells.states("", model.cell)
    hidden, ends = cells.run(graph, model.cell, "cell", words, [state_input(graph, s) for s in states])
    weight = array(model.classifier.weight)[:, : model.read_units]
    logits = linear(graph, hidden, "classifier", weight, array(model.classifier.bias))
    if backward is not None:
        carried, whole, ends_of_whole = _whole_text(graph, backward)
        logits = graph.op("Add", logits, whole)
        states, ends = (*states, *carried), [*ends, *ends_of_whole]
    classes = model.classifier.out_features
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    for state, end in zip(states, ends, strict=True):
        state_output(graph, state, end)
    reads = () if backward is None else (backward.name,)
    spec = PassSpec(name="read", graph="read.onnx", reads=reads, states=states, steps=answer_steps(classes))
    return spec, graph


def _whole_text(graph: Graph, backward: TensorSpec) -> tuple[tuple[TensorSpec, ...], str, list[str]]:
    """The backward pass's value at the document's first word.

    Returns:
        The states that carry it, its value `[rows, classes]`, and the states after the segment.
    """
    carried = TensorSpec(name="whole_backward", shape=backward.shape), TensorSpec(name="text_before")
    whole_before, text_before = (state_input(graph, state) for state in carried)
    per_word = graph.input(backward.name, "float32", ["rows", "length", *backward.shape])
    first = graph.op("Squeeze", graph.slice(per_word, 0, 1, axis=1), graph.integers(1))
    begun = graph.op("Unsqueeze", graph.op("Greater", text_before, graph.scalar(0.0)), graph.integers(1))
    whole = graph.op("Where", begun, whole_before, first)
    ones = graph.op("Add", graph.op("Mul", text_before, graph.scalar(0.0)), graph.scalar(1.0))
    return carried, whole, [whole, ones]


def _read_backward(model: Recurrent, embedding: StoredVectors, logits: TensorSpec) -> tuple[PassSpec, Graph]:
    assert model.backward_cell is not None
    graph = Graph("read_backward")
    token_ids, lengths = pass_inputs(graph)
    words = Words(embed(graph, embedding, token_ids), lengths, "reverse")
    states = cells.states("backward_", model.backward_cell)
    before = [state_input(graph, state) for state in states]
    hidden, ends = cells.run(graph, model.backward_cell, "cell", words, before)
    weight: NDArray[np.float32] = array(model.classifier.weight)[:, model.read_units :]
    value = linear(graph, hidden, "classifier", weight, None)
    step_output(graph, logits, graph.op("Transpose", value, perm=[1, 0, 2]))
    for state, end in zip(states, ends, strict=True):
        state_output(graph, state, end)
    spec = PassSpec(
        name="read_backward",
        graph="read_backward.onnx",
        direction="backward",
        states=states,
        steps=(logits,),
    )
    return spec, graph
