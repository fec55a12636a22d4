"""The simple recurrent network as ONNX's own RNN operator."""

from __future__ import annotations

import numpy as np
from torch import nn

from export.graph import Graph
from export.lowering.base import array, int32_lengths
from export.lowering.scan import Words


def run(graph: Graph, cell: nn.RNN, name: str, words: Words, before: list[str]) -> tuple[str, list[str]]:
    """Add the layer.

    Returns:
        h at every word `[length, rows, hidden]`, and h in the end `[rows, hidden]`.
    """
    bias = np.concatenate([array(cell.bias_ih_l0), array(cell.bias_hh_l0)])
    weights = (("w", array(cell.weight_ih_l0)), ("r", array(cell.weight_hh_l0)), ("b", bias))
    constants = [graph.constant(f"{name}.{part}", value[None]) for part, value in weights]
    start = [graph.op("Unsqueeze", state, graph.integers(0)) for state in before]
    inputs = [words.x, *constants, int32_lengths(graph, words.lengths), *start]
    y, h = graph.ops("RNN", inputs, 2, hidden_size=cell.hidden_size, direction=words.direction)
    return graph.op("Squeeze", y, graph.integers(1)), [graph.op("Squeeze", h, graph.integers(0))]
