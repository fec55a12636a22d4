"""Small networks with random weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.architectures.bag_of_words import BagOfWords
from models.architectures.base import Architecture
from models.architectures.cifg import CIFG
from models.architectures.clstm import CLSTM, CLSTMCell
from models.architectures.convolutional_lstm import ConvolutionalLSTM
from models.architectures.hl_mtgru import HLMTGRU
from models.architectures.jump import LSTMJump
from models.architectures.leap import LeapLSTM
from models.architectures.lstm import LSTM
from models.architectures.mode import MODELSTM
from models.architectures.mtgru import MTGRUCell
from models.architectures.mtlstm import MTLSTM
from models.architectures.peephole import PeepholeLSTM
from models.architectures.recurrent import Recurrent
from models.architectures.registry import AnyModelConfig, build
from models.architectures.rnn import RNN
from models.architectures.self_attentive import SelfAttentiveLSTM
from models.architectures.skim import SkimLSTM
from models.architectures.skip import SkipLSTM
from models.architectures.text_cnn import TextCNN
from models.architectures.windows import WindowModel
from models.plain import (
    bag_of_words,
    bidirectional,
    cifg,
    clstm,
    convolutional_lstm,
    jump,
    leap,
    lstm,
    mtgru,
    mtlstm,
    rnn,
    self_attentive,
    skim,
    skip,
    windows,
)
from models.plain.gates import Weights, classify
from tests.models import plain_weights

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
    model.constrain()
    return model.eval()


def random_batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token ids `(batch, time)`, right-padded, and lengths."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCABULARY, (len(lengths), max(lengths)), generator=random)
    length = torch.tensor(lengths)
    return ids.masked_fill(torch.arange(ids.shape[1]) >= length.unsqueeze(1), 0), length


def plain_logits(model: Architecture, words: Tensor) -> Tensor:
    """Class logits `(time, classes)` of the same network's plain cell, on embedded words `(time, embedding)`."""
    if isinstance(model, Recurrent):
        return _recurrent_logits(model, words)
    if isinstance(model, BagOfWords):
        weights = plain_weights.bag_of_words_weights(model)
        return bag_of_words.read(weights, words, model.pooling, model.activation)
    if isinstance(model, MTLSTM):
        return mtlstm.read(plain_weights.mtlstm_weights(model), words, model.sizes, model.strategy).logits
    if isinstance(model, WindowModel):
        return window_reading(model, words).logits
    if isinstance(model, SelfAttentiveLSTM):
        return self_attentive.read(plain_weights.self_attentive_weights(model), words).logits
    return decided_reading(model, words)[0]


def decided_reading(model: Architecture, words: Tensor) -> tuple[Tensor, Tensor]:
    """Class logits `(time, classes)`, and the words that are skipped or skimmed, bool `(time,)`."""
    if isinstance(model, SkipLSTM):
        skipping = skip.read(plain_weights.skip_weights(model), words)
        return skipping.logits, skipping.update == 0
    if isinstance(model, SkimLSTM):
        skimming = skim.read(plain_weights.skim_weights(model), words)
        return skimming.logits, skimming.shares[:, 1] == 1
    if isinstance(model, LSTMJump):
        jumping = jump.read(plain_weights.jump_weights(model), words, model.config.run, model.config.jumps)
        return jumping.logits, ~jumping.read
    assert isinstance(model, LeapLSTM)
    leaping = leap_reading(model, words)
    return leaping.logits, leaping.skip == 1


def leap_reading(model: LeapLSTM, words: Tensor) -> leap.LeapReading:
    return leap.read(
        plain_weights.leap_weights(model), words, model.config.filter_widths, model.config.layout
    )


def window_reading(model: WindowModel, words: Tensor) -> windows.WindowReading:
    if isinstance(model, MODELSTM):
        return windows.read_mode(plain_weights.mode_weights(model), words, model.config.scales)
    assert isinstance(model, TextCNN)
    return windows.read_text_cnn(plain_weights.text_cnn_weights(model), words, model.config.filter_widths)


def _recurrent_logits(model: Recurrent, words: Tensor) -> Tensor:
    if isinstance(model, ConvolutionalLSTM):
        width = model.filters.kernel_size[0]
        return convolutional_lstm.read(plain_weights.convolutional_lstm_weights(model), words, width).logits
    if isinstance(model, HLMTGRU):
        found = plain_weights.recurrent_weights(model)
        return mtgru.read_hierarchical(
            found, words, float(found["fast.tau"]), float(found["slow.tau"])
        ).logits
    weights, states = plain_weights.recurrent_weights(model), _plain_states(model)
    if model.backward_cell is not None:
        return bidirectional.read(weights, words, states).logits
    return classify(weights, states(weights, words))


def _plain_states(model: Recurrent) -> Callable[[Weights, Tensor], Tensor]:
    """Reads words with one direction's weights and gives what the classifier reads."""
    if isinstance(model, RNN):
        return rnn.states
    if isinstance(model, CIFG):
        return lambda weights, words: cifg.states(weights, words)[0]
    if isinstance(model, CLSTM):
        assert isinstance(model.cell, CLSTMCell)
        sizes = model.cell.sizes
        readout: clstm.Readout = "slowest" if model.readout == "last" else "mean_all"
        return lambda weights, words: clstm.read_out(clstm.states(weights, words, sizes)[0], sizes, readout)
    if isinstance(model.cell, MTGRUCell):
        return lambda weights, words: mtgru.layer(weights, words, float(weights["tau"])).h
    assert isinstance(model, LSTM)
    cell = model.cell.output_gate_cell if isinstance(model.cell, PeepholeLSTM) else "new"
    return lambda weights, words: lstm.states(weights, words, cell)[0]
