"""A recurrent layer in a graph, by its kind: ONNX's own operator where there is one, else a Scan."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from app.manifest import TensorSpec
from export.graph import Graph
from export.lowering import cifg, clstm, mtgru, peephole, rnn
from export.lowering.base import lstm, lstm_weights
from export.lowering.scan import Words
from models.architectures.cifg import CIFGCell
from models.architectures.clstm import CLSTMCell
from models.architectures.hl_mtgru import FastAndSlow
from models.architectures.mtgru import MTGRUCell
from models.architectures.peephole import PeepholeLSTM

_WITHOUT_CELL_STATE = (nn.RNN, MTGRUCell, FastAndSlow)


def states(prefix: str, cell: nn.Module) -> tuple[TensorSpec, ...]:
    """The states that a layer carries from segment to segment."""
    hidden, names = hidden_size(cell), ("h",) if isinstance(cell, _WITHOUT_CELL_STATE) else ("h", "c")
    return tuple(TensorSpec(name=f"{prefix}{name}", shape=(hidden,)) for name in names)


def hidden_size(cell: nn.Module) -> int:
    """A layer's units."""
    hidden = cell.hidden_size
    assert isinstance(hidden, int)
    return hidden


@dataclass(frozen=True)
class Layer:
    """What a layer gives.

    Attributes:
        hidden: h at every word `[length, rows, hidden]`, zero at padding where lengths are given.
        ends: its states after the segment, `[rows, hidden]`.
        forgetting_rates: mean of each memory group per word, `[rows, length, groups]`, of a layer that has them.
    """

    hidden: str
    ends: list[str]
    forgetting_rates: str | None = None


def run(graph: Graph, cell: nn.Module, name: str, words: Words, before: list[str]) -> Layer:
    """Add a layer.

    Args:
        graph: the graph to add to.
        cell: the trained layer.
        name: prefix of its weights' names.
        words: what it reads.
        before: its states before the first word, `[rows, hidden]`.
    """
    match cell:
        case nn.RNN():
            return Layer(*rnn.run(graph, cell, name, words, before))
        case MTGRUCell():
            return Layer(*mtgru.run(graph, cell, name, words, *before))
        case FastAndSlow():
            return Layer(*mtgru.run_hierarchical(graph, cell, name, words, *before))
    h, c = before
    match cell:
        case PeepholeLSTM():
            hidden, h, c = peephole.run(graph, cell, name, words, (h, c))
        case CIFGCell():
            hidden, h, c = cifg.run(graph, cell, name, words, (h, c))
        case CLSTMCell():
            memory = clstm.run(graph, cell, name, words, (h, c))
            means = clstm.group_means(graph, cell, memory.rates)
            return Layer(memory.hidden, [memory.h, memory.c], means)
        case nn.LSTM():
            weights = lstm_weights(cell)
            hidden, h, c = lstm(graph, weights, name, words.x, (h, c), words.lengths, words.direction)
        case _:
            raise TypeError(f"no lowering for the layer {type(cell).__name__}")
    return Layer(hidden, [h, c])
