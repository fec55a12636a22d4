"""Leap-LSTM, one word at a time (Huang et al., IJCAI 2019, equations 3-10).

The parts of its weights: `lstm.*` and `reverse.*` as in `models.plain.lstm`, filters `cnn_w_N` `(filters, N, input)`
with `cnn_b_N`, `h_end`, and the decision's `W_1`, `b_1`, `W_2`, `b_2`, `W_1` over [x_t; h_{t-1}; f_follow(t)]. What a
decision is to do without has columns of zeros there. `W_m`, `b_m` are a ReLU layer before the classifier, if any.

The authors' published code lays the look-ahead out in another way: filters are centred on the current word, and
after the last word there are zeros instead of h_end. `layout` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, part, zero_state
from models.plain.lstm import states, step

Layout = Literal["paper", "reference_code"]


@dataclass(frozen=True)
class LeapReading:
    """A document after every word.

    Attributes:
        h: `(time, hidden)`.
        c: `(time, hidden)`.
        logits: `(time, classes)`.
        probabilities: π, to keep and to skip, `(time, 2)`.
        skip: the share that is skipped, `(time,)`; 0 or 1 where no noise is given.
    """

    h: Tensor
    c: Tensor
    logits: Tensor
    probabilities: Tensor
    skip: Tensor


def read(
    weights: Weights,
    words: Tensor,
    filter_widths: Sequence[int],
    layout: Layout = "paper",
    noise: Tensor | None = None,
    temperature: float = 0.1,
) -> LeapReading:
    """Read a document.

    Args:
        weights: see the module.
        words: `(time, input)`.
        filter_widths: the widths of the filters, in the order of their features.
        layout: of the look-ahead.
        noise: Gumbel noise `(time, 2)`, to blend as in training; None: decide, and a tie keeps.
        temperature: of the blend.
    """
    cell = part(weights, "lstm")
    h = c = zero_state(cell)
    read_so_far = []
    for t, (x, follow) in enumerate(
        zip(words, following(weights, words, filter_widths, layout), strict=True)
    ):
        s = torch.relu(weights["W_1"] @ torch.cat([x, h, follow]) + weights["b_1"])  # (3)
        pi = torch.softmax(weights["W_2"] @ s + weights["b_2"], dim=0)  # (4)
        if noise is None:
            skip = (pi[1] > pi[0]).to(pi.dtype)
        else:
            skip = torch.softmax((torch.log(pi) + noise[t]) / temperature, dim=0)[1]  # (9)
        h_new, c_new = step(cell, x, h, c)
        h, c = (1 - skip) * h_new + skip * h, (1 - skip) * c_new + skip * c  # (5), (10)
        readout = torch.relu(weights["W_m"] @ h + weights["b_m"]) if "W_m" in weights else h
        read_so_far.append((h, c, classify(weights, readout), pi, skip))
    return LeapReading(*(torch.stack(column) for column in zip(*read_so_far, strict=True)))


def following(weights: Weights, words: Tensor, filter_widths: Sequence[int], layout: Layout) -> Tensor:
    """f_follow at every word, `(time, features)`."""
    end = weights["h_end"] if layout == "paper" else torch.zeros_like(weights["h_end"])
    backwards = states(part(weights, "reverse"), words.flip(0))[0].flip(0)
    windows = [_windows(weights, words, width, layout) for width in filter_widths]
    rows = []
    for t in range(len(words)):
        if layout == "paper":
            last = t == len(words) - 1
            rows.append(end if last else torch.cat([backwards[t + 1], *(w[t + 1] for w in windows)]))
        else:
            after = backwards[t + 1] if t + 1 < len(words) else end[: backwards.shape[1]]
            rows.append(torch.cat([after, *(w[t] for w in windows)]))
    return torch.stack(rows)


def _windows(weights: Weights, words: Tensor, width: int, layout: Layout) -> Tensor:
    """The features of one filter width at every word, `(time, filters)`, zeros outside the document."""
    filters, bias = weights[f"cnn_w_{width}"], weights[f"cnn_b_{width}"]
    before = 0 if layout == "paper" else (width - 1) // 2
    padded = torch.cat(
        [words.new_zeros(before, words.shape[1]), words, words.new_zeros(width, words.shape[1])]
    )
    spans = [padded[t : t + width] for t in range(len(words))]
    return torch.stack([torch.relu((filters * span).sum(dim=(1, 2)) + bias) for span in spans])
