"""CIFG-LSTM as ONNX's LSTM with `input_forget`, which couples its gates as f = 1 - i."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from export.graph import Graph
from export.lowering.base import LSTMWeights, array, lstm
from export.lowering.scan import Words
from models.architectures.cifg import CIFGCell


def run(
    graph: Graph, cell: CIFGCell, name: str, words: Words, states: tuple[str, str]
) -> tuple[str, str, str]:
    """Add the layer; arguments and result as for `base.lstm`."""
    w, r, b = (_iofg(t)[None] for t in (cell.inputs.weight, cell.recurrent.weight, cell.inputs.bias))
    weights = LSTMWeights(w, r, np.concatenate([b, np.zeros_like(b)], axis=1))
    return lstm(graph, weights, name, words.x, states, words.lengths, words.direction, input_forget=1)


def _iofg(packed: Tensor) -> NDArray[np.float32]:
    """Gates in ONNX's order: 1 - σ(z) = σ(-z) gives the input gate; the forget gate's own weights are not read."""
    f, o, g = np.split(array(packed), 3)
    return np.concatenate([-f, o, f, g])
