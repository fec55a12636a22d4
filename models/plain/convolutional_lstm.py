"""C-LSTM (Zhou et al., 2015): the plain LSTM over the features of the window that ends at each word.

Weights: those of `models.plain.lstm`, and the filters `cnn_w_1` `(filters, width, input)`, `cnn_b_1`.
"""

from __future__ import annotations

from torch import Tensor

from models.plain import lstm
from models.plain.gates import Weights
from models.plain.windows import filter_features


def read(weights: Weights, words: Tensor, width: int) -> lstm.Reading:
    """Read a document `(time, input)`."""
    return lstm.read(weights, filter_features(weights, words, 1, width))
