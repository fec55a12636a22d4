"""The architectures by name: the one place where a configuration becomes a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch.nn import functional

from models.architectures.bag_of_words import BagOfWords, BagOfWordsConfig
from models.architectures.base import Architecture, ModelConfig, WordSource
from models.architectures.characters import add_characters
from models.architectures.cifg import CIFG, CIFGConfig
from models.architectures.clstm import CLSTM, CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTM, ConvolutionalLSTMConfig
from models.architectures.encoder_alone import EncoderAlone, EncoderAloneConfig
from models.architectures.gru import GRU, GRUConfig
from models.architectures.hl_mtgru import HLMTGRU, HLMTGRUConfig
from models.architectures.jump import LSTMJump, LSTMJumpConfig
from models.architectures.leap import LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mode import MODELSTM, DLSTMConfig, MODELSTMConfig, ODELSTMConfig
from models.architectures.mtgru import MTGRU, MTGRUConfig
from models.architectures.mtlstm import MOST_GROUPS, MTLSTM, MTLSTMConfig, largest_group_count
from models.architectures.rnn import RNN, RNNConfig
from models.architectures.self_attentive import SelfAttentiveLSTM, SelfAttentiveLSTMConfig
from models.architectures.skim import SkimLSTM, SkimLSTMConfig
from models.architectures.skip import SkipLSTM, SkipLSTMConfig
from models.architectures.text_cnn import TextCNN, TextCNNConfig
from models.errors import ConfigError
from models.text.encoder import PretrainedEncoder
from models.text.spelling import spell

AnyModelConfig = Annotated[
    LSTMConfig
    | MTLSTMConfig
    | LeapLSTMConfig
    | SkipLSTMConfig
    | SkimLSTMConfig
    | LSTMJumpConfig
    | CIFGConfig
    | CLSTMConfig
    | MODELSTMConfig
    | ODELSTMConfig
    | DLSTMConfig
    | TextCNNConfig
    | ConvolutionalLSTMConfig
    | SelfAttentiveLSTMConfig
    | RNNConfig
    | GRUConfig
    | MTGRUConfig
    | HLMTGRUConfig
    | EncoderAloneConfig
    | BagOfWordsConfig,
    Field(discriminator="architecture"),
]

_NETWORKS: Mapping[type[ModelConfig], Callable[..., Architecture]] = {
    LSTMConfig: LSTM,
    MTLSTMConfig: MTLSTM,
    LeapLSTMConfig: LeapLSTM,
    SkipLSTMConfig: SkipLSTM,
    SkimLSTMConfig: SkimLSTM,
    LSTMJumpConfig: LSTMJump,
    CIFGConfig: CIFG,
    CLSTMConfig: CLSTM,
    MODELSTMConfig: MODELSTM,
    ODELSTMConfig: MODELSTM,
    DLSTMConfig: MODELSTM,
    TextCNNConfig: TextCNN,
    ConvolutionalLSTMConfig: ConvolutionalLSTM,
    SelfAttentiveLSTMConfig: SelfAttentiveLSTM,
    RNNConfig: RNN,
    GRUConfig: GRU,
    MTGRUConfig: MTGRU,
    HLMTGRUConfig: HLMTGRU,
    EncoderAloneConfig: EncoderAlone,
    BagOfWordsConfig: BagOfWords,
}

_ON_ENCODER = (
    LSTMConfig,
    CIFGConfig,
    CLSTMConfig,
    RNNConfig,
    GRUConfig,
    MTGRUConfig,
    HLMTGRUConfig,
    MODELSTMConfig,
    ODELSTMConfig,
    DLSTMConfig,
    TextCNNConfig,
    EncoderAloneConfig,
)


def resolve(config: AnyModelConfig, mean_length: float) -> AnyModelConfig:
    """Fill in what depends on the data: MT-LSTM's group count, by equation 16 of its paper."""
    if isinstance(config, MTLSTMConfig) and config.groups == "auto":
        groups = min(largest_group_count(mean_length), config.hidden, MOST_GROUPS)
        return config.model_copy(update={"groups": groups})
    return config


def require_source(config: AnyModelConfig, encoder: bool) -> None:
    """Make sure that an architecture can read word vectors, or an encoder in their place.

    Raises:
        ConfigError: it cannot.
    """
    if isinstance(config, EncoderAloneConfig) and not encoder:
        raise ConfigError("architecture 'encoder' expects a pretrained encoder: set encoder.folder")
    if encoder and not isinstance(config, _ON_ENCODER):
        names = sorted(kind().architecture for kind in _ON_ENCODER)
        raise ConfigError(
            f"architecture '{config.architecture}' reads word vectors; on an encoder expected one of {names}"
        )
    if encoder and config.characters:
        raise ConfigError("characters go beside word vectors; on an encoder expected 0")


def build(
    config: AnyModelConfig, embedding: WordSource, classes: int, vocabulary: Sequence[str] = ()
) -> Architecture:
    """The network of a configuration.

    Args:
        config: its options.
        embedding: `(vocabulary, embedding)`, the initial word vectors, or the encoder in their place.
        classes: the number of classes.
        vocabulary: the words in id order, which a network that reads characters spells.

    Raises:
        ConfigError: sizes that do not go together, characters without a word for each vector, or an architecture
            that cannot read the encoder.
    """
    require_source(config, isinstance(embedding, PretrainedEncoder))
    make_network = _NETWORKS[type(config)]
    if isinstance(embedding, PretrainedEncoder) or not config.characters:
        return make_network(config, embedding, classes)
    if len(vocabulary) != len(embedding):
        raise ConfigError(f"characters expect {len(embedding):,} words to spell, found {len(vocabulary):,}")
    model = make_network(config, functional.pad(embedding, (0, config.characters)), classes)
    add_characters(model, torch.from_numpy(spell(vocabulary)), config.characters, config.init_range)
    return model
