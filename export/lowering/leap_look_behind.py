"""The pass before Leap-LSTM's look-ahead in the layout of the authors' code, whose filters reach back.

The look-ahead goes from the last segment to the first, so the words before a segment are not yet at hand there. This
pass goes forward and writes per word the ids of the words before it.
"""

from __future__ import annotations

from app.manifest import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import padded_length, pass_inputs, state_input, state_output, step_output


def look_behind(previous: TensorSpec) -> tuple[PassSpec, Graph]:
    """The pass `look_behind`, which writes `previous`: the ids of so many words before each, 0 before the text."""
    (words,) = previous.shape
    last = TensorSpec(name="last_ids", dtype="int64", shape=previous.shape)
    graph = Graph("look_behind")
    token_ids, _ = pass_inputs(graph)
    joined = graph.op("Concat", state_input(graph, last), token_ids, axis=1)  # [rows, words + length]
    length = graph.op("Unsqueeze", padded_length(graph, token_ids), graph.integers(0))
    columns = []
    for start in range(words):
        end = graph.op("Add", length, graph.integers(start))
        column = graph.op("Slice", joined, graph.integers(start), end, graph.integers(1))
        columns.append(graph.op("Unsqueeze", column, graph.integers(2)))
    step_output(graph, previous, graph.op("Concat", *columns, axis=2))
    state_output(graph, last, graph.slice(joined, -words, axis=1))
    spec = PassSpec(name="look_behind", graph="look_behind.onnx", states=(last,), steps=(previous,))
    return spec, graph
