"""Leap-LSTM's second pass: the leap, a loop over the words that are read.

It keeps h and q, the next word to decide on. With m(t) = keep logit - skip logit under h, an iteration looks at the
words q … q + 15 at once, finds the first with m ≥ 0 (a tie keeps), runs one LSTM step on it, and goes on behind it;
with none, it goes on 16 words later. Since h does not change between two words that are read, the decisions are
those of stepping word by word. Traces are put together after the loop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from app.bundle import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    answer_outputs,
    answer_steps,
    array,
    linear,
    lookup,
    padded_length,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from models.architectures.leap import KEEP, SKIP, LeapLSTM
from models.text.storage import StoredVectors

_WINDOW = 16  # words decided on at once


def read(model: LeapLSTM, embedding: StoredVectors, features: TensorSpec) -> tuple[PassSpec, Graph]:
    """The pass `read`, which takes `features` per word and writes the answer and the skip map."""
    classes, hidden = model.classifier.out_features, model.config.hidden
    states = (TensorSpec(name="h", shape=(hidden,)), TensorSpec(name="c", shape=(hidden,)))
    keep_probability = TensorSpec(name="keep_probability")
    skipped = TensorSpec(name="skipped", dtype="bool")
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    decision_features = graph.input(features.name, "float32", ["rows", "length", *features.shape])
    h, c = (state_input(graph, state) for state in states)
    x = lookup(graph, embedding, token_ids)  # [rows, length, d]
    h_next, c_next, states_read, words_read = _leap(graph, model, (x, decision_features, lengths), (h, c))

    found = graph.op("Less", words_read, padded_length(graph, token_ids))  # [iterations, rows]
    kept = _kept(graph, token_ids, words_read)  # int64 [rows, length], 1 where read
    iteration = _iteration_after(graph, found, kept)  # [rows, length]: into all_states
    all_states = graph.op("Concat", graph.op("Unsqueeze", h, graph.integers(0)), states_read, axis=0)
    logits = linear(
        graph, all_states, "classifier", array(model.classifier.weight), array(model.classifier.bias)
    )
    answer_outputs(graph, _pick(graph, logits, iteration), classes)

    before = graph.op(
        "Concat",
        graph.op("Mul", graph.slice(iteration, 0, 1, axis=1), graph.scalar(0)),
        graph.slice(iteration, 0, -1, axis=1),
        axis=1,
    )
    state_part = _pick(
        graph, linear(graph, all_states, "decide_state", array(model.decide_state.weight), None), before
    )
    margin = _margin(graph, model, graph.op("Add", decision_features, state_part))
    step_output(graph, keep_probability, graph.op("Sigmoid", margin))
    step_output(graph, skipped, graph.op("Equal", kept, graph.scalar(0)))
    for state, value in zip(states, (h_next, c_next), strict=True):
        state_output(graph, state, value)
    steps = (*answer_steps(classes), keep_probability, skipped)
    return PassSpec(name="read", graph="read.onnx", reads=(features.name,), states=states, steps=steps), graph


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
    rows = graph.op("Shape", lengths)
    length = padded_length(graph, x)
    row_start = graph.op(
        "Mul", graph.op("Range", graph.scalar(0), graph.op("Squeeze", rows), graph.scalar(1)), length
    )
    flat_x = graph.op("Reshape", x, graph.integers(-1, model.embedding.embedding_dim))
    flat_features = graph.op("Reshape", features, graph.integers(-1, model.config.decision_hidden))
    limits = graph.op("Unsqueeze", lengths, graph.integers(1))
    last_word = graph.op("Sub", lengths, graph.scalar(1))

    body = Graph("leap")
    body.input("leap_iteration", "int64", [])
    body.input("leap_condition", "bool", [])
    q = body.input("leap_q", "int64", ["rows"])
    h, c = (body.input(f"leap_{name}", "float32", ["rows", model.config.hidden]) for name in "hc")
    offsets = body.constant("offsets", np.arange(_WINDOW, dtype=np.int64))
    words = body.op("Add", body.op("Unsqueeze", q, body.integers(1)), offsets)  # [rows, window]
    real = body.op("Less", words, limits)
    flat = body.op("Min", words, body.op("Unsqueeze", last_word, body.integers(1)))
    flat = body.op("Add", flat, body.op("Unsqueeze", row_start, body.integers(1)))
    state_part = linear(body, h, "decide_state", array(model.decide_state.weight), None)  # [rows, decision]
    hidden = body.op(
        "Add", body.op("Gather", flat_features, flat), body.op("Unsqueeze", state_part, body.integers(1))
    )
    keep = body.op("And", real, body.op("GreaterOrEqual", _margin(body, model, hidden), body.scalar(0.0)))
    rank = body.constant("rank", np.arange(_WINDOW, 0, -1, dtype=np.int64))
    best = body.op("ReduceMax", body.op("Where", keep, rank, body.scalar(0)), body.integers(1), keepdims=0)
    found = body.op("Greater", best, body.scalar(0))  # [rows]
    word = body.op("Sub", body.op("Add", q, body.scalar(_WINDOW)), best)
    h_new, c_new = _step(
        body,
        model,
        body.op("Gather", flat_x, body.op("Add", row_start, body.op("Min", word, last_word))),
        h,
        c,
    )
    take = body.op("Unsqueeze", found, body.integers(1))
    h_next, c_next = body.op("Where", take, h_new, h), body.op("Where", take, c_new, c)
    q_next = body.op(
        "Add", word, body.op("Cast", found, to=TensorProto.INT64)
    )  # none found: word is q + window
    more = body.op(
        "ReduceMax", body.op("Cast", body.op("Less", q_next, lengths), to=TensorProto.INT64), keepdims=0
    )
    body.output("leap_more", body.op("Cast", more, to=TensorProto.BOOL), "bool", [])
    body.output("leap_q_next", q_next, "int64", ["rows"])
    for name, value in (("h", h_next), ("c", c_next), ("h_out", h_next)):
        body.output(f"leap_{name}_next", value, "float32", ["rows", model.config.hidden])
    body.output("leap_word", body.op("Where", found, word, length), "int64", ["rows"])

    start = graph.op("Mul", lengths, graph.scalar(0))
    _, h_end, c_end, hs, read = graph.ops(
        "Loop", ["", graph.scalar(True), start, *states], 5, body=body.body()
    )
    return h_end, c_end, hs, read


def _step(body: Graph, model: LeapLSTM, x: str, h: str, c: str) -> tuple[str, str]:
    """One step of the reading LSTM on `[rows, d]`; the products of x and h are taken as one."""
    w, b, u = (
        array(t) for t in (model.cell.project.weight, model.cell.project.bias, model.cell.recurrent.weight)
    )
    size = u.shape[1]
    i, f, g, o = (np.arange(n * size, (n + 1) * size) for n in range(4))
    joined = body.op("Concat", x, h, axis=1)

    def gate(name: str, rows: NDArray[np.int64]) -> str:
        weight = np.ascontiguousarray(np.concatenate([w[rows], u[rows]], axis=1).T)
        return body.op(
            "Gemm", joined, body.constant(f"{name}.w", weight), body.constant(f"{name}.b", b[rows])
        )

    active = body.op("Sigmoid", gate("gates", np.concatenate([i, f, o])))
    i_t, f_t, o_t = body.ops("Split", [active], 3, axis=1, num_outputs=3)
    g_t = body.op("Tanh", gate("candidate", g))
    c_new = body.op("Add", body.op("Mul", f_t, c), body.op("Mul", i_t, g_t))
    return body.op("Mul", o_t, body.op("Tanh", c_new)), c_new


def _kept(graph: Graph, token_ids: str, words_read: str) -> str:
    """1 at words that were read, else 0: int64 `[rows, length]`."""
    shape = graph.op("Add", graph.op("Shape", token_ids), graph.integers(0, 1))  # a last column for "none"
    zeros = graph.op("Expand", graph.scalar(0), shape)
    index = graph.op("Transpose", words_read, perm=[1, 0])  # [rows, iterations]
    ones = graph.op("Expand", graph.scalar(1), graph.op("Shape", index))
    marked = graph.op("ScatterElements", zeros, index, ones, axis=1)
    return graph.slice(marked, 0, -1, axis=1)


def _iteration_after(graph: Graph, found: str, kept: str) -> str:
    """The number of the iteration whose state holds after each word, 0 for the state carried in.

    Iterations that read nothing are passed over: a table per row maps the count of words read so far to the
    iteration that read the last of them.
    """
    found_rows = graph.op(
        "Cast", graph.op("Transpose", found, perm=[1, 0]), to=TensorProto.INT64
    )  # [rows, iterations]
    count = graph.op("CumSum", found_rows, graph.scalar(1))
    iterations = graph.op("Shape", found_rows, start=1, end=2)
    spare = graph.op("Add", iterations, graph.scalar(1))  # where iterations that read nothing write
    position = graph.op("Where", graph.op("Cast", found_rows, to=TensorProto.BOOL), count, spare)
    numbers = graph.op(
        "CumSum", graph.op("Expand", graph.scalar(1), graph.op("Shape", found_rows)), graph.scalar(1)
    )
    rows = graph.op("Shape", found_rows, start=0, end=1)
    size = graph.op("Concat", rows, graph.op("Add", iterations, graph.scalar(2)), axis=0)
    table = graph.op("ScatterElements", graph.op("Expand", graph.scalar(0), size), position, numbers, axis=1)
    return graph.op("GatherElements", table, graph.op("CumSum", kept, graph.scalar(1)), axis=1)


def _pick(graph: Graph, values: str, iteration: str) -> str:
    """`[iterations + 1, rows, features]` and `[rows, length]` -> `[rows, length, features]`."""
    by_row = graph.op("Transpose", values, perm=[1, 0, 2])
    return graph.op("GatherND", by_row, graph.op("Unsqueeze", iteration, graph.integers(2)), batch_dims=1)
