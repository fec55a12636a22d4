"""The bag of words: word vectors, pooled, to a linear classifier; what order is worth is judged by it.

NBOW, a baseline of Liu et al. (EMNLP 2015), takes the sum of the vectors and a non-linearity (`pooling = "sum"`,
`activation = "tanh"`). So does the baseline of Xu et al. (EMNLP 2016, section 6.3) that their Table 2 calls CBOW. Here
CBOW is what the name stands for elsewhere, the continuous bag of words: the mean of the vectors.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from models.architectures.base import Answer, Architecture, ModelConfig, Trace, at_end, init_uniform
from models.architectures.recurrent import running_mean


class BagOfWordsConfig(ModelConfig):
    """Options of the bag of words; the defaults are CBOW."""

    architecture: Literal["bag_of_words"] = "bag_of_words"
    pooling: Literal["mean", "sum"] = "mean"
    activation: Literal["none", "tanh"] = "none"


class BagOfWords(Architecture):
    """Pooled word vectors and a linear classifier."""

    def __init__(self, config: BagOfWordsConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, embedding.shape[1], config)
        self.pooling, self.activation = config.pooling, config.activation
        init_uniform(self.classifier, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        return Answer(self.classifier(self.dropout(at_end(self._pooled(token_ids, lengths), lengths))))

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal: step t is the answer for the first t words."""
        return Trace(self.classifier(self.dropout(self._pooled(token_ids, lengths))))

    def _pooled(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """The pooled vectors of the words up to each, `(batch, time, embedding)`."""
        x = self.embed(token_ids, lengths)
        pooled = running_mean(x) if self.pooling == "mean" else x.cumsum(dim=1)
        return torch.tanh(pooled) if self.activation == "tanh" else pooled
