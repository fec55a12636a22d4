"""LSTM-Jump as one pass: a loop over the words that are read.

Between segments travel the words still to be passed over, the words read of the current run, and the jumps so far;
all zero at the start of a document. Where the reading has ended, more words are to be passed over than any text has.
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
    linear,
    lookup,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from export.lowering.distance_loop import Carried, read_words
from export.lowering.words_read import history, logits_after, text
from models.architectures.jump import PAST_THE_END, LSTMJump
from models.text.storage import StoredVectors


def lower(model: LSTMJump, embedding: StoredVectors) -> Lowered:
    """The pass `read`."""
    hidden, classes = model.config.hidden, model.classifier.out_features
    states = (
        TensorSpec(name="h", shape=(hidden,)),
        TensorSpec(name="c", shape=(hidden,)),
        TensorSpec(name="wait", dtype="int64"),
        TensorSpec(name="in_run", dtype="int64"),
        TensorSpec(name="jumps", dtype="int64"),
    )
    steps = (*answer_steps(classes), TensorSpec(name="skipped", dtype="bool"))
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    h, c, wait, in_run, jumps = (state_input(graph, state) for state in states)
    x = lookup(graph, embedding, token_ids)  # [rows, length, d]

    def advance(body: Graph, word: str, after: tuple[str, str], counts: list[str]) -> tuple[str, list[str]]:
        return _jump(body, model, after[0], *counts)

    words = text(graph, x, model.embedding.embedding_dim, lengths)
    carried = (Carried("in_run", "int64", in_run), Carried("jumps", "int64", jumps))
    reading = read_words(graph, model.cell, words, (wait, h, c), carried, advance)

    when = history(graph, token_ids, reading.words_read)
    answer_outputs(graph, logits_after(graph, model.classifier, h, reading.h_after, when), classes)
    step_output(graph, steps[2], when.skipped)
    ends = (reading.h, reading.c, graph.op("Sub", reading.next_word, lengths), *reading.carried)
    for state, value in zip(states, ends, strict=True):
        state_output(graph, state, value)
    spec = PassSpec(name="read", graph="read.onnx", states=states, steps=steps)
    return Lowered((spec,), {spec.graph: graph.model()}, CAUSAL, None, BUCKETS)


def _jump(body: Graph, model: LSTMJump, h: str, in_run: str, jumps: str) -> tuple[str, list[str]]:
    """From h after a word and the counts before it: the distance to the next word, and the counts after it."""
    config, zero, one = model.config, body.scalar(0), body.scalar(1)
    logits = linear(body, h, "jump", array(model.jump.weight), array(model.jump.bias))
    jump = body.op("ArgMax", logits, axis=1, keepdims=0)
    read = body.op("Add", in_run, one)
    ends = body.op("Equal", read, body.scalar(config.run))
    may_jump = body.op("Less", jumps, body.scalar(config.jumps))
    goes_on = body.op("And", may_jump, body.op("Greater", jump, zero))
    distance = body.op("Where", goes_on, jump, body.scalar(PAST_THE_END))
    drawn = body.op("Cast", body.op("And", ends, may_jump), to=TensorProto.INT64)
    counts = [body.op("Where", ends, zero, read), body.op("Add", jumps, drawn)]
    return body.op("Where", ends, distance, one), counts
