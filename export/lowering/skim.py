"""Skim-LSTM as one pass: a Scan whose body runs the large cell only where some row reads fully.

The small cell, which most words may be read with, runs at every word. Where all rows skim, an `If` leaves the large
cell out; so a document alone saves its work at every word that is skimmed, and large batches save less. The products
of the words with the small cell and with the decision are taken outside, for all words at once.
"""

from __future__ import annotations

from onnx import TensorProto

from app.manifest import PassSpec, TensorSpec
from export.graph import Graph
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
from export.lowering.scan import Words, columns, real_words, scan
from export.lowering.words_read import step
from models.architectures.skim import READ, SKIM, SkimLSTM
from models.text.storage import StoredVectors


def lower(model: SkimLSTM, embedding: StoredVectors) -> Lowered:
    """The pass `read`."""
    hidden, classes = model.config.hidden, model.classifier.out_features
    states = (TensorSpec(name="h", shape=(hidden,)), TensorSpec(name="c", shape=(hidden,)))
    steps = (
        *answer_steps(classes),
        TensorSpec(name="read_probability"),
        TensorSpec(name="skimmed", dtype="bool"),
    )
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    before = [state_input(graph, state) for state in states]
    x = embed(graph, embedding, token_ids)  # [length, rows, d]
    small = linear(graph, x, "small", array(model.small.project.weight), array(model.small.project.bias))
    word = linear(graph, x, "decide", array(model.decide_word.weight), array(model.decide_word.bias))
    inputs = [x, small, word, *real_words(graph, Words(x, lengths))]
    h, c, hs, margins = scan(graph, _body(model), before, inputs, 2, "forward")

    logits = linear(graph, hs, "classifier", array(model.classifier.weight), array(model.classifier.bias))
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    margin = graph.op("Transpose", graph.op("Squeeze", margins, graph.integers(2)), perm=[1, 0])
    step_output(graph, steps[2], graph.op("Sigmoid", margin))
    step_output(graph, steps[3], graph.op("Less", margin, graph.scalar(0.0)))
    for state, value in zip(states, (h, c), strict=True):
        state_output(graph, state, value)
    spec = PassSpec(name="read", graph="read.onnx", states=states, steps=steps)
    return Lowered((spec,), {spec.graph: graph.model()}, CAUSAL, None, BUCKETS)


def _body(model: SkimLSTM) -> Graph:
    """One word."""
    hidden, units = model.config.hidden, model.config.small_hidden
    body = Graph("step")
    h, c = (body.input(f"step_{state}", "float32", ["rows", hidden]) for state in "hc")
    x = body.input("step_x", "float32", ["rows", model.embedding.embedding_dim])
    x_small = body.input("step_small", "float32", ["rows", 4 * units])
    x_decide = body.input("step_decide", "float32", ["rows", 2])
    real = body.input("step_real", "float32", ["rows", 1])

    decide = body.op(
        "Gemm", h, body.constant("decide.u", columns(array(model.decide_state.weight))), x_decide
    )
    read, skim = (body.slice(decide, index, index + 1, axis=1) for index in (READ, SKIM))
    margin = body.op("Sub", read, skim)
    reads = body.op("GreaterOrEqual", margin, body.scalar(0.0))
    reads = body.op("And", reads, body.op("Greater", real, body.scalar(0.0)))  # padding needs no large cell
    h_skim, c_skim = _skim(body, model, x_small, h, c)
    any_reads = body.op("ReduceMax", body.op("Cast", reads, to=TensorProto.INT64), keepdims=0)
    h_next, c_next = body.ops(
        "If",
        [body.op("Cast", any_reads, to=TensorProto.BOOL)],
        2,
        then_branch=_read_branch(model, (x, h, c), reads, (h_skim, c_skim)).body(),
        else_branch=_branch("skim", hidden, (h_skim, c_skim), Graph("skim")).body(),
    )
    for name, value in (("h_next", h_next), ("c_next", c_next), ("h_out", h_next)):
        body.output(f"step_{name}", value, "float32", ["rows", hidden])
    body.output("step_margin", margin, "float32", ["rows", 1])
    return body


def _skim(body: Graph, model: SkimLSTM, x: str, h: str, c: str) -> tuple[str, str]:
    """h and c after the small cell, of whose units the rest is carried over."""
    units, u = model.config.small_hidden, array(model.small.recurrent.weight)
    own_h, own_c = (body.slice(state, 0, units, axis=1) for state in (h, c))
    gates = body.op("Gemm", own_h, body.constant("small.u", columns(u)), x)
    i, f, g, o = body.ops("Split", [gates], 4, axis=1, num_outputs=4)
    i, f, o = (body.op("Sigmoid", gate) for gate in (i, f, o))
    c_new = body.op("Add", body.op("Mul", f, own_c), body.op("Mul", i, body.op("Tanh", g)))
    h_new = body.op("Mul", o, body.op("Tanh", c_new))
    h_all, c_all = (
        body.op("Concat", new, body.slice(state, units, axis=1), axis=1)
        for new, state in ((h_new, h), (c_new, c))
    )
    return h_all, c_all


def _read_branch(
    model: SkimLSTM, inputs: tuple[str, str, str], reads: str, skimmed: tuple[str, str]
) -> Graph:
    """Some row reads fully: its states from the large cell, those of the other rows as skimmed."""
    branch = Graph("read_fully")
    read = step(branch, model.large, *inputs)
    chosen = tuple(branch.op("Where", reads, new, other) for new, other in zip(read, skimmed, strict=True))
    return _branch("read_fully", model.config.hidden, chosen, branch)


def _branch(name: str, hidden: int, states: tuple[str, ...], branch: Graph) -> Graph:
    for part, value in zip("hc", states, strict=True):
        branch.output(f"{name}_{part}", value, "float32", ["rows", hidden])
    return branch
