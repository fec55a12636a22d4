"""TextCNN's features: every word's share in every filter is taken once, and a filter is the sum of its shares.

ONNX Runtime's Conv would take its sums in an order that depends on the length, so segments would change bits.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from torch import nn

from export.graph import Graph
from export.lowering import windows
from export.lowering.base import Lowered, WordFeatures, array, linear
from models.architectures.text_cnn import TextCNN


def lower(model: TextCNN, embedding: WordFeatures) -> Lowered:
    """See `windows.lower`."""
    return windows.lower(model, embedding, partial(_features, model))


def _features(model: TextCNN, graph: Graph, x: str, before: int) -> str:
    found = []
    for n, conv in enumerate(model.filters, start=1):
        assert isinstance(conv, nn.Conv1d)
        reached = graph.slice(x, before - (conv.kernel_size[0] - 1), axis=0)
        found.append(filters(graph, conv, f"filters_{n}", reached))
    return graph.op("Relu", graph.op("Concat", *found, axis=2))


def filters(graph: Graph, conv: nn.Conv1d, name: str, x: str) -> str:
    """What filters find before their ReLU: `[width - 1 + length, rows, d]` -> `[length, rows, filters]`."""
    assert conv.bias is not None
    weight = array(conv.weight).transpose(2, 0, 1)  # (width, filters, d)
    width = len(weight)
    shares = linear(graph, x, name, np.concatenate(weight), None)  # [width - 1 + length, rows, width filters]
    taps = graph.ops("Split", [shares], width, axis=2, num_outputs=width) if width > 1 else [shares]
    total = graph.constant(f"{name}.b", array(conv.bias))
    for tap, values in enumerate(taps):
        share = graph.slice(values, tap, tap - (width - 1) or None, axis=0)  # [length, rows, filters]
        total = graph.op("Add", share, total)
    return total
