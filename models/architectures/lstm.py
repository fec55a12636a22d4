"""The standard LSTM: the model that every paper compares with.

    i_t = σ(W_i x_t + U_i h_{t-1} + b_i)        f_t = σ(W_f x_t + U_f h_{t-1} + b_f)
    o_t = σ(W_o x_t + U_o h_{t-1} + b_o)        g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)
    c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t             h_t = o_t ⊙ tanh(c_t)

Liu et al. (EMNLP 2015), equations 2-7 without the cell-to-gate weights V, which are an option (`peephole.py`);
classifier on h_T, or on both directions' ends (BLSTM).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from torch import nn

from models.architectures.base import WordSource, source_shape
from models.architectures.peephole import OutputGateCell, PeepholeLSTM
from models.architectures.recurrent import Recurrent, RecurrentConfig
from models.errors import ConfigError


class LSTMConfig(RecurrentConfig):
    """Options of the standard LSTM."""

    architecture: Literal["lstm"] = "lstm"
    cell_to_gate: Literal["full", "diagonal", "none"] = "none"  # V of equations 2-4
    output_gate_cell: OutputGateCell = "new"  # c_t of equation 4, or c_{t-1} of equation 10


class LSTM(Recurrent):
    """One LSTM layer, read out at the last word.

    Raises:
        ConfigError: an output gate that is to see the previous cell, without cell-to-gate weights.
    """

    def __init__(self, config: LSTMConfig, embedding: WordSource, classes: int) -> None:
        if config.cell_to_gate == "none" and config.output_gate_cell != "new":
            raise ConfigError(
                f"output_gate_cell = '{config.output_gate_cell}' expects cell_to_gate 'full' or 'diagonal', "
                "found 'none': no gate sees a cell"
            )
        width, hidden = source_shape(embedding)[1], config.hidden
        make_cell = (
            partial(nn.LSTM, width, hidden, batch_first=True)
            if config.cell_to_gate == "none"
            else partial(PeepholeLSTM, width, hidden, config.cell_to_gate == "full", config.output_gate_cell)
        )
        super().__init__(config, embedding, classes, make_cell)
