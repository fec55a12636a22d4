"""The self-attentive LSTM: a backward pass that writes its states, then a forward pass that attends.

The softmax runs over a text that comes in segments. So each hop carries the largest score so far, the sum of
exp(score - largest), and the states weighted by it; a larger score shrinks both sums. The attention to a word is known
only at the end: the pass writes the scores per word, and as results the largest one and the sum. (Not as one, largest +
log(sum): ONNX Runtime's Log gives other bits in other places of an array.)
"""

from __future__ import annotations

import numpy as np

from app.manifest import PassSpec, TensorSpec, TraceSpec
from export.graph import Graph
from export.lowering import cells
from export.lowering.base import (
    BUCKETS,
    LENGTH,
    ROWS,
    Lowered,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    ones_like,
    pass_inputs,
    result_output,
    state_input,
    state_output,
    step_output,
)
from export.lowering.scan import Words, real_words, scan
from models.architectures.self_attentive import SelfAttentiveLSTM
from models.text.storage import StoredVectors

_TRACE = TraceSpec(
    causal=False,
    meaning="after each word: the answer that attends only to the words so far, each read in the light of the whole "
    "text; the last is the answer",
)
_LOWEST = float(np.finfo(np.float32).min)


def lower(model: SelfAttentiveLSTM, embedding: StoredVectors) -> Lowered:
    """The passes `read_backward` and `read`."""
    hidden = cells.hidden_size(model.backward_cell)
    backward = TensorSpec(name="backward_states", shape=(hidden,))
    passes = _read_backward(model, embedding, backward), _read(model, embedding, backward)
    return Lowered(
        tuple(spec for spec, _ in passes),
        {spec.graph: graph.model() for spec, graph in passes},
        _TRACE,
        None,
        BUCKETS,
    )


def _read_backward(
    model: SelfAttentiveLSTM, embedding: StoredVectors, backward: TensorSpec
) -> tuple[PassSpec, Graph]:
    graph = Graph("read_backward")
    token_ids, lengths = pass_inputs(graph)
    states = cells.states("", model.backward_cell)
    words = Words(embed(graph, embedding, token_ids), lengths, "reverse")
    before = [state_input(graph, state) for state in states]
    layer = cells.run(graph, model.backward_cell, "cell", words, before)
    step_output(graph, backward, graph.op("Transpose", layer.hidden, perm=[1, 0, 2]))
    for state, end in zip(states, layer.ends, strict=True):
        state_output(graph, state, end)
    spec = PassSpec(
        name="read_backward",
        graph="read_backward.onnx",
        direction="backward",
        states=states,
        steps=(backward,),
    )
    return spec, graph


def _read(model: SelfAttentiveLSTM, embedding: StoredVectors, backward: TensorSpec) -> tuple[PassSpec, Graph]:
    hops, size = model.hops, 2 * cells.hidden_size(model.cell)
    layer_states = cells.states("", model.cell)
    softmax_states = (
        TensorSpec(name="text_before"),
        TensorSpec(name="largest_score", shape=(hops,)),
        TensorSpec(name="weights", shape=(hops,)),
        TensorSpec(name="weighted", shape=(hops, size)),
    )
    score_step = TensorSpec(name="attention_score", shape=(hops,))
    results = tuple(TensorSpec(name=f"attention_{name}", shape=(hops,)) for name in ("largest", "sum"))

    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    words = Words(embed(graph, embedding, token_ids), lengths)
    layer = cells.run(graph, model.cell, "cell", words, [state_input(graph, state) for state in layer_states])
    other = graph.op(
        "Transpose", graph.input(backward.name, "float32", [ROWS, LENGTH, *backward.shape]), perm=[1, 0, 2]
    )
    states = graph.op("Concat", layer.hidden, other, axis=2)  # [length, rows, 2 hidden]
    scores = _scores(graph, model, words, states)

    text_before, largest, weights, weighted = (state_input(graph, state) for state in softmax_states)
    begun = graph.op("Unsqueeze", graph.op("Greater", text_before, graph.scalar(0.0)), graph.integers(1))
    start = graph.op("Where", begun, largest, graph.scalar(_LOWEST))
    body = _softmax_body(hops, size)
    *after, pooled = scan(graph, body, [start, weights, weighted], [scores, states], 1, "forward")

    flat = graph.op("Reshape", pooled, graph.integers(0, 0, hops * size))
    hidden = graph.op("Relu", linear(graph, flat, "mlp", array(model.mlp.weight), array(model.mlp.bias)))
    weight, bias = array(model.classifier.weight), array(model.classifier.bias)
    logits = linear(graph, hidden, "classifier", weight, bias)
    classes = model.classifier.out_features
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    step_output(graph, score_step, graph.op("Transpose", scores, perm=[1, 0, 2]))
    for result, value in zip(results, after[:2], strict=True):
        result_output(graph, result, value)
    ones = ones_like(graph, text_before)
    ends = [*layer.ends, ones, *after]
    for state, end in zip((*layer_states, *softmax_states), ends, strict=True):
        state_output(graph, state, end)
    spec = PassSpec(
        name="read",
        graph="read.onnx",
        reads=(backward.name,),
        states=(*layer_states, *softmax_states),
        steps=(*answer_steps(classes), score_step),
        results=results,
    )
    return spec, graph


def _scores(graph: Graph, model: SelfAttentiveLSTM, words: Words, states: str) -> str:
    """Every hop's score `[length, rows, hops]`, lower than any other at padding."""
    layer = graph.op("Tanh", linear(graph, states, "score", array(model.score.weight), None))
    scores = linear(graph, layer, "score_hops", array(model.score_hops.weight), None)
    (real,) = real_words(graph, words)
    return graph.op("Where", graph.op("Greater", real, graph.scalar(0.0)), scores, graph.scalar(_LOWEST))


def _softmax_body(hops: int, size: int) -> Graph:
    """One word: the running softmax of each hop, and the states it has pooled so far, `[rows, hops, size]`."""
    body = Graph("attend")
    largest, weights = (body.input(f"attend_{name}", "float32", ["rows", hops]) for name in ("l", "n"))
    weighted = body.input("attend_m", "float32", ["rows", hops, size])
    score = body.input("attend_score", "float32", ["rows", hops])
    state = body.input("attend_state", "float32", ["rows", size])
    larger = body.op("Max", largest, score)
    kept, added = (body.op("Exp", body.op("Sub", value, larger)) for value in (largest, score))
    weights_next = body.op("Add", body.op("Mul", weights, kept), added)
    hop_axis, state_axis = body.integers(1), body.integers(2)
    share = body.op(
        "Mul", body.op("Unsqueeze", added, state_axis), body.op("Unsqueeze", state, hop_axis)
    )  # [rows, hops, size]
    shrunk = body.op("Mul", weighted, body.op("Unsqueeze", kept, state_axis))
    weighted_next = body.op("Add", shrunk, share)
    pooled = body.op("Div", weighted_next, body.op("Unsqueeze", weights_next, state_axis))
    body.output("attend_l_next", larger, "float32", ["rows", hops])
    body.output("attend_n_next", weights_next, "float32", ["rows", hops])
    body.output("attend_m_next", weighted_next, "float32", ["rows", hops, size])
    body.output("attend_pooled", pooled, "float32", ["rows", hops, size])
    return body
