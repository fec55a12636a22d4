"""The LSTM with cell-to-gate weights: ONNX's LSTM knows peepholes that see c_t, a Scan does the rest."""

from __future__ import annotations

import numpy as np

from export.graph import Graph
from export.lowering.base import LSTMWeights, array, ifgo_to_iofg, linear, lstm
from export.lowering.scan import Words, columns, real_words, scan
from models.architectures.peephole import PeepholeLSTM


def run(
    graph: Graph, cell: PeepholeLSTM, name: str, words: Words, states: tuple[str, str]
) -> tuple[str, str, str]:
    """Add the layer; arguments and result as for `base.lstm`."""
    v = array(cell.cell_to_gate)
    if v.ndim == 2 and cell.output_gate_cell == "new":
        return lstm(graph, _weights(cell), name, words.x, states, words.lengths, words.direction)
    real = real_words(graph, words)
    body = _body(cell, f"{name}_step", masked=bool(real))
    w, b = array(cell.inputs.weight), array(cell.inputs.bias)
    inputs = [
        linear(graph, words.x, f"{name}.{gates}", w[rows], b[rows])
        for gates, rows in _packed(len(w) // 4).items()
    ]
    h, c, hidden = scan(graph, body, list(states), [*inputs, *real], 1, words.direction)
    return hidden, h, c


def _weights(cell: PeepholeLSTM) -> LSTMWeights:
    w, r, b = (ifgo_to_iofg(t)[None] for t in (cell.inputs.weight, cell.recurrent.weight, cell.inputs.bias))
    v_i, v_f, v_o = array(cell.cell_to_gate)
    peepholes = np.concatenate([v_i, v_o, v_f])[None]
    return LSTMWeights(w, r, np.concatenate([b, np.zeros_like(b)], axis=1), peepholes)


def _packed(size: int) -> dict[str, slice[int, int, None]]:
    """The rows of the gates in the packed matrices, which are taken together."""
    return {
        "input_forget": slice(0, 2 * size),
        "candidate": slice(2 * size, 3 * size),
        "output": slice(3 * size, 4 * size),
    }


def _body(cell: PeepholeLSTM, name: str, masked: bool) -> Graph:
    """One word; all products but those of h and c are taken outside."""
    u, v = array(cell.recurrent.weight), array(cell.cell_to_gate)
    size = u.shape[1]
    rows = _packed(size)
    v_i, v_f, v_o = v if v.ndim == 3 else (np.diag(vector) for vector in v)
    body = Graph(name)
    h, c = (body.input(f"{name}_{state}", "float32", ["rows", size]) for state in ("h", "c"))
    x_if = body.input(f"{name}_if", "float32", ["rows", 2 * size])
    x_g, x_o = (body.input(f"{name}_{gate}", "float32", ["rows", size]) for gate in ("g", "o"))
    own_if = body.constant("own_if", columns(u[rows["input_forget"]], np.concatenate([v_i, v_f])))
    own_o = body.constant("own_o", columns(u[rows["output"]], v_o))
    active = body.op("Sigmoid", body.op("Gemm", body.op("Concat", h, c, axis=1), own_if, x_if))
    i, f = body.ops("Split", [active], 2, axis=1, num_outputs=2)
    g = body.op("Tanh", body.op("Gemm", h, body.constant("own_g", columns(u[rows["candidate"]])), x_g))
    if masked:  # at padding the cell is still zero, and stays so
        i = body.op("Mul", i, body.input(f"{name}_real", "float32", ["rows", 1]))
    c_next = body.op("Add", body.op("Mul", f, c), body.op("Mul", i, g))
    seen = body.op("Concat", h, c_next if cell.output_gate_cell == "new" else c, axis=1)
    o = body.op("Sigmoid", body.op("Gemm", seen, own_o, x_o))
    h_next = body.op("Mul", o, body.op("Tanh", c_next))
    for part, value in (("h_next", h_next), ("c_next", c_next), ("h_out", h_next)):
        body.output(f"{name}_{part}", value, "float32", ["rows", size])
    return body
