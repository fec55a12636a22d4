"""The encoder alone: its first token's features, or the running mean of all, to a linear classifier."""

from __future__ import annotations

from app.manifest import PassSpec, TensorSpec, TraceSpec
from export.graph import Graph
from export.lowering import running_mean
from export.lowering.base import (
    BUCKETS,
    Lowered,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    pass_inputs,
    reads,
    state_input,
    state_output,
)
from export.lowering.scan import Words
from models.architectures.encoder_alone import EncoderAlone

_FIRST = TraceSpec(causal=False, meaning="at every token: the answer, which is read at the first one")
_MEAN = TraceSpec(causal=False, meaning="after each token: the mean so far")


def lower(model: EncoderAlone, features: TensorSpec) -> Lowered:
    """The pass `read`."""
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    x = embed(graph, features, token_ids)  # [length, rows, features]
    states: tuple[TensorSpec, ...] = ()
    ends: list[str] = []
    if model.pooling == "mean":
        states = running_mean.states("", *features.shape)
        before = [state_input(graph, state) for state in states]
        x, ends = running_mean.running_mean(graph, x, Words(x), before)
    else:
        x = graph.op("Expand", graph.slice(x, 0, 1, axis=0), graph.op("Shape", x))
    classes = model.classifier.out_features
    logits = linear(graph, x, "classifier", array(model.classifier.weight), array(model.classifier.bias))
    answer_outputs(graph, graph.op("Transpose", logits, perm=[1, 0, 2]), classes)
    for state, end in zip(states, ends, strict=True):
        state_output(graph, state, end)
    reading = PassSpec(
        name="read", graph="read.onnx", reads=reads(features), states=states, steps=answer_steps(classes)
    )
    trace = _MEAN if model.pooling == "mean" else _FIRST
    return Lowered((reading,), {reading.graph: graph.model()}, trace, None, BUCKETS)
