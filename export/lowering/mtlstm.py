"""MT-LSTM as an exact cascade: a loop per group, each over its own words only, no masks at run time.

With r = T_k / T_j, activation n of group k reads word n T_k and, of another group j, the state after
⌊(n T_k - 1) / T_j⌋ activations: for a faster j the strided n r - 1, for a slower j each state of j repeated. The
segment's start is activation 0, the state carried in; buckets are multiples of T_g, so the clock fits in.

Without the matrices V each group's loop is ONNX's LSTM operator over [x; h^j …]; with them it is a Scan. After
word t the classifier reads activation ⌊t / T_k⌋ of each group; it is applied per group, before repeating.
"""

from __future__ import annotations

import numpy as np

from app.manifest import GroupSpec, PassSpec, TensorSpec
from export.graph import Graph
from export.lowering.base import (
    BUCKETS,
    CAUSAL,
    Lowered,
    answer_outputs,
    answer_steps,
    array,
    embed,
    linear,
    lstm,
    lstm_weights,
    pass_inputs,
    state_input,
    state_output,
)
from models.architectures.mtlstm import MTLSTM, MemoryGroup, MemoryGroupWithCellGates
from models.text.storage import StoredVectors


def lower(model: MTLSTM, embedding: StoredVectors) -> Lowered:
    """One forward pass; the states h and c hold all groups, fastest first."""
    classes, hidden = model.classifier.out_features, sum(model.sizes)
    states = (TensorSpec(name="h", shape=(hidden,)), TensorSpec(name="c", shape=(hidden,)))
    graph = Graph("read")
    token_ids, _ = pass_inputs(graph)
    starts = [_split(graph, state_input(graph, state), model.sizes) for state in states]
    cascade = _Cascade(graph, model, embed(graph, embedding, token_ids), starts[0], starts[1])
    for k in cascade.order():
        cascade.run(k)
    answer_outputs(graph, graph.op("Transpose", cascade.logits(), perm=[1, 0, 2]), classes)
    for state, ends in zip(states, (cascade.h_end, cascade.c_end), strict=True):
        state_output(graph, state, graph.op("Concat", *(ends[k] for k in range(len(model.sizes))), axis=1))
    reading = PassSpec(name="read", graph="read.onnx", states=states, steps=answer_steps(classes))
    groups = tuple(GroupSpec(size=s, period=p) for s, p in zip(model.sizes, model.periods, strict=True))
    return Lowered((reading,), {"read.onnx": graph.model()}, CAUSAL, groups, buckets(model.periods[-1]))


def buckets(slowest: int) -> tuple[int, ...]:
    """Length buckets that are multiples of the slowest period."""
    return tuple(sorted({-(-bucket // slowest) * slowest for bucket in BUCKETS}))


class _Cascade:
    """The groups' state sequences, `[activations + 1, rows, group]`, the state carried in first."""

    def __init__(self, graph: Graph, model: MTLSTM, x: str, h_start: list[str], c_start: list[str]) -> None:
        self.graph, self.model, self.x = graph, model, x
        self.h_start, self.c_start = h_start, c_start
        self.h: dict[int, str] = {}
        self.c: dict[int, str] = {}
        self.h_end: dict[int, str] = {}
        self.c_end: dict[int, str] = {}

    def order(self) -> list[int]:
        """Groups from 0, each after all that it listens to."""
        groups = list(range(len(self.model.sizes)))
        return groups if self.model.strategy == "fast_to_slow" else groups[::-1]

    def run(self, k: int) -> None:
        """Add the loop of group k."""
        group, period = self.model.groups[k], self.model.periods[k]
        x = self.graph.slice(self.x, period - 1, axis=0, step=period) if period > 1 else self.x
        inputs = [x, *(self._read(self.h[j], j, k) for j in self.model.sources(k))]
        joined = self.graph.op("Concat", *inputs, axis=2) if len(inputs) > 1 else x
        states = self.h_start[k], self.c_start[k]
        if isinstance(group, MemoryGroup):
            h, self.h_end[k], self.c_end[k] = lstm(
                self.graph, lstm_weights(group.cell), f"group_{k}", joined, states
            )
        else:
            assert isinstance(group, MemoryGroupWithCellGates)
            cells = [self._read(self.c[j], j, k) for j in self.model.sources(k)]
            h, c, self.h_end[k], self.c_end[k] = _scan(self.graph, group, f"group_{k}", joined, cells, states)
            self.c[k] = self._with_start(self.c_start[k], c)
        self.h[k] = self._with_start(self.h_start[k], h)

    def logits(self) -> str:
        """Class logits after every word, `[length, rows, classes]`."""
        weight = array(self.model.classifier.weight)
        total = ""
        column = 0
        for k, (size, period) in enumerate(zip(self.model.sizes, self.model.periods, strict=True)):
            bias = array(self.model.classifier.bias) if k == 0 else None
            block = np.ascontiguousarray(weight[:, column : column + size])
            part = linear(
                self.graph, self.h[k], f"classifier_{k}", block, bias
            )  # [activations + 1, rows, classes]
            held = self._repeat(part, period, weight.shape[0]) if period > 1 else part
            held = self.graph.slice(held, 1, -(period - 1) or None, axis=0)  # words 1 … length
            total = self.graph.op("Add", total, held) if total else held
            column += size
        return total

    def _with_start(self, start: str, states: str) -> str:
        first = self.graph.op("Unsqueeze", start, self.graph.integers(0))
        return self.graph.op("Concat", first, states, axis=0)

    def _read(self, states: str, j: int, k: int) -> str:
        """What group k reads of group j's states at each of its activations."""
        own, other = self.model.periods[k], self.model.periods[j]
        if other < own:
            ratio = own // other
            return self.graph.slice(states, ratio - 1, axis=0, step=ratio)
        without_last = self.graph.slice(states, 0, -1, axis=0)
        return self._repeat(without_last, other // own, self.model.sizes[j])

    def _repeat(self, value: str, times: int, features: int) -> str:
        """Each step `times` times: `[n, rows, features]` -> `[n times, rows, features]`."""
        graph = self.graph
        wide = graph.op("Unsqueeze", value, graph.integers(1))  # [n, 1, rows, features]
        wide = graph.op("Expand", wide, graph.integers(1, times, 1, 1))  # [n, times, rows, features]
        rows = graph.op("Shape", value, start=1, end=2)
        shape = graph.op("Concat", graph.integers(-1), rows, graph.integers(features), axis=0)
        return graph.op("Reshape", wide, shape)


def _split(graph: Graph, state: str, sizes: list[int]) -> list[str]:
    if len(sizes) == 1:
        return [state]
    return graph.ops("Split", [state, graph.integers(*sizes)], len(sizes), axis=1)


def _scan(
    graph: Graph,
    group: MemoryGroupWithCellGates,
    name: str,
    x: str,
    cells: list[str],
    states: tuple[str, str],
) -> tuple[str, str, str, str]:
    """The loop of a group with cell-to-gate matrices.

    All products but those with the group's own h and c are taken outside the loop, for all words at once.

    Returns:
        h and c at every activation `[activations, rows, group]`, and h and c in the end `[rows, group]`.
    """
    w, b, u, v = (
        array(t)
        for t in (group.inputs.weight, group.inputs.bias, group.recurrent.weight, group.own_cell.weight)
    )
    size = v.shape[1]
    i, f, g, o = (slice(n * size, (n + 1) * size) for n in range(4))
    gate_rows = np.r_[i, f, o]
    gates = linear(graph, x, f"{name}.gates", w[gate_rows], b[gate_rows])  # [activations, rows, 3 group]
    if group.source_cells is not None:
        joined = graph.op("Concat", *cells, axis=2) if len(cells) > 1 else cells[0]
        gates = graph.op(
            "Add", gates, linear(graph, joined, f"{name}.cells", array(group.source_cells.weight), None)
        )
    candidate = linear(graph, x, f"{name}.candidate", w[g], b[g])  # [activations, rows, group]

    body = Graph(f"{name}_step")
    h, c = (body.input(f"{name}_{part}", "float32", ["rows", size]) for part in ("h", "c"))
    gates_n = body.input(f"{name}_gates", "float32", ["rows", 3 * size])
    candidate_n = body.input(f"{name}_candidate", "float32", ["rows", size])
    own = body.constant("own", np.concatenate([u[gate_rows].T, v.T]))  # (2 group, 3 group)
    active = body.op("Sigmoid", body.op("Gemm", body.op("Concat", h, c, axis=1), own, gates_n))
    i_n, f_n, o_n = body.ops("Split", [active], 3, axis=1, num_outputs=3)
    g_n = body.op("Tanh", body.op("Gemm", h, body.constant("u_g", np.ascontiguousarray(u[g].T)), candidate_n))
    c_next = body.op("Add", body.op("Mul", f_n, c), body.op("Mul", i_n, g_n))
    h_next = body.op("Mul", o_n, body.op("Tanh", c_next))
    for part, value in (("h_next", h_next), ("c_next", c_next), ("h_out", h_next), ("c_out", c_next)):
        body.output(f"{name}_{part}", value, "float32", ["rows", size])
    h_end, c_end, hs, cs = graph.ops(
        "Scan", [*states, gates, candidate], 4, body=body.body(), num_scan_inputs=2
    )
    return hs, cs, h_end, c_end
