"""The loop of the models whose state after a word tells how far the next word to read is: Skip LSTM, LSTM-Jump.

An iteration reads one word of each row and goes on by that row's distance, so it does no work for what lies between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from export.graph import Graph
from export.lowering.words_read import Text, any_left, step
from models.architectures.reading_cell import ReadingCell


@dataclass(frozen=True)
class Carried:
    """A value per row that the loop keeps besides h and c, with its value before the first iteration, `[rows]`."""

    name: str
    dtype: str
    value: str


@dataclass(frozen=True)
class Reading:
    """What such a loop gives.

    Attributes:
        h: in the end, `[rows, hidden]`.
        c: likewise.
        next_word: in the end, the next word to read, counted from the segment's first, int64 `[rows]`.
        carried: in the end, `[rows]` each.
        words_read: the word of each iteration, the padded length where it read none, int64 `[iterations, rows]`.
        h_after: h after each iteration, `[iterations, rows, hidden]`.
        carried_after: the carried values after each iteration, `[iterations, rows]` each.
    """

    h: str
    c: str
    next_word: str
    carried: list[str]
    words_read: str
    h_after: str
    carried_after: list[str]


# from the body, the word read `[rows]`, h and c after it `[rows, hidden]` and the carried values before it:
# the distance to the next word, int64 `[rows]` and at least 1, and the carried values after it
Advance = Callable[[Graph, str, tuple[str, str], list[str]], tuple[str, list[str]]]


def read_words(
    graph: Graph,
    cell: ReadingCell,
    words: Text,
    before: tuple[str, str, str],
    carried: Sequence[Carried],
    advance: Advance,
) -> Reading:
    """Add the loop.

    Args:
        graph: the graph to add to.
        cell: reads a word.
        words: `[rows · length, embedding]`.
        before: the first word to read, int64 `[rows]`; h and c, `[rows, hidden]`.
        carried: what else is kept; left as it is in a row that is done.
        advance: how the reading goes on, see `Advance`.
    """
    hidden = cell.recurrent.in_features
    body = Graph("reading")
    body.input("reading_iteration", "int64", [])
    body.input("reading_condition", "bool", [])
    word = body.input("reading_word", "int64", ["rows"])
    h, c = (body.input(f"reading_{name}", "float32", ["rows", hidden]) for name in "hc")
    kept = [body.input(f"reading_{one.name}", one.dtype, ["rows"]) for one in carried]

    reads = body.op("Less", word, words.lengths)
    h_new, c_new = step(body, cell, words.read(body, word), h, c)
    distance, kept_new = advance(body, word, (h_new, c_new), kept)
    take = body.op("Unsqueeze", reads, body.integers(1))
    h_next, c_next = body.op("Where", take, h_new, h), body.op("Where", take, c_new, c)
    kept_next = [body.op("Where", reads, new, old) for new, old in zip(kept_new, kept, strict=True)]
    next_word = body.op("Where", reads, body.op("Add", word, distance), word)

    body.output("reading_more", any_left(body, next_word, words.lengths), "bool", [])
    body.output("reading_next_word", next_word, "int64", ["rows"])
    for name, value in (("h_next", h_next), ("c_next", c_next)):
        body.output(f"reading_{name}", value, "float32", ["rows", hidden])
    for one, value in zip(carried, kept_next, strict=True):
        body.output(f"reading_{one.name}_next", value, one.dtype, ["rows"])
    body.output("reading_read", body.op("Where", reads, word, words.padded), "int64", ["rows"])
    body.output("reading_h_after", h_next, "float32", ["rows", hidden])
    for one, value in zip(carried, kept_next, strict=True):
        body.output(f"reading_{one.name}_after", value, one.dtype, ["rows"])

    inputs = ["", graph.scalar(True), *before, *(one.value for one in carried)]  # at least one iteration
    ends = graph.ops("Loop", inputs, 5 + 2 * len(carried), body=body.body())
    count = len(carried)
    return Reading(
        ends[1], ends[2], ends[0], ends[3 : 3 + count], ends[3 + count], ends[4 + count], ends[5 + count :]
    )
