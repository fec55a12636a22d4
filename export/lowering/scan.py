"""A layer as ONNX's Scan: a body for one word, and what every such layer shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from export.graph import Graph


@dataclass(frozen=True)
class Words:
    """What a layer reads.

    Attributes:
        x: `[length, rows, features]`.
        lengths: int64 `[rows]` where padding must leave the states as they are, else "".
        direction: forward, or reverse from the last real word.
    """

    x: str
    lengths: str = ""
    direction: str = "forward"


def scan(
    graph: Graph, body: Graph, states: list[str], inputs: list[str], outputs: int, direction: str
) -> list[str]:
    """Run a body at every word.

    Args:
        graph: the graph to add to.
        body: its inputs are the states and one word's share of the inputs, its outputs the states and outputs.
        states: before the first word, `[rows, …]`.
        inputs: `[length, rows, …]`.
        outputs: how many values per word the body gives, besides the states.
        direction: forward or reverse.

    Returns:
        The states in the end, then the outputs, `[length, rows, …]`.
    """
    reverse = int(direction == "reverse")
    return graph.ops(
        "Scan",
        [*states, *inputs],
        len(states) + outputs,
        body=body.body(),
        num_scan_inputs=len(inputs),
        scan_input_directions=[reverse] * len(inputs),
        scan_output_directions=[reverse] * outputs,
    )


def real_words(graph: Graph, words: Words) -> list[str]:
    """1 at real words and 0 at padding, float32 `[length, rows, 1]`; nothing where padding may be read."""
    if not words.lengths:
        return []
    length = graph.op("Squeeze", graph.op("Shape", words.x, start=0, end=1))
    position = graph.op("Range", graph.scalar(0), length, graph.scalar(1))
    real = graph.op("Less", graph.op("Unsqueeze", position, graph.integers(1)), words.lengths)
    return [graph.op("Unsqueeze", graph.op("Cast", real, to=TensorProto.FLOAT), graph.integers(2))]


def columns(*blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Matrices `(out, in)` side by side as one factor for row vectors, `(all in, out)`."""
    return np.ascontiguousarray(np.concatenate([block.T for block in blocks]))
