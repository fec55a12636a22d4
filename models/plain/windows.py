"""MODE-LSTM and TextCNN, one window at a time (Ma et al., EMNLP 2020, equations 4-12; Kim, EMNLP 2014).

A window ends at each word and is read from its first to its last word, zero vectors standing where it begins before
the text. Weights of MODE-LSTM's scale n, from 1: `scale_n.W` `(K, 4 p, p)` with rows in the order f, i, o, g, and
`scale_n.U_f`, `scale_n.b_f` … with state k in rows k p … (k + 1) p - 1. Of TextCNN's width n: `cnn_w_n`
`(filters, width, input)`, `cnn_b_n`. Both: the layer `W_m`, `b_m` and the classifier `W_y`, `b_y`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.plain.gates import Weights, classify, part


@dataclass(frozen=True)
class WindowReading:
    """A document after every word.

    Attributes:
        features: of the window that ends there, `(time, features)`.
        pooled: the largest so far, `(time, features)`.
        logits: `(time, classes)`.
    """

    features: Tensor
    pooled: Tensor
    logits: Tensor

    @property
    def last_words(self) -> Tensor:
        """Where the window that won each feature ends, from 0, of equal ones the first: int64 `(features,)`."""
        best = self.features == self.pooled[-1]
        return torch.stack([column.nonzero()[0, 0] for column in best.unbind(1)])


def read_mode(weights: Weights, words: Tensor, scales: Sequence[int]) -> WindowReading:
    """Read a document `(time, input)` with MODE-LSTM."""
    columns = []
    for n, scale in enumerate(scales, start=1):
        small = part(weights, f"scale_{n}")
        columns.append(torch.stack([_small_states(small, window) for window in _windows(words, scale)]))
    return _pool(weights, torch.cat(columns, dim=1))


def read_text_cnn(weights: Weights, words: Tensor, widths: Sequence[int]) -> WindowReading:
    """Read a document `(time, input)` with TextCNN."""
    columns = [filter_features(weights, words, n, width) for n, width in enumerate(widths, start=1)]
    return _pool(weights, torch.cat(columns, dim=1))


def filter_features(weights: Weights, words: Tensor, n: int, width: int) -> Tensor:
    """What the filters `cnn_w_n` find in the window that ends at each word, `(time, filters)`."""
    filters, bias = weights[f"cnn_w_{n}"], weights[f"cnn_b_{n}"]
    spans = [(filters * window).sum(dim=(1, 2)) + bias for window in _windows(words, width)]
    return torch.relu(torch.stack(spans))


def _windows(words: Tensor, width: int) -> list[Tensor]:
    """The window that ends at each word, `(width, input)`."""
    padded = torch.cat([words.new_zeros(width - 1, words.shape[1]), words])
    return [padded[t : t + width] for t in range(len(words))]


def _small_states(weights: Weights, window: Tensor) -> Tensor:
    """All h^k after the window's last word, `(K p,)`."""
    found = []
    for k, w in enumerate(weights["W"]):
        p = w.shape[1]
        units = slice(k * p, (k + 1) * p)
        h = c = w.new_zeros(p)
        for x in window:
            f, i, o, g = (
                w[n * p : (n + 1) * p] @ h + _input(weights, gate, units, x) for n, gate in enumerate("fiog")
            )  # (4)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (5)
            h = torch.sigmoid(o) * torch.tanh(c)  # (6)
        found.append(h)
    return torch.cat(found)


def _input(weights: Weights, gate: str, units: slice, x: Tensor) -> Tensor:
    product = weights[f"U_{gate}"][units] @ x
    return product + weights[f"b_{gate}"][units] if f"b_{gate}" in weights else product


def _pool(weights: Weights, features: Tensor) -> WindowReading:
    pooled = torch.stack([features[: t + 1].amax(dim=0) for t in range(len(features))])
    hidden = torch.relu(pooled @ weights["W_m"].T + weights["b_m"])
    return WindowReading(features, pooled, classify(weights, hidden))
