"""CLSTM as a Scan: no operator of ONNX has its gates, since one rate serves both to forget and to take in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from export.graph import Graph
from export.lowering.base import array, linear
from export.lowering.scan import Words, columns, real_words, scan
from models.architectures.clstm import CLSTMCell


@dataclass(frozen=True)
class Memory:
    """What the layer gives: h and forgetting rates `[length, rows, hidden]`, and h and c in the end."""

    hidden: str
    rates: str
    h: str
    c: str


def run(graph: Graph, cell: CLSTMCell, name: str, words: Words, states: tuple[str, str]) -> Memory:
    """Add the layer; all products but those of its own state are taken outside the loop, for all words at once."""
    real = real_words(graph, words)
    w, b = array(cell.inputs.weight), array(cell.inputs.bias)
    gates = slice(0, 2 * cell.hidden_size)
    candidate = slice(2 * cell.hidden_size, None)
    inputs = [
        linear(graph, words.x, f"{name}.gates", w[gates], b[gates]),
        linear(graph, words.x, f"{name}.candidate", w[candidate], b[candidate]),
    ]
    body = _body(cell, f"{name}_step", masked=bool(real))
    h, c, hidden, rates = scan(graph, body, list(states), [*inputs, *real], 2, words.direction)
    return Memory(hidden, rates, h, c)


def group_means(graph: Graph, cell: CLSTMCell, rates: str) -> str:
    """The mean rate of each group, `[rows, length, groups]`."""
    averages = np.repeat(np.diag([1 / size for size in cell.sizes]), cell.sizes, axis=1)
    means = linear(graph, rates, "group_means", averages.astype(np.float32), None)
    return graph.op("Transpose", means, perm=[1, 0, 2])


def _body(cell: CLSTMCell, name: str, masked: bool) -> Graph:
    """One word."""
    size, u = cell.hidden_size, array(cell.recurrent.weight)
    body = Graph(name)
    h, c = (body.input(f"{name}_{state}", "float32", ["rows", size]) for state in ("h", "c"))
    x_gates = body.input(f"{name}_gates", "float32", ["rows", 2 * size])
    x_g = body.input(f"{name}_candidate", "float32", ["rows", size])
    gates = body.op("Sigmoid", body.op("Gemm", h, body.constant("u_gates", columns(u[: 2 * size])), x_gates))
    g = body.op("Tanh", body.op("Gemm", h, body.constant("u_g", columns(u[2 * size :])), x_g))
    z, o = body.ops("Split", [gates], 2, axis=1, num_outputs=2)
    rate = body.op("Add", z, body.constant("group", array(cell.group)))
    rate = body.op("Mul", rate, body.scalar(1 / len(cell.sizes)))
    if masked:  # nothing is forgotten or taken in at padding, so a zero state stays zero
        rate = body.op("Mul", rate, body.input(f"{name}_real", "float32", ["rows", 1]))
    c_next = body.op("Add", c, body.op("Mul", rate, body.op("Sub", g, c)))
    h_next = body.op("Mul", o, body.op("Tanh", c_next))
    for part, value in (("h_next", h_next), ("c_next", c_next), ("h_out", h_next), ("rate", rate)):
        body.output(f"{name}_{part}", value, "float32", ["rows", size])
    return body
