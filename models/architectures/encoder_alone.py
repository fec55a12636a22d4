"""The pretrained encoder alone: the features of its first token, or the mean over all, to a linear classifier.

The first token is [CLS], which BERT was trained to sum the text up in (equation 3 of the HL-MTGRU paper, its ALBERT
baseline). The mean is over all tokens, [CLS] and [SEP] too.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from models.architectures.base import (
    Answer,
    Architecture,
    ModelConfig,
    Trace,
    WordSource,
    at_end,
    init_uniform,
    source_shape,
)
from models.architectures.recurrent import running_mean


class EncoderAloneConfig(ModelConfig):
    """Options of the encoder alone."""

    architecture: Literal["encoder"] = "encoder"
    pooling: Literal["first", "mean"] = "first"


class EncoderAlone(Architecture):
    """Pooled features and a linear classifier."""

    def __init__(self, config: EncoderAloneConfig, embedding: WordSource, classes: int) -> None:
        super().__init__(embedding, classes, source_shape(embedding)[1], config)
        self.pooling = config.pooling
        init_uniform(self.classifier, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        return Answer(self.classifier(self.dropout(at_end(self._pooled(token_ids, lengths), lengths))))

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`: the answer at every token, or that of the mean so far. Not causal."""
        return Trace(self.classifier(self.dropout(self._pooled(token_ids, lengths))))

    def _pooled(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """`(batch, time, features)`."""
        x = self.embed(token_ids, lengths)
        return running_mean(x) if self.pooling == "mean" else x[:, :1].expand_as(x)
