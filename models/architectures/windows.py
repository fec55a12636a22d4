"""What models of sliding windows share: the n-gram features at each word, pooled over the document.

A window of S words ends at every word t and covers t-S+1 … t, with zero vectors where that reaches before the text.
Its features are pooled over the real words of the document and classified by a small network:

    F = max_t features(t)          logits = W_y ReLU(W_m F + b_m) + b_y

Pooled only over words up to t, the same gives the answer for the first t words, so the trace is causal.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import Answer, Architecture, ModelConfig, Trace, WordSource

_LONGEST_WINDOW = 64  # words; the exported graph holds every step of a window
WindowWords = Annotated[int, Field(ge=1, le=_LONGEST_WINDOW)]


class WindowConfig(ModelConfig):
    """Options that models of windows share; the defaults are those of the MODE-LSTM paper."""

    embedding_dropout: float = Field(0.2, ge=0, lt=1)  # on the words; `dropout` is on the ReLU layer
    mlp: int = Field(150, ge=1)  # units of the ReLU layer between the pooled features and the classifier
    classifier_decay: float = Field(1e-3, ge=0)  # L2 on W_y, added to the loss


@dataclass(frozen=True)
class Winners:
    """The windows that won the pooling.

    Attributes:
        last_word: int64 `(batch, features)`, where each feature's window ends, from 0; of equal ones the first.
        weight: `(batch, features)`, what each feature adds to the winning class's logit, over the mean of all
            classes: gradient times feature. The biases add the rest.
    """

    last_word: Tensor
    weight: Tensor


class WindowModel(Architecture):
    """Pools features of windows.

    Args:
        config: the shared options.
        embedding: as for `Architecture`.
        classes: as for `Architecture`.
        windows: words and features of each width, in the order of the features.
    """

    def __init__(
        self, config: WindowConfig, embedding: WordSource, classes: int, windows: list[tuple[int, int]]
    ) -> None:
        super().__init__(embedding, classes, config.mlp, config)
        self.windows = windows
        self.mlp = nn.Linear(sum(features for _, features in windows), config.mlp)
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.classifier_decay = config.classifier_decay

    def embed(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """See `Architecture.embed`; these models drop out an encoder's features too."""
        embedded: Tensor = self.embedding_dropout(self.word_features(token_ids, lengths))
        return embedded

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Features of the windows that end at each word.

        Args:
            x: `(batch, width - 1 + time, embedding)` with the widest window's width; zeros before the text.

        Returns:
            `(batch, time, features)`.
        """

    def regularizer(self) -> Tensor:
        """What the model adds to the loss, a scalar."""
        return self.classifier_decay * self.classifier.weight.square().sum()

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        pooled = self._real_features(token_ids, lengths).amax(dim=1)  # (batch, features)
        return Answer(self._classify(pooled), self.regularizer())

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal: a running maximum of windows that end at or before the word."""
        running = self._real_features(token_ids, lengths).cummax(dim=1).values  # (batch, time, features)
        return Trace(self._classify(running))

    def winners(self, token_ids: Tensor, lengths: Tensor) -> Winners:
        """The windows that decided; arguments as for `forward`."""
        pooled, last_word = self._real_features(token_ids, lengths).max(dim=1)
        hidden = functional.relu(self.mlp(pooled))  # (batch, mlp)
        winner = self.classifier(hidden).argmax(dim=-1)
        gradient = self.centred_classifier()[winner] * (hidden > 0) @ self.mlp.weight  # (batch, features)
        return Winners(last_word, gradient * pooled)

    def shortfall(self, token_ids: Tensor, lengths: Tensor, last_word: Tensor) -> Tensor:
        """How far the features of given windows are below the largest, `(batch, features)`; 0 for the winners.

        Args:
            token_ids: as for `forward`.
            lengths: as for `forward`.
            last_word: int64 `(batch, features)`, where each feature's window ends, from 0.
        """
        features = self._real_features(token_ids, lengths)
        return features.amax(dim=1) - features.gather(1, last_word.unsqueeze(1)).squeeze(1)

    def centred_classifier(self) -> Tensor:
        """W_y less its mean over the classes, `(classes, mlp)`: what sets a class apart from the others."""
        weight: Tensor = self.classifier.weight
        return weight - weight.mean(dim=0)

    def _real_features(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """Features `(batch, time, features)`, lower than any other at padding."""
        before = max(words for words, _ in self.windows) - 1
        features = self.features(functional.pad(self.embed(token_ids, lengths), (0, 0, before, 0)))
        padding = torch.arange(token_ids.shape[1], device=lengths.device) >= lengths.unsqueeze(1)
        return features.masked_fill(padding.unsqueeze(-1), torch.finfo(features.dtype).min)

    def _classify(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(functional.relu(self.mlp(pooled))))
        return logits
