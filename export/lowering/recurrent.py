"""Models with one recurrent layer: a forward pass, and for both directions a backward pass before it.

The backward pass writes per word what the backward state there adds to the class logits. The forward pass takes the
value at the first word, where that state has read the whole text, and carries it through its segments.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.manifest import PassSpec, TensorSpec, TraceSpec
from export.graph import Graph
from export.lowering import cells, convolutional_lstm, mtgru, running_mean
from export.lowering.base import (
    BUCKETS,
    CAUSAL,
    Lowered,
    WordFeatures,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    ones_like,
    pass_inputs,
    reads,
    state_input,
    state_output,
    step_output,
)
from export.lowering.scan import Words
from models.architectures.clstm import CLSTMCell
from models.architectures.convolutional_lstm import ConvolutionalLSTM
from models.architectures.hl_mtgru import FastAndSlow
from models.architectures.recurrent import Recurrent
from models.text.storage import StoredVectors

_BOTH = TraceSpec(
    causal=False,
    meaning="after each word: the forward reading so far beside the backward reading of the whole text; "
    "the last is the answer",
)


def lower(model: Recurrent, embedding: WordFeatures) -> Lowered:
    """The pass `read`, after the pass `read_backward` for a model that reads in both directions."""
    if model.backward_cell is None:
        reading, graph = _read(model, embedding)
        graphs = {reading.graph: graph.model()}
        return Lowered((reading,), graphs, CAUSAL, None, BUCKETS, halves=mtgru.halves(model.cell))
    logits = TensorSpec(name="backward_logits", shape=(model.classifier.out_features,))
    backward, backward_graph = _read_backward(model, embedding, logits)
    reading, graph = _read(model, embedding, logits)
    graphs = {backward.graph: backward_graph.model(), reading.graph: graph.model()}
    return Lowered((backward, reading), graphs, _BOTH, None, BUCKETS)


def _read(
    model: Recurrent, embedding: WordFeatures, backward: TensorSpec | None = None
) -> tuple[PassSpec, Graph]:
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    x, previous = _read_words(graph, model, embedding, token_ids)
    direction = _direction(graph, model, "", Words(x))
    weight, bias = array(model.classifier.weight), array(model.classifier.bias)
    logits = linear(graph, direction.read, "classifier", weight[:, : model.read_units], bias)
    states = direction.states | previous
    if backward is not None:
        whole, carried = _whole_text(graph, backward)
        logits, states = graph.op("Add", logits, whole), states | carried
    classes = model.classifier.out_features
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    steps: tuple[TensorSpec, ...] = answer_steps(classes)
    if direction.forgetting_rates is not None:
        assert isinstance(model.cell, CLSTMCell)
        rates = TensorSpec(name="forgetting_rates", shape=(len(model.cell.sizes),))
        step_output(graph, rates, direction.forgetting_rates)
        steps = (*steps, rates)
    if isinstance(model.cell, FastAndSlow):
        halves = TensorSpec(name="half_logits", shape=(2, classes))
        step_output(graph, halves, mtgru.half_logits(graph, model.cell, weight, direction.read))
        steps = (*steps, halves)
    for state, end in states.items():
        state_output(graph, state, end)
    spec = PassSpec(
        name="read",
        graph="read.onnx",
        reads=(*reads(embedding), *(() if backward is None else (backward.name,))),
        states=tuple(states),
        steps=steps,
    )
    return spec, graph


def _read_words(
    graph: Graph, model: Recurrent, embedding: WordFeatures, token_ids: str
) -> tuple[str, dict[TensorSpec, str]]:
    """What the layer reads, `[length, rows, input]`, and the states that this needs, with their next values."""
    if isinstance(model, ConvolutionalLSTM):
        assert isinstance(embedding, StoredVectors)
        return convolutional_lstm.read_words(graph, model, embedding, token_ids)
    return embed(graph, embedding, token_ids), {}


def _read_backward(model: Recurrent, embedding: WordFeatures, logits: TensorSpec) -> tuple[PassSpec, Graph]:
    graph = Graph("read_backward")
    token_ids, lengths = pass_inputs(graph)
    words = Words(embed(graph, embedding, token_ids), lengths, "reverse")
    direction = _direction(graph, model, "backward_", words)
    weight = array(model.classifier.weight)[:, model.read_units :]
    value = linear(graph, direction.read, "classifier", weight, None)
    step_output(graph, logits, graph.op("Transpose", value, perm=[1, 0, 2]))
    for state, end in direction.states.items():
        state_output(graph, state, end)
    spec = PassSpec(
        name="read_backward",
        graph="read_backward.onnx",
        direction="backward",
        reads=reads(embedding),
        states=tuple(direction.states),
        steps=(logits,),
    )
    return spec, graph


@dataclass(frozen=True)
class _Direction:
    """One direction's reading: what the classifier reads `[length, rows, units]`, and its states after the segment."""

    read: str
    states: dict[TensorSpec, str]
    forgetting_rates: str | None


def _direction(graph: Graph, model: Recurrent, prefix: str, words: Words) -> _Direction:
    cell = model.backward_cell if prefix else model.cell
    assert cell is not None
    specs = cells.states(prefix, cell)
    layer = cells.run(graph, cell, "cell", words, [state_input(graph, spec) for spec in specs])
    states = dict(zip(specs, layer.ends, strict=True))
    read = layer.hidden
    if model.read_units < cells.hidden_size(cell):
        read = graph.slice(read, 0, model.read_units, axis=2)
    if model.readout == "mean":
        specs = running_mean.states(prefix, model.read_units)
        before = [state_input(graph, spec) for spec in specs]
        read, ends = running_mean.running_mean(graph, read, words, before)
        states |= dict(zip(specs, ends, strict=True))
    return _Direction(read, states, layer.forgetting_rates)


def _whole_text(graph: Graph, backward: TensorSpec) -> tuple[str, dict[TensorSpec, str]]:
    """The backward pass's value at the document's first word.

    Returns:
        That value, `[rows, classes]`, and the states that carry it, with their values after the segment.
    """
    value, text_before = (
        TensorSpec(name="whole_backward", shape=backward.shape),
        TensorSpec(name="text_before"),
    )
    carried, before = (state_input(graph, state) for state in (value, text_before))
    per_word = graph.input(backward.name, "float32", ["rows", "length", *backward.shape])
    first = graph.op("Squeeze", graph.slice(per_word, 0, 1, axis=1), graph.integers(1))
    begun = graph.op("Unsqueeze", graph.op("Greater", before, graph.scalar(0.0)), graph.integers(1))
    whole = graph.op("Where", begun, carried, first)
    ones = ones_like(graph, before)
    return whole, {value: whole, text_before: ones}
