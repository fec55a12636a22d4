"""The bag of words: one forward pass that carries the sum of the word vectors, and for the mean their count."""

from __future__ import annotations

from app.manifest import PassSpec
from export.graph import Graph
from export.lowering import running_mean
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
)
from export.lowering.scan import Words
from models.architectures.bag_of_words import BagOfWords
from models.text.storage import StoredVectors


def lower(model: BagOfWords, embedding: StoredVectors) -> Lowered:
    """The pass `read`."""
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    words = Words(embed(graph, embedding, token_ids))
    states = running_mean.states("", model.embedding.embedding_dim)
    if model.pooling == "mean":
        before = [state_input(graph, state) for state in states]
        pooled, ends = running_mean.running_mean(graph, words.x, words, before)
    else:
        states = states[:1]
        pooled, total = running_mean.running_sum(graph, words.x, words, state_input(graph, states[0]))
        ends = [total]
    if model.activation == "tanh":
        pooled = graph.op("Tanh", pooled)
    weight, bias = array(model.classifier.weight), array(model.classifier.bias)
    logits = linear(graph, pooled, "classifier", weight, bias)
    classes = model.classifier.out_features
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    for state, end in zip(states, ends, strict=True):
        state_output(graph, state, end)
    reading = PassSpec(name="read", graph="read.onnx", states=states, steps=answer_steps(classes))
    return Lowered((reading,), {reading.graph: graph.model()}, CAUSAL, None, BUCKETS)
