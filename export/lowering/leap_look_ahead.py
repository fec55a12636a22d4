"""Leap-LSTM's pass of looking ahead, from the last segment to the first.

It gives per word the part of W_1 [x_t; h_{t-1}; f_follow(t)] + b_1 that does not depend on the state,
`decision_features`. What lies beyond a segment's end is carried as state: the reversed LSTM, the next word ids for
the convolutions, and whether any text follows at all (h_end if not). Where filters reach back, the ids of the words
before come from the pass `look_behind`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from app.manifest import PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    array,
    embed,
    linear,
    lstm,
    lstm_weights,
    ones_like,
    padded_length,
    pass_inputs,
    state_input,
    state_output,
    step_output,
)
from models.architectures.leap import LeapLSTM, LookAhead
from models.text.storage import StoredVectors

States = dict[TensorSpec, str]  # with their values after the segment


def look_ahead(
    model: LeapLSTM, embedding: StoredVectors, previous: TensorSpec | None, features: TensorSpec
) -> tuple[PassSpec, Graph]:
    """The pass `look_ahead`, which writes `features` per word; `previous` are the ids of the words before each."""
    ahead = model.look_ahead
    assert ahead is not None
    assert model.decide_ahead is not None
    weight = array(model.decide_ahead.weight)
    graph = Graph("look_ahead")
    token_ids, lengths = pass_inputs(graph)
    before, behind = 0 if previous is None else previous.shape[0], _behind(ahead)
    states: States = {}
    ids = _ids_around(graph, token_ids, previous, behind, states)
    x = embed(graph, embedding, ids)  # [before + length + behind, rows, d]
    own = graph.slice(x, before, -behind or None, axis=0)

    parts, size = [], 0
    if ahead.reverse is not None:
        size = ahead.reverse.hidden_size
        following = _reverse(graph, ahead.reverse, own, lengths, states)
        parts.append(linear(graph, following, "decide_reverse", weight[:, :size], None))
    if ahead.widths:
        parts.append(_convolutions(graph, ahead, (before, behind), x, weight[:, size:]))
    total = graph.op("Sum", *parts)  # [length, rows, decision]
    if ahead.h_end is not None:
        end = graph.constant("decide_end", weight @ array(ahead.h_end))
        total = graph.op("Where", _at_end(graph, token_ids, lengths, states), end, total)
    total = graph.op("Add", total, decide_word(graph, model, own))
    step_output(graph, features, graph.op("Transpose", total, perm=[1, 0, 2]))
    for state, value in states.items():
        state_output(graph, state, value)
    spec = PassSpec(
        name="look_ahead",
        graph="look_ahead.onnx",
        direction="backward",
        reads=() if previous is None else (previous.name,),
        states=tuple(states),
        steps=(features,),
    )
    return spec, graph


def decide_word(graph: Graph, model: LeapLSTM, x: str) -> str:
    """W_1's part for the word itself, and b_1: `[…, d]` -> `[…, decision]`, or b_1 alone."""
    layer = model.decide_word
    if isinstance(layer, nn.Linear):
        return linear(graph, x, "decide_word", array(layer.weight), array(layer.bias))
    return graph.constant("decide_word.b", array(layer.bias))


def words_before(ahead: LookAhead) -> int:
    """How many words before its own the filters reach."""
    return max(ahead.before, default=0)


def _behind(ahead: LookAhead) -> int:
    """How many words behind its own the filters at a word, or in the paper's layout at the next one, reach."""
    own = 0 if ahead.h_end is None else 1
    return max((own + width - 1 - before for width, before in _filters(ahead)), default=0)


def _filters(ahead: LookAhead) -> list[tuple[int, int]]:
    return list(zip(ahead.widths, ahead.before, strict=True))


def _ids_around(
    graph: Graph, token_ids: str, previous: TensorSpec | None, behind: int, states: States
) -> str:
    """The ids of the segment and of the words around it that the filters reach, `[rows, before + length + behind]`."""
    ids = [token_ids]
    if previous is not None:
        per_word = graph.input(previous.name, previous.dtype, ["rows", "length", *previous.shape])
        ids.insert(0, graph.op("Squeeze", graph.slice(per_word, 0, 1, axis=1), graph.integers(1)))
    if behind:
        following = TensorSpec(name="next_ids", dtype="int64", shape=(behind,))
        ids.append(state_input(graph, following))
        states[following] = graph.slice(token_ids, 0, behind, axis=1)
    return graph.op("Concat", *ids, axis=1)


def _reverse(graph: Graph, reverse: nn.LSTM, x: str, lengths: str, states: States) -> str:
    """LSTM_r at the next word, `[length, rows, reverse]`; zeros where none follows."""
    specs = [TensorSpec(name=f"reverse_{name}", shape=(reverse.hidden_size,)) for name in "hc"]
    h, c = (state_input(graph, spec) for spec in specs)
    backwards, *ends = lstm(graph, lstm_weights(reverse), "reverse", x, (h, c), lengths, "reverse")
    states |= zip(specs, ends, strict=True)
    return graph.op(
        "Concat", graph.slice(backwards, 1, axis=0), graph.op("Unsqueeze", h, graph.integers(0)), axis=0
    )


def _convolutions(
    graph: Graph, ahead: LookAhead, around: tuple[int, int], x: str, weight: NDArray[np.float32]
) -> str:
    """W_1's part for the CNN features, `[before + length + behind, rows, d]` -> `[length, rows, decision]`.

    One product gives every word's share in every filter, and a filter is the sum of its words' shares: ONNX
    Runtime's Conv would take its sums in an order that depends on the length, so segments would change bits.
    """
    before, behind = around
    own = (
        0 if ahead.h_end is None else 1
    )  # the paper's features at a word are those of the filters at the next one
    filters = [array(conv.weight) for conv in ahead.filters]  # each (filters, d, width)
    shares = linear(
        graph, x, "filters", np.concatenate([np.concatenate(w.transpose(2, 0, 1)) for w in filters]), None
    )
    taps = iter(graph.ops("Split", [shares], sum(ahead.widths), axis=2, num_outputs=sum(ahead.widths)))
    parts = []
    for n, (conv, (width, back)) in enumerate(zip(ahead.filters, _filters(ahead), strict=True), start=1):
        total = graph.constant(f"filters_{n}.b", array(conv.bias))
        first = before + own - back
        for start in range(first, first + width):
            share = graph.slice(next(taps), start, start - before - behind or None, axis=0)
            total = graph.op("Add", share, total)  # [length, rows, filters]
        parts.append(graph.op("Relu", total))
    return linear(graph, graph.op("Concat", *parts, axis=2), "decide_filters", weight, None)


def _at_end(graph: Graph, token_ids: str, lengths: str, states: States) -> str:
    """True at a document's last word: `[length, rows, 1]`."""
    text_follows = TensorSpec(name="text_follows")
    follows = state_input(graph, text_follows)
    words = graph.op("Range", graph.scalar(0), padded_length(graph, token_ids), graph.scalar(1))
    last = graph.op("Sub", graph.op("Unsqueeze", lengths, graph.integers(0)), graph.scalar(1))
    at_last = graph.op("Equal", graph.op("Unsqueeze", words, graph.integers(1)), last)  # [length, rows]
    nothing_follows = graph.op("Equal", follows, graph.scalar(0.0))
    states[text_follows] = ones_like(graph, follows)
    return graph.op("Unsqueeze", graph.op("And", at_last, nothing_follows), graph.integers(2))
