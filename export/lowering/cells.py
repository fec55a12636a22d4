"""A recurrent layer in a graph, by its kind: ONNX's own operator where there is one, else a Scan."""

from __future__ import annotations

from torch import nn

from app.bundle import TensorSpec
from export.graph import Graph
from export.lowering import cifg, peephole
from export.lowering.base import lstm, lstm_weights
from export.lowering.scan import Words
from models.architectures.cifg import CIFGCell
from models.architectures.peephole import PeepholeLSTM


def states(prefix: str, cell: nn.Module) -> tuple[TensorSpec, ...]:
    """The states that a layer carries from segment to segment."""
    hidden = cell.hidden_size
    assert isinstance(hidden, int)
    return tuple(TensorSpec(name=f"{prefix}{name}", shape=(hidden,)) for name in ("h", "c"))


def run(graph: Graph, cell: nn.Module, name: str, words: Words, before: list[str]) -> tuple[str, list[str]]:
    """Add a layer.

    Args:
        graph: the graph to add to.
        cell: the trained layer.
        name: prefix of its weights' names.
        words: what it reads.
        before: its states before the first word, `[rows, hidden]`.

    Returns:
        h at every word `[length, rows, hidden]`, zero at padding where `lengths` is given; and the states in the end.
    """
    h, c = before
    if isinstance(cell, PeepholeLSTM):
        hidden, h, c = peephole.run(graph, cell, name, words, (h, c))
    elif isinstance(cell, CIFGCell):
        hidden, h, c = cifg.run(graph, cell, name, words, (h, c))
    else:
        assert isinstance(cell, nn.LSTM)
        hidden, h, c = lstm(graph, lstm_weights(cell), name, words.x, (h, c), words.lengths, words.direction)
    return hidden, [h, c]
