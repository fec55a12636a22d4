"""Leap-LSTM's reading pass: the leap, a loop over the words that are read.

It keeps h and q, the next word to decide on. With m(t) = keep logit - skip logit under h, an iteration looks at the
words q … q + 15 at once, finds the first with m ≥ 0 (a tie keeps), runs one LSTM step on it, and goes on behind it;
with none, it goes on 16 words later. Since h does not change between two words that are read, the decisions are
those of stepping word by word. Traces are put together after the loop.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from app.manifest import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    answer_outputs,
    answer_steps,
    array,
    linear,
    lookup,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from export.lowering.leap_look_ahead import decide_word
from export.lowering.words_read import any_left, history, pick_from, step, text
from models.architectures.leap import KEEP, SKIP, LeapLSTM
from models.text.storage import StoredVectors

_WINDOW = 16  # words decided on at once


def read(model: LeapLSTM, embedding: StoredVectors, features: TensorSpec | None) -> tuple[PassSpec, Graph]:
    """The pass `read`, which takes `features` per word, if text ahead has any, and writes answer and skip map."""
    classes, hidden = model.classifier.out_features, model.config.hidden
    states = (TensorSpec(name="h", shape=(hidden,)), TensorSpec(name="c", shape=(hidden,)))
    keep_probability = TensorSpec(name="keep_probability")
    skipped = TensorSpec(name="skipped", dtype="bool")
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    h, c = (state_input(graph, state) for state in states)
    x = lookup(graph, embedding, token_ids)  # [rows, length, d]
    decision_features = (
        decide_word(graph, model, x)
        if features is None
        else graph.input(features.name, features.dtype, ["rows", "length", *features.shape])
    )
    h_next, c_next, states_read, words_read = _leap(graph, model, (x, decision_features, lengths), (h, c))

    when = history(graph, token_ids, words_read)
    all_states = graph.op("Concat", graph.op("Unsqueeze", h, graph.integers(0)), states_read, axis=0)
    answer_outputs(graph, pick_from(graph, _logits(graph, model, all_states), when.after), classes)
    decided = decision_features
    if model.decide_state is not None:
        state_part = linear(graph, all_states, "decide_state", array(model.decide_state.weight), None)
        decided = graph.op("Add", decided, pick_from(graph, state_part, when.before))
    step_output(graph, keep_probability, graph.op("Sigmoid", _margin(graph, model, decided)))
    step_output(graph, skipped, when.skipped)
    for state, value in zip(states, (h_next, c_next), strict=True):
        state_output(graph, state, value)
    steps = (*answer_steps(classes), keep_probability, skipped)
    reads = () if features is None else (features.name,)
    return PassSpec(name="read", graph="read.onnx", reads=reads, states=states, steps=steps), graph


def _logits(graph: Graph, model: LeapLSTM, states: str) -> str:
    """Class logits of states, `[…, hidden]` -> `[…, classes]`."""
    if model.mlp is not None:
        states = graph.op(
            "Relu", linear(graph, states, "mlp", array(model.mlp.weight), array(model.mlp.bias))
        )
    return linear(graph, states, "classifier", array(model.classifier.weight), array(model.classifier.bias))


def _margin(graph: Graph, model: LeapLSTM, hidden: str) -> str:
    """Keep logit minus skip logit: `[…, decision]` -> `[…]`."""
    weight, bias = array(model.decide.weight), array(model.decide.bias)
    difference = weight[KEEP] - weight[SKIP]
    # a product and a sum: a matrix product with a single column is many times slower
    parts = graph.op("Mul", graph.op("Relu", hidden), graph.constant("decide.w", difference))
    margin = graph.op("ReduceSum", parts, graph.integers(-1), keepdims=0)
    return graph.op("Add", margin, graph.constant("decide.b", bias[KEEP] - bias[SKIP]))


def _leap(
    graph: Graph, model: LeapLSTM, inputs: tuple[str, str, str], states: tuple[str, str]
) -> tuple[str, str, str, str]:
    """The loop over the words that are read.

    Args:
        graph: the graph to add to.
        model: its weights.
        inputs: x `[rows, length, d]`, decision features `[rows, length, decision]`, lengths `[rows]`.
        states: h, c `[rows, hidden]`.

    Returns:
        h, c in the end; h after each iteration `[iterations, rows, hidden]`; and the word that each iteration
        read `[iterations, rows]`, the padded length where it read none.
    """
    x, features, lengths = inputs
    words = text(graph, x, model.embedding.embedding_dim, lengths)
    flat_features = graph.op("Reshape", features, graph.integers(-1, model.config.decision_hidden))
    limits = graph.op("Unsqueeze", lengths, graph.integers(1))

    body = Graph("leap")
    body.input("leap_iteration", "int64", [])
    body.input("leap_condition", "bool", [])
    q = body.input("leap_q", "int64", ["rows"])
    h, c = (body.input(f"leap_{name}", "float32", ["rows", model.config.hidden]) for name in "hc")
    offsets = body.constant("offsets", np.arange(_WINDOW, dtype=np.int64))
    window = body.op("Add", body.op("Unsqueeze", q, body.integers(1)), offsets)  # [rows, window]
    real = body.op("Less", window, limits)
    flat = body.op("Min", window, body.op("Unsqueeze", words.last_word, body.integers(1)))
    flat = body.op("Add", flat, body.op("Unsqueeze", words.row_start, body.integers(1)))
    hidden = body.op("Gather", flat_features, flat)  # [rows, window, decision]
    if model.decide_state is not None:
        state_part = linear(body, h, "decide_state", array(model.decide_state.weight), None)
        hidden = body.op("Add", hidden, body.op("Unsqueeze", state_part, body.integers(1)))
    keep = body.op("And", real, body.op("GreaterOrEqual", _margin(body, model, hidden), body.scalar(0.0)))
    rank = body.constant("rank", np.arange(_WINDOW, 0, -1, dtype=np.int64))
    best = body.op("ReduceMax", body.op("Where", keep, rank, body.scalar(0)), body.integers(1), keepdims=0)
    found = body.op("Greater", best, body.scalar(0))  # [rows]
    word = body.op("Sub", body.op("Add", q, body.scalar(_WINDOW)), best)
    h_new, c_new = step(body, model.cell, words.read(body, word), h, c)
    take = body.op("Unsqueeze", found, body.integers(1))
    h_next, c_next = body.op("Where", take, h_new, h), body.op("Where", take, c_new, c)
    q_next = body.op(
        "Add", word, body.op("Cast", found, to=TensorProto.INT64)
    )  # none found: word is q + window
    body.output("leap_more", any_left(body, q_next, lengths), "bool", [])
    body.output("leap_q_next", q_next, "int64", ["rows"])
    for name, value in (("h", h_next), ("c", c_next), ("h_out", h_next)):
        body.output(f"leap_{name}_next", value, "float32", ["rows", model.config.hidden])
    body.output("leap_word", body.op("Where", found, word, words.padded), "int64", ["rows"])

    start = graph.op("Mul", lengths, graph.scalar(0))
    _, h_end, c_end, hs, read = graph.ops(
        "Loop", ["", graph.scalar(True), start, *states], 5, body=body.body()
    )
    return h_end, c_end, hs, read
