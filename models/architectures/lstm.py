"""The standard LSTM: the model that every paper compares with.

    i_t = σ(W_i x_t + U_i h_{t-1} + b_i)        f_t = σ(W_f x_t + U_f h_{t-1} + b_f)
    o_t = σ(W_o x_t + U_o h_{t-1} + b_o)        g_t = tanh(W_g x_t + U_g h_{t-1} + b_g)
    c_t = f_t ⊙ c_{t-1} + i_t ⊙ g_t             h_t = o_t ⊙ tanh(c_t)

Liu et al. (EMNLP 2015), equations 2-7 without the cell-to-gate matrices V; classifier on h_T.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from models.architectures.base import Answer, Architecture, ModelConfig, Trace, at_end, init_uniform


class LSTMConfig(ModelConfig):
    """Options of the standard LSTM."""

    architecture: Literal["lstm"] = "lstm"
    hidden: int = Field(100, ge=1)


class LSTM(Architecture):
    """One LSTM layer, read out at the last word."""

    def __init__(self, config: LSTMConfig, embedding: Tensor, classes: int) -> None:
        super().__init__(embedding, classes, config.hidden, config)
        self.cell = nn.LSTM(embedding.shape[1], config.hidden, batch_first=True)
        init_uniform(self.cell, config.init_range)
        init_uniform(self.classifier, config.init_range)

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        """See `Architecture.forward`."""
        states, _ = self.cell(self.embed(token_ids))  # (batch, time, hidden)
        return Answer(self.classifier(self.dropout(at_end(states, lengths))))

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        """See `Architecture.trace`; causal: step t is the answer for the first t words."""
        states, _ = self.cell(self.embed(token_ids))  # (batch, time, hidden)
        return Trace(self.classifier(self.dropout(states)))
