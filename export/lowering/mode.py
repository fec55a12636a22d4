"""MODE-LSTM's features: every word is projected once, then all windows take their S steps side by side.

Step j of the window that ends at word t reads word t - S + j, so a step of all windows reads a shifted slice of the
projected words. The K small states are the batch of one matrix product.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from export.graph import Graph
from export.lowering import windows
from export.lowering.base import Lowered, WordFeatures, array
from models.architectures.mode import MODELSTM
from models.architectures.small_states import SmallStates


def lower(model: MODELSTM, embedding: WordFeatures) -> Lowered:
    """See `windows.lower`."""
    return windows.lower(model, embedding, partial(_features, model))


def _features(model: MODELSTM, graph: Graph, x: str, before: int) -> str:
    found = []
    for n, states in enumerate(model.scales, start=1):
        assert isinstance(states, SmallStates)
        reached = graph.slice(x, before - (states.words - 1), axis=0)  # [words - 1 + length, rows, d]
        found.append(_small_states(graph, states, f"scale_{n}", reached))
    return graph.op("Concat", *found, axis=2)


def _small_states(graph: Graph, states: SmallStates, name: str, x: str) -> str:
    """`[words - 1 + length, rows, d]` -> `[length, rows, K p]`."""
    count, gates, size = states.recurrent.shape
    recurrent = graph.constant(f"{name}.recurrent", _transposed(array(states.recurrent)))
    projected = _project(graph, states, name, x)  # [K, words - 1 + length, rows, 4 p]
    flat = graph.integers(count, -1, gates)
    h = c = shape = ""
    for step in range(states.words):
        words = graph.slice(projected, step, step - (states.words - 1) or None, axis=1)
        shape = shape or graph.op("Shape", words, start=0, end=3)  # K, length, rows
        total = graph.op("Reshape", words, flat)  # [K, length rows, 4 p]
        if h:
            total = graph.op("Add", graph.op("MatMul", h, recurrent), total)
        sums, candidate = graph.ops("Split", [total, graph.integers(3 * size, size)], 2, axis=2)
        f, i, o = graph.ops("Split", [graph.op("Sigmoid", sums)], 3, axis=2, num_outputs=3)
        read = graph.op("Mul", i, graph.op("Tanh", candidate))
        c = graph.op("Add", graph.op("Mul", f, c), read) if c else read  # states start at zero
        h = graph.op("Mul", o, graph.op("Tanh", c))
    by_state = graph.op("Reshape", h, graph.op("Concat", shape, graph.integers(size), axis=0))
    by_word = graph.op("Transpose", by_state, perm=[1, 2, 0, 3])  # [length, rows, K, p]
    return graph.op("Reshape", by_word, graph.integers(0, 0, count * size))


def _project(graph: Graph, states: SmallStates, name: str, x: str) -> str:
    """U x + b of every word, for all windows that read it."""
    count, gates, _ = states.recurrent.shape
    width = states.project.in_features
    weight = array(states.project.weight).reshape(count, gates, width)
    flat = graph.op("Reshape", x, graph.integers(1, -1, width))
    product = graph.op("MatMul", flat, graph.constant(f"{name}.input", _transposed(weight)))
    bias = array(states.project.bias).reshape(count, 1, gates)
    total = graph.op("Add", product, graph.constant(f"{name}.bias", bias))
    words_and_rows = graph.op("Shape", x, start=0, end=2)
    shape = graph.op("Concat", graph.integers(count), words_and_rows, graph.integers(gates), axis=0)
    return graph.op("Reshape", total, shape)


def _transposed(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.ascontiguousarray(weight.transpose(0, 2, 1))
