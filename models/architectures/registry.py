"""The architectures by name: the one place where a configuration becomes a network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from models.architectures.base import Architecture
from models.architectures.cifg import CIFG, CIFGConfig
from models.architectures.clstm import CLSTM, CLSTMConfig
from models.architectures.leap import LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mtlstm import MTLSTM, MTLSTMConfig, largest_group_count

AnyModelConfig = Annotated[
    LSTMConfig | MTLSTMConfig | LeapLSTMConfig | CIFGConfig | CLSTMConfig, Field(discriminator="architecture")
]


def resolve(config: AnyModelConfig, mean_length: float) -> AnyModelConfig:
    """Fill in what depends on the data: MT-LSTM's group count, by equation 16 of its paper."""
    if isinstance(config, MTLSTMConfig) and config.groups == "auto":
        groups = min(largest_group_count(mean_length), config.hidden)
        return config.model_copy(update={"groups": groups})
    return config


def build(config: AnyModelConfig, embedding: Tensor, classes: int) -> Architecture:
    """The network of a configuration, with its initial word vectors `(vocabulary, embedding)`.

    Raises:
        ConfigError: sizes that do not go together.
    """
    match config:
        case LSTMConfig():
            return LSTM(config, embedding, classes)
        case MTLSTMConfig():
            return MTLSTM(config, embedding, classes)
        case LeapLSTMConfig():
            return LeapLSTM(config, embedding, classes)
        case CIFGConfig():
            return CIFG(config, embedding, classes)
        case CLSTMConfig():
            return CLSTM(config, embedding, classes)
