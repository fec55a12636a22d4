"""What the loops over the words that are read share.

Such a loop has an iteration per word that is read instead of one per word. In an iteration a row reads one word, or
none once it is done; words that are skipped cost nothing. The loop gives per iteration the word that each row read,
the padded length where it read none, and the state behind it. What holds after every word of the text is put
together after the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto
from torch import nn

from export.graph import Graph
from export.lowering.base import array, linear, padded_length
from models.architectures.reading_cell import ReadingCell


@dataclass(frozen=True)
class Text:
    """A segment as such a loop reads it: one word of each row at a time, each row at its own place.

    Attributes:
        words: what is read of every word, `[rows · length, …]`.
        row_start: where each row begins in it, int64 `[rows]`.
        lengths: int64 `[rows]`.
        last_word: lengths - 1.
        padded: the padded length, a scalar.
    """

    words: str
    row_start: str
    lengths: str
    last_word: str
    padded: str

    def read(self, body: Graph, word: str) -> str:
        """The words at int64 `[rows]`; a row that is done reads its last word again, and must not keep it."""
        return body.op(
            "Gather", self.words, body.op("Add", self.row_start, body.op("Min", word, self.last_word))
        )


def text(graph: Graph, x: str, features: int, lengths: str) -> Text:
    """A text from its words `[rows, length, features]`."""
    padded = padded_length(graph, x)
    rows = graph.op("Squeeze", graph.op("Shape", lengths))
    row_start = graph.op("Mul", graph.op("Range", graph.scalar(0), rows, graph.scalar(1)), padded)
    words = graph.op("Reshape", x, graph.integers(-1, features))
    return Text(words, row_start, lengths, graph.op("Sub", lengths, graph.scalar(1)), padded)


def step(body: Graph, cell: ReadingCell, x: str, h: str, c: str) -> tuple[str, str]:
    """One step of the reading LSTM on `[rows, d]`; the products of x and h are taken as one."""
    w, b, u = (array(t) for t in (cell.project.weight, cell.project.bias, cell.recurrent.weight))
    size = u.shape[1]
    i, f, g, o = (np.arange(n * size, (n + 1) * size) for n in range(4))
    joined = body.op("Concat", x, h, axis=1)

    def gate(name: str, rows: NDArray[np.int64]) -> str:
        weight = np.ascontiguousarray(np.concatenate([w[rows], u[rows]], axis=1).T)
        return body.op(
            "Gemm", joined, body.constant(f"{name}.w", weight), body.constant(f"{name}.b", b[rows])
        )

    active = body.op("Sigmoid", gate("gates", np.concatenate([i, f, o])))
    i_t, f_t, o_t = body.ops("Split", [active], 3, axis=1, num_outputs=3)
    g_t = body.op("Tanh", gate("candidate", g))
    c_new = body.op("Add", body.op("Mul", f_t, c), body.op("Mul", i_t, g_t))
    return body.op("Mul", o_t, body.op("Tanh", c_new)), c_new


def any_left(body: Graph, next_word: str, lengths: str) -> str:
    """Whether any row still has a word to read, a scalar: the loop's condition."""
    left = body.op("Cast", body.op("Less", next_word, lengths), to=TensorProto.INT64)
    return body.op("Cast", body.op("ReduceMax", left, keepdims=0), to=TensorProto.BOOL)


@dataclass(frozen=True)
class History:
    """Which iteration's state holds where; iterations count from 1, and 0 is the state carried into the segment.

    Attributes:
        skipped: bool `[rows, length]`.
        after: the iteration whose state holds after each word, int64 `[rows, length]`.
        before: likewise, before each word.
    """

    skipped: str
    after: str
    before: str


def history(graph: Graph, token_ids: str, words_read: str) -> History:
    """From the words that the iterations read, int64 `[iterations, rows]`."""
    found = graph.op("Less", words_read, padded_length(graph, token_ids))  # [iterations, rows]
    kept = _kept(graph, token_ids, words_read)
    after = _iteration_after(graph, found, kept)
    first = graph.op("Mul", graph.slice(after, 0, 1, axis=1), graph.scalar(0))
    before = graph.op("Concat", first, graph.slice(after, 0, -1, axis=1), axis=1)
    return History(graph.op("Equal", kept, graph.scalar(0)), after, before)


def logits_after(graph: Graph, classifier: nn.Linear, first: str, rest: str, when: History) -> str:
    """Class logits after every word, `[rows, length, classes]`, from h as in `pick`; one product per iteration."""
    states = _join(graph, first, rest)
    logits = linear(graph, states, "classifier", array(classifier.weight), array(classifier.bias))
    return pick_from(graph, logits, when.after)


def pick(graph: Graph, first: str, rest: str, iteration: str) -> str:
    """What holds at every word.

    Args:
        graph: the graph to add to.
        first: the value carried into the segment, `[rows, …]`.
        rest: the value after each iteration, `[iterations, rows, …]`.
        iteration: `History.after` or `History.before`.

    Returns:
        `[rows, length, …]`.
    """
    return pick_from(graph, _join(graph, first, rest), iteration)


def _join(graph: Graph, first: str, rest: str) -> str:
    return graph.op("Concat", graph.op("Unsqueeze", first, graph.integers(0)), rest, axis=0)


def pick_from(graph: Graph, values: str, iteration: str) -> str:
    """`[iterations + 1, rows, features]` and `[rows, length]` -> `[rows, length, features]`."""
    by_row = graph.op("Transpose", values, perm=[1, 0, 2])
    return graph.op("GatherND", by_row, graph.op("Unsqueeze", iteration, graph.integers(2)), batch_dims=1)


def _kept(graph: Graph, token_ids: str, words_read: str) -> str:
    """1 at words that were read, else 0: int64 `[rows, length]`."""
    shape = graph.op("Add", graph.op("Shape", token_ids), graph.integers(0, 1))  # a last column for "none"
    zeros = graph.op("Expand", graph.scalar(0), shape)
    index = graph.op("Transpose", words_read, perm=[1, 0])  # [rows, iterations]
    ones = graph.op("Expand", graph.scalar(1), graph.op("Shape", index))
    marked = graph.op("ScatterElements", zeros, index, ones, axis=1)
    return graph.slice(marked, 0, -1, axis=1)


def _iteration_after(graph: Graph, found: str, kept: str) -> str:
    """The number of the iteration whose state holds after each word.

    Iterations that read nothing are passed over: a table per row maps the count of words read so far to the
    iteration that read the last of them.
    """
    found_rows = graph.op(
        "Cast", graph.op("Transpose", found, perm=[1, 0]), to=TensorProto.INT64
    )  # [rows, iterations]
    count = graph.op("CumSum", found_rows, graph.scalar(1))
    iterations = graph.op("Shape", found_rows, start=1, end=2)
    spare = graph.op("Add", iterations, graph.scalar(1))  # where iterations that read nothing write
    position = graph.op("Where", graph.op("Cast", found_rows, to=TensorProto.BOOL), count, spare)
    numbers = graph.op(
        "CumSum", graph.op("Expand", graph.scalar(1), graph.op("Shape", found_rows)), graph.scalar(1)
    )
    rows = graph.op("Shape", found_rows, start=0, end=1)
    size = graph.op("Concat", rows, graph.op("Add", iterations, graph.scalar(2)), axis=0)
    table = graph.op("ScatterElements", graph.op("Expand", graph.scalar(0), size), position, numbers, axis=1)
    return graph.op("GatherElements", table, graph.op("CumSum", kept, graph.scalar(1)), axis=1)
