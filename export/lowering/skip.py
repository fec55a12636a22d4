"""Skip LSTM as one pass: a loop over the words that are read.

After a word with increment Δ, the update probability n words on is min(1, n Δ), and it is read where that is above
one half: at n = ⌊0.5 / Δ⌋ + 1. So a word that is skipped costs nothing. Between segments travel Δ and the distance
from the last word that was read to the next segment's first word; a distance of 0 is the start of a document.
"""

from __future__ import annotations

import numpy as np
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
    padded_length,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from export.lowering.distance_loop import Carried, read_words
from export.lowering.words_read import history, logits_after, pick, text
from models.architectures.skip import SkipLSTM
from models.text.storage import StoredVectors

_FARTHEST = 2.0**24  # words; farther than any document, and whole numbers up to here are exact in float32


def lower(model: SkipLSTM, embedding: StoredVectors) -> Lowered:
    """The pass `read`."""
    hidden, classes = model.config.hidden, model.classifier.out_features
    states = (
        TensorSpec(name="h", shape=(hidden,)),
        TensorSpec(name="c", shape=(hidden,)),
        TensorSpec(name="increment"),
        TensorSpec(name="distance", dtype="int64"),
    )
    steps = (
        *answer_steps(classes),
        TensorSpec(name="keep_probability"),
        TensorSpec(name="skipped", dtype="bool"),
    )
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    h, c, increment, distance = _start(graph, model, [state_input(graph, state) for state in states])
    x = lookup(graph, embedding, token_ids)  # [rows, length, d]
    last = graph.op("Neg", distance)  # the last word read, counted from the segment's first
    first = graph.op("Add", last, _distance(graph, increment))

    def advance(body: Graph, word: str, after: tuple[str, str], carried: list[str]) -> tuple[str, list[str]]:
        found = _increment(body, model, after[1])
        return _distance(body, found), [found, word]

    carried = (Carried("increment", "float32", increment), Carried("last", "int64", last))
    words = text(graph, x, model.embedding.embedding_dim, lengths)
    reading = read_words(graph, model.cell, words, (first, h, c), carried, advance)

    when = history(graph, token_ids, reading.words_read)
    answer_outputs(graph, logits_after(graph, model.classifier, h, reading.h_after, when), classes)
    increments, lasts = (
        _per_word(graph, one.value, after, when.before)
        for one, after in zip(carried, reading.carried_after, strict=True)
    )
    position = graph.op("Range", graph.scalar(0), padded_length(graph, token_ids), graph.scalar(1))
    since = graph.op("Cast", graph.op("Sub", position, lasts), to=TensorProto.FLOAT)  # [rows, length]
    probability = graph.op("Min", graph.op("Mul", since, increments), graph.scalar(1.0))
    step_output(graph, steps[2], probability)
    step_output(graph, steps[3], when.skipped)
    increment, last = reading.carried
    ends = (reading.h, reading.c, increment, graph.op("Sub", lengths, last))
    for state, value in zip(states, ends, strict=True):
        state_output(graph, state, value)
    spec = PassSpec(name="read", graph="read.onnx", states=states, steps=steps)
    return Lowered((spec,), {spec.graph: graph.model()}, CAUSAL, None, BUCKETS)


def _start(graph: Graph, model: SkipLSTM, states: list[str]) -> tuple[str, str, str, str]:
    """The states, and at the start of a document what makes the first word be read: an increment of 1."""
    h, c, increment, distance = states
    begun = graph.op("Greater", distance, graph.scalar(0))
    if model.initial is not None:
        column = graph.op("Unsqueeze", begun, graph.integers(1))
        h_0, c_0 = (
            graph.constant(f"{name}_0", row) for name, row in zip("hc", array(model.initial), strict=True)
        )
        h, c = graph.op("Where", column, h, h_0), graph.op("Where", column, c, c_0)
    increment = graph.op("Where", begun, increment, graph.scalar(1.0))
    return h, c, increment, graph.op("Max", distance, graph.scalar(1))


def _increment(body: Graph, model: SkipLSTM, c: str) -> str:
    """Δ, `[rows]`."""
    weight, bias = array(model.increment.weight), array(model.increment.bias)
    # a second column of zeros: a product with a single one is many times slower, and ReduceSum takes its order from
    # the address of the row, so batch-mates would change bits
    columns = np.concatenate([weight, np.zeros_like(weight)])
    total = linear(body, c, "increment", columns, np.concatenate([bias, bias]))
    # σ written out: the operator's error is absolute, and a small Δ is multiplied by hundreds of words
    decay = body.op("Exp", body.op("Neg", total))
    increment = body.op("Reciprocal", body.op("Add", decay, body.scalar(1.0)))
    return body.op("Squeeze", body.slice(increment, 0, 1, axis=1), body.integers(1))


def _distance(graph: Graph, increment: str) -> str:
    """From a word that was read to the next one: ⌊0.5 / Δ⌋ + 1, int64 `[rows]`."""
    between = graph.op("Min", graph.op("Div", graph.scalar(0.5), increment), graph.scalar(_FARTHEST))
    whole = graph.op("Cast", graph.op("Floor", between), to=TensorProto.INT64)
    return graph.op("Add", whole, graph.scalar(1))


def _per_word(graph: Graph, first: str, after: str, iteration: str) -> str:
    """`pick` for values `[rows]` and `[iterations, rows]`: `[rows, length]`."""
    axis = graph.integers(-1)
    found = pick(graph, graph.op("Unsqueeze", first, axis), graph.op("Unsqueeze", after, axis), iteration)
    return graph.op("Squeeze", found, axis)
