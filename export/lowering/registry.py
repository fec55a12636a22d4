"""The lowering of each architecture: the one place where a trained network becomes graphs."""

from __future__ import annotations

from export.lowering import bag_of_words, leap, mode, mtlstm, recurrent, text_cnn
from export.lowering.base import Lowered
from models.architectures.bag_of_words import BagOfWords
from models.architectures.base import Architecture
from models.architectures.leap import LeapLSTM
from models.architectures.mode import MODELSTM
from models.architectures.mtlstm import MTLSTM
from models.architectures.recurrent import Recurrent
from models.architectures.text_cnn import TextCNN
from models.text.storage import StoredVectors


def lower(model: Architecture, embedding: StoredVectors) -> Lowered:
    """The graphs of a trained network with its stored word vectors."""
    match model:
        case Recurrent():
            return recurrent.lower(model, embedding)
        case MTLSTM():
            return mtlstm.lower(model, embedding)
        case LeapLSTM():
            return leap.lower(model, embedding)
        case BagOfWords():
            return bag_of_words.lower(model, embedding)
        case MODELSTM():
            return mode.lower(model, embedding)
        case TextCNN():
            return text_cnn.lower(model, embedding)
    raise TypeError(f"no lowering for {type(model).__name__}")
