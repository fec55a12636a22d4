"""Leap-LSTM's first pass: looking ahead, from the last segment to the first.

It gives per word the part of W_1 [x_t; h_{t-1}; f_follow(t)] + b_1 that does not depend on the state,
`decision_features`. What lies beyond a segment's end is carried as state: the reversed LSTM, the next word ids for
the convolutions, and whether any text follows at all (h_end if not).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.bundle import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    array,
    embed,
    linear,
    lstm,
    lstm_weights,
    padded_length,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from models.architectures.leap import LeapLSTM
from models.text.storage import StoredVectors


def look_ahead(model: LeapLSTM, embedding: StoredVectors, features: TensorSpec) -> tuple[PassSpec, Graph]:
    """The pass `look_ahead`, which writes `features` per word."""
    ahead = model.look_ahead
    reach, hidden = max(ahead.widths), model.config.reverse_hidden
    states = (
        TensorSpec(name="reverse_h", shape=(hidden,)),
        TensorSpec(name="reverse_c", shape=(hidden,)),
        TensorSpec(name="next_ids", dtype="int64", shape=(reach,)),
        TensorSpec(name="text_follows"),
    )
    graph = Graph("look_ahead")
    token_ids, lengths = pass_inputs(graph)
    reverse_h, reverse_c, next_ids, follows = (state_input(graph, state) for state in states)
    x = embed(graph, embedding, graph.op("Concat", token_ids, next_ids, axis=1))  # [length + reach, rows, d]
    own = graph.slice(x, 0, -reach, axis=0)
    backwards, h_next, c_next = lstm(
        graph, lstm_weights(ahead.reverse), "reverse", own, (reverse_h, reverse_c), lengths, "reverse"
    )
    following = graph.op(
        "Concat",
        graph.slice(backwards, 1, axis=0),
        graph.op("Unsqueeze", reverse_h, graph.integers(0)),
        axis=0,
    )
    weight = array(model.decide_ahead.weight)
    total = linear(graph, following, "decide_reverse", weight[:, :hidden], None)  # [length, rows, decision]
    total = graph.op("Add", total, _convolutions(graph, model, x, weight[:, hidden:]))
    end = graph.constant("decide_end", weight @ array(ahead.h_end))
    total = graph.op("Where", _at_end(graph, token_ids, lengths, follows), end, total)
    word = linear(graph, own, "decide_word", array(model.decide_word.weight), array(model.decide_word.bias))
    step_output(graph, features, graph.op("Transpose", graph.op("Add", total, word), perm=[1, 0, 2]))
    ones = graph.op("Add", graph.op("Mul", follows, graph.scalar(0.0)), graph.scalar(1.0))
    for state, value in zip(
        states, (h_next, c_next, graph.slice(token_ids, 0, reach, axis=1), ones), strict=True
    ):
        state_output(graph, state, value)
    spec = PassSpec(
        name="look_ahead", graph="look_ahead.onnx", direction="backward", states=states, steps=(features,)
    )
    return spec, graph


def _convolutions(graph: Graph, model: LeapLSTM, x: str, weight: NDArray[np.float32]) -> str:
    """W_1's part for the next word's CNN features, `[length + reach, rows, d]` -> `[length, rows, decision]`.

    One product gives every word's share in every filter, and a filter is the sum of its words' shares: ONNX
    Runtime's Conv would take its sums in an order that depends on the length, so segments would change bits.
    """
    ahead = model.look_ahead
    filters = [array(conv.weight) for conv in ahead.filters]  # each (filters, d, width)
    shares = linear(
        graph, x, "filters", np.concatenate([np.concatenate(w.transpose(2, 0, 1)) for w in filters]), None
    )
    taps = iter(graph.ops("Split", [shares], sum(ahead.widths), axis=2, num_outputs=sum(ahead.widths)))
    reach = max(ahead.widths)
    parts = []
    for conv, width in zip(ahead.filters, ahead.widths, strict=True):
        total = graph.constant(f"filters_{width}.b", array(conv.bias))
        for tap in range(1, width + 1):
            share = graph.slice(next(taps), tap, tap - reach or None, axis=0)  # [length, rows, filters]
            total = graph.op("Add", share, total)
        parts.append(graph.op("Relu", total))
    return linear(graph, graph.op("Concat", *parts, axis=2), "decide_filters", weight, None)


def _at_end(graph: Graph, token_ids: str, lengths: str, follows: str) -> str:
    """True at a document's last word: `[length, rows, 1]`."""
    words = graph.op("Range", graph.scalar(0), padded_length(graph, token_ids), graph.scalar(1))
    last = graph.op("Sub", graph.op("Unsqueeze", lengths, graph.integers(0)), graph.scalar(1))
    at_last = graph.op("Equal", graph.op("Unsqueeze", words, graph.integers(1)), last)  # [length, rows]
    nothing_follows = graph.op("Equal", follows, graph.scalar(0.0))
    return graph.op("Unsqueeze", graph.op("And", at_last, nothing_follows), graph.integers(2))
