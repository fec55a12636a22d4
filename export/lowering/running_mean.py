"""The mean of the states so far, carried from segment to segment as a sum and a count."""

from __future__ import annotations

from onnx import TensorProto

from app.manifest import TensorSpec
from export.graph import Graph
from export.lowering.scan import Words


def states(prefix: str, units: int) -> tuple[TensorSpec, ...]:
    """What is carried; zeros at the start of a document."""
    return TensorSpec(name=f"{prefix}sum", shape=(units,)), TensorSpec(name=f"{prefix}count")


def running_sum(graph: Graph, values: str, words: Words, total: str) -> tuple[str, str]:
    """The sum of the values from the document's first word (reverse: its last) to each word.

    The sum carried in is put before the first value rather than added afterwards: sums are then taken in one order
    in however many segments a document is read.

    Args:
        graph: the graph to add to.
        values: `[length, rows, units]`; in reverse zero at padding.
        words: their direction.
        total: the sum carried in, `[rows, units]`.

    Returns:
        The sums `[length, rows, units]`, and the sum after the segment.
    """
    start, first = graph.op("Unsqueeze", total, graph.integers(0)), graph.integers(0)
    if words.direction == "reverse":
        sums = graph.op("CumSum", graph.op("Concat", values, start, axis=0), graph.scalar(0), reverse=1)
        each, last = graph.slice(sums, 0, -1, axis=0), graph.slice(sums, 0, 1, axis=0)
    else:
        sums = graph.op("CumSum", graph.op("Concat", start, values, axis=0), graph.scalar(0))
        each, last = graph.slice(sums, 1, axis=0), graph.slice(sums, -1, axis=0)
    return each, graph.op("Squeeze", last, first)


def running_mean(graph: Graph, values: str, words: Words, before: list[str]) -> tuple[str, list[str]]:
    """The mean in place of the sum; `before` and the second result are the sum and the count of words."""
    total, count = before
    sums, total_next = running_sum(graph, values, words, total)
    length = graph.op("Squeeze", graph.op("Shape", values, start=0, end=1))
    position = graph.op("Range", graph.scalar(0), length, graph.scalar(1))
    position = graph.op("Unsqueeze", position, graph.integers(1))  # [length, 1]
    if words.direction == "reverse":
        read, added = graph.op("Sub", words.lengths, position), words.lengths
        read = graph.op("Max", read, graph.scalar(1))  # at padding there is nothing to divide
    else:
        read, added = graph.op("Add", position, graph.scalar(1)), length
    counts = graph.op("Add", _float(graph, read), count)  # [length, rows]
    means = graph.op("Div", sums, graph.op("Unsqueeze", counts, graph.integers(2)))
    return means, [total_next, graph.op("Add", count, _float(graph, added))]


def _float(graph: Graph, value: str) -> str:
    return graph.op("Cast", value, to=TensorProto.FLOAT)
