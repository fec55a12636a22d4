"""The mean of the states so far, carried from segment to segment as a sum and a count."""

from __future__ import annotations

from onnx import TensorProto

from app.bundle import TensorSpec
from export.graph import Graph
from export.lowering.scan import Words


def states(prefix: str, units: int) -> tuple[TensorSpec, ...]:
    """What is carried; zeros at the start of a document."""
    return TensorSpec(name=f"{prefix}sum", shape=(units,)), TensorSpec(name=f"{prefix}count")


def running_mean(graph: Graph, values: str, words: Words, before: list[str]) -> tuple[str, list[str]]:
    """The mean of the values from the document's first word (reverse: its last) to each word.

    The sum carried in is put before the first value rather than added afterwards: sums are then taken in one order
    in however many segments a document is read.

    Args:
        graph: the graph to add to.
        values: `[length, rows, units]`; in reverse zero at padding.
        words: their direction, and for reverse the lengths.
        before: sum and count carried in.

    Returns:
        The means `[length, rows, units]`, and sum and count after the segment.
    """
    total, count = before
    start = graph.op("Unsqueeze", total, graph.integers(0))
    length = graph.op("Squeeze", graph.op("Shape", values, start=0, end=1))
    position = graph.op(
        "Unsqueeze", graph.op("Range", graph.scalar(0), length, graph.scalar(1)), graph.integers(1)
    )
    if words.direction == "reverse":
        sums = graph.op("CumSum", graph.op("Concat", values, start, axis=0), graph.scalar(0), reverse=1)
        sums, last = graph.slice(sums, 0, -1, axis=0), graph.slice(sums, 0, 1, axis=0)
        read = graph.op("Max", graph.op("Sub", words.lengths, position), graph.scalar(1))
        added = words.lengths
    else:
        sums = graph.op("CumSum", graph.op("Concat", start, values, axis=0), graph.scalar(0))
        sums, last = graph.slice(sums, 1, axis=0), graph.slice(sums, -1, axis=0)
        read, added = graph.op("Add", position, graph.scalar(1)), length
    counts = graph.op("Add", graph.op("Cast", read, to=TensorProto.FLOAT), count)  # [length, rows]
    means = graph.op("Div", sums, graph.op("Unsqueeze", counts, graph.integers(2)))
    ends = [
        graph.op("Squeeze", last, graph.integers(0)),
        graph.op("Add", count, graph.op("Cast", added, to=TensorProto.FLOAT)),
    ]
    return means, ends
