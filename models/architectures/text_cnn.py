"""TextCNN: n-gram filters and max-pooling (Kim, EMNLP 2014), as a baseline of the MODE-LSTM paper.

    features(t) = ReLU(Σ_j F_j x_{t-S+j} + b), j = 1 … S

for each filter width S, pooled and classified as in `windows`, with windows that may begin before the text.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import WordSource, init_uniform, source_shape
from models.architectures.windows import WindowConfig, WindowModel, WindowWords


class TextCNNConfig(WindowConfig):
    """Options of TextCNN."""

    architecture: Literal["text_cnn"] = "text_cnn"
    filter_widths: Annotated[tuple[WindowWords, ...], Field(min_length=1)] = (3, 4, 5)
    filters: int = Field(100, ge=1)  # per width


class TextCNN(WindowModel):
    """Filters of several widths."""

    def __init__(self, config: TextCNNConfig, embedding: WordSource, classes: int) -> None:
        widths = config.filter_widths
        super().__init__(config, embedding, classes, [(width, config.filters) for width in widths])
        self.config = config
        self.filters = nn.ModuleList(
            nn.Conv1d(source_shape(embedding)[1], config.filters, width) for width in widths
        )
        for part in (self.filters, self.mlp, self.classifier):
            init_uniform(part, config.init_range)

    def features(self, x: Tensor) -> Tensor:
        """See `WindowModel.features`."""
        widths = self.config.filter_widths
        channels = x.transpose(1, 2)  # (batch, embedding, width - 1 + time)
        found = [
            functional.relu(conv(channels[:, :, max(widths) - width :]))
            for conv, width in zip(self.filters, widths, strict=True)
        ]  # each (batch, filters, time)
        return torch.cat(found, dim=1).transpose(1, 2)
