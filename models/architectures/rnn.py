"""The simple recurrent network (Elman, 1991), a baseline of Xu et al. (EMNLP 2016).

    h_t = tanh(W x_t + U h_{t-1} + b)

Classifier on h_T, or on both directions' ends.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from torch import nn

from models.architectures.base import WordSource, source_shape
from models.architectures.recurrent import Recurrent, RecurrentConfig


class RNNConfig(RecurrentConfig):
    """Options of the simple recurrent network."""

    architecture: Literal["rnn"] = "rnn"


class RNN(Recurrent):
    """One recurrent layer, read out at the last word."""

    def __init__(self, config: RNNConfig, embedding: WordSource, classes: int) -> None:
        make_cell = partial(nn.RNN, source_shape(embedding)[1], config.hidden, batch_first=True)
        super().__init__(config, embedding, classes, make_cell)
