"""What every architecture offers to training and export.

An architecture maps the features of words, vectors from a table or a pretrained encoder's, to class logits. The
training loop knows only `Architecture`: it asks for the logits at the end of each document and for whatever penalty
the architecture adds to the loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from models.text.encoder import PretrainedEncoder
from models.text.storage import Storage
from models.text.tokenizer import PADDING_ID

WordSource = Tensor | PretrainedEncoder  # initial word vectors `(vocabulary, embedding)`, or an encoder


class ModelConfig(BaseModel):
    """Options that all architectures share."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    embedding_size: int = Field(100, ge=1)  # used where no word vectors are given
    tune_embedding: bool = True  # the word vectors, or the encoder in their place
    embedding_storage: Storage = "int8"  # how the bundle keeps the word vectors
    dropout: float = Field(0.5, ge=0, lt=1)  # on the embedded words and on the state that is read out
    # features of a CNN over each word's characters, beside its vector (the MODE-LSTM paper: 50); 0: none
    characters: int = Field(0, ge=0)
    init_range: float = Field(0.1, gt=0)  # weights start in U[-init_range, init_range]


@dataclass(frozen=True)
class Answer:
    """What training needs of a batch.

    Attributes:
        logits: `(batch, classes)`, after the last real word of each document.
        penalty: scalar added to the cross-entropy, or None.
        reward_loss: gives, from the labels `(batch,)`, a scalar that training adds to the cross-entropy as well, for
            decisions that are taught by whether the answer is right; None for models without such.
        skip_rate: scalar share of real words skipped (by Skim-LSTM: skimmed), or None for models that read all.
    """

    logits: Tensor
    penalty: Tensor | None = None
    skip_rate: Tensor | None = None
    reward_loss: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Trace:
    """What a model says after every word; values beyond a document's length are undefined.

    Attributes:
        logits: `(batch, time, classes)`.
        keep_probability: `(batch, time)`, or None for models that read all or decide otherwise.
        skipped: bool `(batch, time)`, or None for models that read all.
        decision_margin: `(batch, time)`, how far in probability the decision on each word is from a tie, or None where
            that is the distance of the keep or read probability from one half.
        forgetting_rates: `(batch, time, groups)`, the mean of each memory group, or None for other models.
        attention: `(batch, time, hops)`, of each hop to every word of the whole text, or None for other models.
        skimmed: bool `(batch, time)`, read with the small cell of a model that has two, or None for other models.
        read_probability: `(batch, time)`, to read with the large one, or None for other models.
        half_logits: `(batch, time, 2, classes)`, what fast and slow units add to the logits, or None for other models.
    """

    logits: Tensor
    keep_probability: Tensor | None = None
    skipped: Tensor | None = None
    forgetting_rates: Tensor | None = None
    attention: Tensor | None = None
    decision_margin: Tensor | None = None
    skimmed: Tensor | None = None
    read_probability: Tensor | None = None
    half_logits: Tensor | None = None


class Architecture(nn.Module, ABC):
    """A classifier over word ids.

    Args:
        embedding: `(vocabulary, embedding)`, the initial word vectors; row 0 is padding and stays zero. Or the
            encoder that gives the features of the words in their place.
        classes: the number of classes.
        readout_size: the size of the state that the classifier reads.
        config: the shared options.
    """

    embedding: nn.Embedding  # the word vectors; a model on an encoder has none

    def __init__(self, embedding: WordSource, classes: int, readout_size: int, config: ModelConfig) -> None:
        super().__init__()
        self.encoder = embedding if isinstance(embedding, PretrainedEncoder) else None
        if isinstance(embedding, Tensor):
            self.embedding = nn.Embedding(
                embedding.shape[0], embedding.shape[1], PADDING_ID, _weight=embedding.clone()
            )
        self.vocabulary, self.embedding_size = source_shape(embedding)
        self.tune_embedding = config.tune_embedding
        (self.encoder or self.embedding).requires_grad_(config.tune_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(readout_size, classes)

    def word_features(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Word vectors, or the encoder's features, `(batch, time, embedding)`; arguments as for `forward`."""
        features: Tensor = (
            self.embedding(token_ids) if self.encoder is None else self.encoder(token_ids, lengths)
        )
        return features

    def embed(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Word vectors with dropout, or the encoder's features, which have their own, `(batch, time, embedding)`."""
        features = self.word_features(token_ids, lengths)
        if self.encoder is not None:
            return features
        dropped: Tensor = self.dropout(features)
        return dropped

    def freeze_words(self, frozen: bool) -> None:
        """Hold the word vectors or the encoder, or let them learn where the configuration says so."""
        learns = self.tune_embedding and not frozen
        if self.encoder is None:
            self.embedding.weight.requires_grad_(learns)
        else:
            self.encoder.freeze(not learns)

    def own_learning_rates(self) -> dict[nn.Parameter, float]:
        """Parameters that learn at a rate of their own, whatever the training's."""
        return {}

    def constrain(self) -> None:
        """Bring parameters back to where their equations allow them; called after every step of training."""

    @abstractmethod
    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """Read documents to their ends.

        Args:
            token_ids: int64 `(batch, time)`, right-padded with 0.
            lengths: int64 `(batch,)`, real words of each document.
        """

    @abstractmethod
    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """Read documents as served, and answer after every word; arguments as for `forward`."""


def source_shape(source: WordSource) -> tuple[int, int]:
    """How many words are known, and the size of a word's features."""
    if isinstance(source, PretrainedEncoder):
        return source.vocabulary, source.size
    return source.shape[0], source.shape[1]


def init_uniform(module: nn.Module, bound: float) -> None:
    """Draw every matrix of a module from U[-bound, bound] and set its biases to zero."""
    for name, parameter in module.named_parameters():
        if "bias" in name:
            nn.init.zeros_(parameter)
        else:
            nn.init.uniform_(parameter, -bound, bound)


def at_end(states: Tensor, lengths: Tensor) -> Tensor:
    """The state at each document's last word: `(batch, time, hidden)` -> `(batch, hidden)`."""
    return states[torch.arange(len(states), device=states.device), lengths - 1]


def real_words(token_ids: Tensor, lengths: Tensor) -> Tensor:
    """1 at real words and 0 at padding, `(batch, time)`."""
    words = torch.arange(token_ids.shape[1], device=lengths.device)
    return (words < lengths.unsqueeze(1)).to(torch.get_default_dtype())


def reverse_words(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row's real words in reverse order, padding left where it is: `(batch, time, …)`."""
    words = torch.arange(x.shape[1], device=x.device)
    index = torch.where(words < lengths.unsqueeze(1), lengths.unsqueeze(1) - 1 - words, words)
    return x.gather(1, index.unsqueeze(-1).expand_as(x))
