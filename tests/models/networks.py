"""Small networks with random weights."""

from __future__ import annotations

import torch
from torch import Tensor

from models.architectures.base import Architecture
from models.architectures.leap import LeapLSTM
from models.architectures.lstm import LSTM
from models.architectures.mode import MODELSTM
from models.architectures.mtlstm import MTLSTM
from models.architectures.registry import AnyModelConfig, build
from models.architectures.text_cnn import TextCNN
from models.plain import convert, leap, lstm, mtlstm, windows

VOCABULARY = 50


def random_network(
    config: AnyModelConfig, classes: int = 3, width: int = 6, seed: int = 0, scale: float = 0.5
) -> Architecture:
    """A network in evaluation mode whose every weight, biases too, is drawn from N(0, scale²)."""
    random = torch.Generator().manual_seed(seed)
    table = torch.randn(VOCABULARY, width, generator=random)
    table[0] = 0
    model = build(config, table, classes)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "embedding.weight":
                parameter.copy_(scale * torch.randn(parameter.shape, generator=random))
    return model.eval()


def random_batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids `(batch, time)`, right-padded, and lengths."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCABULARY, (len(lengths), max(lengths)), generator=random)
    length = torch.tensor(lengths)
    return ids.masked_fill(torch.arange(ids.shape[1]) >= length.unsqueeze(1), 0), length


def plain_reading(
    model: Architecture, words: Tensor
) -> lstm.Reading | leap.LeapReading | windows.WindowReading:
    """The same network's plain cell on embedded words `(time, embedding)`."""
    if isinstance(model, LSTM):
        return lstm.read(convert.lstm_weights(model), words)
    if isinstance(model, MTLSTM):
        return mtlstm.read(convert.mtlstm_weights(model), words, model.sizes, model.strategy)
    if isinstance(model, MODELSTM):
        return windows.read_mode(convert.mode_weights(model), words, model.config.scales)
    if isinstance(model, TextCNN):
        return windows.read_text_cnn(convert.text_cnn_weights(model), words, model.config.filter_widths)
    assert isinstance(model, LeapLSTM)
    return leap.read(convert.leap_weights(model), words, model.config.filter_widths)
