"""The lowering of each architecture: the one place where a trained network becomes graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from export.lowering import (
    bag_of_words,
    encoder,
    encoder_alone,
    jump,
    leap,
    mode,
    mtlstm,
    recurrent,
    self_attentive,
    skim,
    skip,
    text_cnn,
)
from export.lowering.base import Lowered, WordFeatures
from models.architectures.bag_of_words import BagOfWords
from models.architectures.base import Architecture
from models.architectures.encoder_alone import EncoderAlone
from models.architectures.jump import LSTMJump
from models.architectures.leap import LeapLSTM
from models.architectures.mode import MODELSTM
from models.architectures.mtlstm import MTLSTM
from models.architectures.recurrent import Recurrent
from models.architectures.self_attentive import SelfAttentiveLSTM
from models.architectures.skim import SkimLSTM
from models.architectures.skip import SkipLSTM
from models.architectures.text_cnn import TextCNN
from models.text.storage import StoredVectors

_LOWERINGS: Mapping[type[Architecture], Callable[..., Lowered]] = {
    Recurrent: recurrent.lower,
    MTLSTM: mtlstm.lower,
    LeapLSTM: leap.lower,
    SkipLSTM: skip.lower,
    SkimLSTM: skim.lower,
    LSTMJump: jump.lower,
    BagOfWords: bag_of_words.lower,
    MODELSTM: mode.lower,
    TextCNN: text_cnn.lower,
    SelfAttentiveLSTM: self_attentive.lower,
    EncoderAlone: encoder_alone.lower,
}


def lower(model: Architecture, embedding: StoredVectors | None = None) -> Lowered:
    """The graphs of a trained network with its stored word vectors, or with its encoder."""
    if embedding is None:
        return encoder.lower(model, _lower_reading)
    return _lower_reading(model, embedding)


def _lower_reading(model: Architecture, source: WordFeatures) -> Lowered:
    for network, lower_network in _LOWERINGS.items():
        if isinstance(model, network):
            return lower_network(model, source)
    raise TypeError(f"no lowering for {type(model).__name__}")
