"""GRU, MTGRU and HL-MTGRU: ONNX's GRU where there is no timescale, else a Scan per layer.

ONNX's GRU takes its reset before the product (`linear_before_reset` = 0), as the paper's equations do. Of a layer with
a timescale the Scan holds only the products of its own state; with p = 1/τ and -z for z it is

    h += p σ(-a_z) ⊙ (u - h).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import nn

from app.manifest import HalfSpec
from export.graph import Graph
from export.lowering.base import array, int32_lengths, linear
from export.lowering.scan import Words, columns, real_words, scan
from models.architectures.hl_mtgru import FastAndSlow
from models.architectures.mtgru import MTGRUCell


def run(graph: Graph, cell: MTGRUCell, name: str, words: Words, h: str) -> tuple[str, list[str]]:
    """Add a layer.

    Returns:
        h at every word `[length, rows, hidden]`, and h in the end `[rows, hidden]`.
    """
    return _gru(graph, cell, name, words, h) if cell.pace is None else _timescale(graph, cell, name, words, h)


def run_hierarchical(
    graph: Graph, cell: FastAndSlow, name: str, words: Words, h: str
) -> tuple[str, list[str]]:
    """Add the fast layer, and the slow one on its states; h is both states side by side."""
    sizes = graph.integers(*cell.sizes)
    before = graph.ops("Split", [h, sizes], 2, axis=1)
    fast, fast_end = run(graph, cell.fast, f"{name}.fast", words, before[0])
    heard = Words(graph.op("Concat", words.x, fast, axis=2), words.lengths, words.direction)
    slow, slow_end = run(graph, cell.slow, f"{name}.slow", heard, before[1])
    hidden = graph.op("Concat", fast, slow, axis=2)
    return hidden, [graph.op("Concat", *fast_end, *slow_end, axis=1)]


def halves(cell: nn.Module) -> tuple[HalfSpec, HalfSpec] | None:
    """Units and trained τ of the fast and the slow layer, of a model that has them."""
    if not isinstance(cell, FastAndSlow):
        return None
    fast, slow = (HalfSpec(units=half.hidden_size, tau=_tau(half)) for half in (cell.fast, cell.slow))
    return fast, slow


def _tau(cell: MTGRUCell) -> float:
    assert cell.pace is not None
    return 1 / cell.pace.item()


def half_logits(graph: Graph, cell: FastAndSlow, classifier: NDArray[np.float32], hidden: str) -> str:
    """What each half adds to the logits: `[length, rows, hidden]` -> `[rows, length, 2, classes]`."""
    halves = graph.ops("Split", [hidden, graph.integers(*cell.sizes)], 2, axis=2)
    weights = np.split(classifier, [cell.sizes[0]], axis=1)
    logits = [
        graph.op("Unsqueeze", linear(graph, half, f"classifier.{name}", weight, None), graph.integers(2))
        for half, name, weight in zip(halves, ("fast", "slow"), weights, strict=True)
    ]
    return graph.op("Transpose", graph.op("Concat", *logits, axis=2), perm=[1, 0, 2, 3])


def _gru(graph: Graph, cell: MTGRUCell, name: str, words: Words, h: str) -> tuple[str, list[str]]:
    w, r = (_zru(array(layer.weight)) for layer in (cell.inputs, cell.recurrent))
    size = cell.hidden_size
    bias = np.zeros(3 * size, np.float32) if cell.inputs.bias is None else _zru(array(cell.inputs.bias))
    both = np.concatenate([bias, np.zeros_like(bias)])
    constants = [
        graph.constant(f"{name}.{part}", value[None]) for part, value in (("w", w), ("r", r), ("b", both))
    ]
    start = graph.op("Unsqueeze", h, graph.integers(0))
    inputs = [words.x, *constants, int32_lengths(graph, words.lengths), start]
    y, end = graph.ops("GRU", inputs, 2, hidden_size=size, direction=words.direction, linear_before_reset=0)
    return graph.op("Squeeze", y, graph.integers(1)), [graph.op("Squeeze", end, graph.integers(0))]


def _timescale(graph: Graph, cell: MTGRUCell, name: str, words: Words, h: str) -> tuple[str, list[str]]:
    real, size = real_words(graph, words), cell.hidden_size
    w, b = array(cell.inputs.weight), None if cell.inputs.bias is None else array(cell.inputs.bias)
    inputs = [
        linear(
            graph, words.x, f"{name}.gates", _negative_z(w, size), None if b is None else _negative_z(b, size)
        ),
        linear(graph, words.x, f"{name}.candidate", w[2 * size :], None if b is None else b[2 * size :]),
    ]
    body = _body(cell, name.replace(".", "_"), masked=bool(real))
    end, hidden = scan(graph, body, [h], [*inputs, *real], 1, words.direction)
    return hidden, [end]


def _body(cell: MTGRUCell, name: str, masked: bool) -> Graph:
    """One word."""
    size, u = cell.hidden_size, array(cell.recurrent.weight)
    assert cell.pace is not None
    body = Graph(f"{name}_step")
    h = body.input(f"{name}_h", "float32", ["rows", size])
    x_gates = body.input(f"{name}_gates", "float32", ["rows", 2 * size])
    x_u = body.input(f"{name}_candidate", "float32", ["rows", size])
    u_gates = body.constant("u_gates", columns(_negative_z(u, size)))
    gates = body.op("Sigmoid", body.op("Gemm", h, u_gates, x_gates))
    r, taken = body.ops("Split", [gates], 2, axis=1, num_outputs=2)
    u_candidate = body.constant("u_candidate", columns(u[2 * size :]))
    candidate = body.op("Tanh", body.op("Gemm", body.op("Mul", r, h), u_candidate, x_u))
    taken = body.op("Mul", taken, body.scalar(cell.pace.item()))
    if masked:
        taken = body.op("Mul", taken, body.input(f"{name}_real", "float32", ["rows", 1]))
    h_next = body.op("Add", h, body.op("Mul", taken, body.op("Sub", candidate, h)))
    for part in ("next", "out"):
        body.output(f"{name}_h_{part}", h_next, "float32", ["rows", size])
    return body


def _negative_z(packed: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """The gates r and -z of what packs r, z, u: 1 - σ(a) = σ(-a)."""
    return np.concatenate([packed[:size], -packed[size : 2 * size]])


def _zru(packed: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gates in ONNX's order."""
    r, z, u = np.split(packed, 3)
    return np.concatenate([z, r, u])
