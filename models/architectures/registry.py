"""The architectures by name: the one place where a configuration becomes a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field
from torch import Tensor

from models.architectures.bag_of_words import BagOfWords, BagOfWordsConfig
from models.architectures.base import Architecture, ModelConfig
from models.architectures.cifg import CIFG, CIFGConfig
from models.architectures.clstm import CLSTM, CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTM, ConvolutionalLSTMConfig
from models.architectures.leap import LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mode import MODELSTM, DLSTMConfig, MODELSTMConfig, ODELSTMConfig
from models.architectures.mtlstm import MTLSTM, MTLSTMConfig, largest_group_count
from models.architectures.rnn import RNN, RNNConfig
from models.architectures.self_attentive import SelfAttentiveLSTM, SelfAttentiveLSTMConfig
from models.architectures.skim import SkimLSTM, SkimLSTMConfig
from models.architectures.skip import SkipLSTM, SkipLSTMConfig
from models.architectures.text_cnn import TextCNN, TextCNNConfig

AnyModelConfig = Annotated[
    LSTMConfig
    | MTLSTMConfig
    | LeapLSTMConfig
    | SkipLSTMConfig
    | SkimLSTMConfig
    | CIFGConfig
    | CLSTMConfig
    | MODELSTMConfig
    | ODELSTMConfig
    | DLSTMConfig
    | TextCNNConfig
    | ConvolutionalLSTMConfig
    | SelfAttentiveLSTMConfig
    | RNNConfig
    | BagOfWordsConfig,
    Field(discriminator="architecture"),
]

_NETWORKS: Mapping[type[ModelConfig], Callable[..., Architecture]] = {
    LSTMConfig: LSTM,
    MTLSTMConfig: MTLSTM,
    LeapLSTMConfig: LeapLSTM,
    SkipLSTMConfig: SkipLSTM,
    SkimLSTMConfig: SkimLSTM,
    CIFGConfig: CIFG,
    CLSTMConfig: CLSTM,
    MODELSTMConfig: MODELSTM,
    ODELSTMConfig: MODELSTM,
    DLSTMConfig: MODELSTM,
    TextCNNConfig: TextCNN,
    ConvolutionalLSTMConfig: ConvolutionalLSTM,
    SelfAttentiveLSTMConfig: SelfAttentiveLSTM,
    RNNConfig: RNN,
    BagOfWordsConfig: BagOfWords,
}


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
    return _NETWORKS[type(config)](config, embedding, classes)
