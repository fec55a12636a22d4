"""Models of sliding windows: one pass that pools features with a running maximum and tells which windows won.

Carried from segment to segment: the words before, for windows that begin there; how many these are; the largest
value of each feature so far and the word at which its window ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.manifest import PassSpec, TensorSpec, WindowSpec
from export.graph import Graph
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
    padded_length,
    pass_inputs,
    reads,
    result_output,
    state_input,
    state_output,
)
from models.architectures.windows import WindowModel
from models.text.storage import StoredVectors

# (graph, x `[before + length, rows, d]`, before) -> the features at each word, `[length, rows, features]`
Features = Callable[[Graph, str, int], str]


@dataclass(frozen=True)
class PreviousWords:
    """The words before a segment, for windows of up to `widest` words that begin there; padding before the text."""

    widest: int

    @property
    def count(self) -> int:
        """How many words are carried; one where none is needed, since a state must have a size."""
        return max(1, self.widest - 1)

    @property
    def state(self) -> TensorSpec:
        """What carries them from segment to segment."""
        return TensorSpec(name="previous_ids", dtype="int64", shape=(self.count,))

    def before(self, graph: Graph, previous_ids: str, token_ids: str) -> str:
        """The segment's words behind those before it, int64 `[rows, count + length]`."""
        return graph.op("Concat", previous_ids, token_ids, axis=1)

    def after(self, graph: Graph, ids: str) -> str:
        """The state after the segment, from what `before` gave."""
        return graph.slice(ids, -self.count, axis=1)


def lower(model: WindowModel, embedding: WordFeatures, features: Features) -> Lowered:
    """One forward pass; `features` adds the architecture's own part."""
    classes, size = model.classifier.out_features, model.mlp.in_features
    previous = PreviousWords(max(words for words, _ in model.windows))
    states = (
        previous.state,
        TensorSpec(name="words_before", dtype="int64"),
        TensorSpec(name="largest", shape=(size,)),
        TensorSpec(name="largest_at", dtype="int64", shape=(size,)),
    )
    results = (
        TensorSpec(name="last_word", dtype="int64", shape=(size,)),
        TensorSpec(name="feature_weight", shape=(size,)),
    )
    graph = Graph("read")
    token_ids, lengths = pass_inputs(graph)
    previous_ids, words_before, largest, largest_at = (state_input(graph, state) for state in states)
    ids = previous.before(graph, previous_ids, token_ids)
    found = features(graph, _words(graph, embedding, previous, ids, token_ids), previous.count)
    found = _without_padding(graph, found, token_ids, lengths)
    start = graph.op(
        "Where", _column(graph, graph.op("Equal", words_before, graph.scalar(0))), _lowest(graph), largest
    )
    pooled, running = _running_maximum(graph, found, start, size)

    hidden = graph.op("Relu", linear(graph, running, "mlp", array(model.mlp.weight), array(model.mlp.bias)))
    weight, bias = array(model.classifier.weight), array(model.classifier.bias)
    logits = linear(graph, hidden, "classifier", weight, bias)  # [length, rows, classes]
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)

    here = graph.op("Add", graph.op("ArgMax", found, axis=0, keepdims=0), _column(graph, words_before))
    last_word = graph.op("Where", graph.op("Greater", pooled, start), here, largest_at)
    gradient = _gradient(graph, model, _last(graph, hidden), _last(graph, logits))
    for result, value in zip(results, (last_word, graph.op("Mul", gradient, pooled)), strict=True):
        result_output(graph, result, value)
    after = graph.op("Add", words_before, lengths), pooled, last_word
    for state, value in zip(states, (previous.after(graph, ids), *after), strict=True):
        state_output(graph, state, value)
    reading = PassSpec(
        name="read",
        graph="read.onnx",
        reads=reads(embedding),
        states=states,
        steps=answer_steps(classes),
        results=results,
    )
    windows = tuple(WindowSpec(words=words, features=count) for words, count in model.windows)
    return Lowered((reading,), {"read.onnx": graph.model()}, CAUSAL, None, BUCKETS, windows)


def _words(graph: Graph, source: WordFeatures, previous: PreviousWords, ids: str, token_ids: str) -> str:
    """Features of the words before the segment and of its own, `[count + length, rows, d]`."""
    if isinstance(source, StoredVectors):
        return embed(graph, source, ids)
    # nothing is before a document that is read whole
    return graph.op("Pad", embed(graph, source, token_ids), graph.integers(previous.count, 0, 0, 0, 0, 0))


def _without_padding(graph: Graph, features: str, token_ids: str, lengths: str) -> str:
    """Features `[length, rows, features]`, lower than any other at padding."""
    words = graph.op("Range", graph.scalar(0), padded_length(graph, token_ids), graph.scalar(1))
    real = graph.op("Less", _column(graph, words), graph.op("Unsqueeze", lengths, graph.integers(0)))
    return graph.op("Where", graph.op("Unsqueeze", real, graph.integers(2)), features, _lowest(graph))


def _running_maximum(graph: Graph, features: str, start: str, size: int) -> tuple[str, str]:
    """The maximum over all words `[rows, features]` and up to each word `[length, rows, features]`."""
    body = Graph("pool")
    largest = body.input("pool_largest", "float32", ["rows", size])
    features_t = body.input("pool_features", "float32", ["rows", size])
    larger = body.op("Max", largest, features_t)
    for name in ("pool_largest_next", "pool_largest_out"):
        body.output(name, larger, "float32", ["rows", size])
    pooled, running = graph.ops("Scan", [start, features], 2, body=body.body(), num_scan_inputs=1)
    return pooled, running


def _gradient(graph: Graph, model: WindowModel, hidden: str, logits: str) -> str:
    """How each pooled feature moves the winner's logit over the mean of all: `[rows, features]`."""
    winner = graph.op("ArgMax", logits, axis=1, keepdims=0)  # [rows]
    classifier = graph.constant("classifier.centred", array(model.centred_classifier()))
    from_hidden = graph.op("Gather", classifier, winner, axis=0)  # [rows, mlp]
    active = graph.op("Greater", hidden, graph.scalar(0.0))
    through = graph.op("Where", active, from_hidden, graph.scalar(0.0))
    transposed = graph.constant("mlp.w", np.ascontiguousarray(array(model.mlp.weight).T))
    return graph.op("Gemm", through, transposed, transB=1)


def _lowest(graph: Graph) -> str:
    return graph.scalar(float(np.finfo(np.float32).min))


def _column(graph: Graph, value: str) -> str:
    """`[n]` -> `[n, 1]`."""
    return graph.op("Unsqueeze", value, graph.integers(1))


def _last(graph: Graph, value: str) -> str:
    """At the segment's last place: `[length, …]` -> `[…]`; past the last real word nothing changes any more."""
    return graph.op("Squeeze", graph.slice(value, -1, axis=0), graph.integers(0))
