"""C-LSTM: an LSTM that reads n-gram features in place of words (Zhou et al., 2015), a baseline of the MODE-LSTM paper.

For filters of width S, at every word t:

    x'_t = ReLU(Σ_j F_j x_{t-S+j} + b), j = 1 … S           h_t, c_t = LSTM(x'_t, h_{t-1}, c_{t-1})

classifier on h_T. The paper's windows lie within the text, and its LSTM takes T-S+1 steps. Ours end at every word and
have zero vectors before the text, as in `windows`: step t has read the first t words and no other, so the trace is
causal, and a text shorter than the filters is read like any other. (The CLSTM of `clstm.py` is the cached LSTM.)
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.base import init_uniform
from models.architectures.recurrent import Recurrent, RecurrentConfig
from models.architectures.windows import WindowWords


class ConvolutionalLSTMConfig(RecurrentConfig):
    """Options of C-LSTM; in both directions it would not be the paper's."""

    architecture: Literal["c_lstm"] = "c_lstm"
    bidirectional: Literal[False] = False
    filter_width: WindowWords = 3
    filters: int = Field(150, ge=1)
    hidden: int = Field(150, ge=1)


class ConvolutionalLSTM(Recurrent):
    """Filters of one width, and an LSTM layer over what they find."""

    def __init__(self, config: ConvolutionalLSTMConfig, embedding: Tensor, classes: int) -> None:
        make_cell = partial(nn.LSTM, config.filters, config.hidden, batch_first=True)
        super().__init__(config, embedding, classes, make_cell)
        self.filters = nn.Conv1d(embedding.shape[1], config.filters, config.filter_width)
        init_uniform(self.filters, config.init_range)

    def read_words(self, token_ids: Tensor, lengths: Tensor) -> Tensor:
        """See `Recurrent.read_words`: the n-gram features, `(batch, time, filters)`."""
        words = self.embed(token_ids, lengths).transpose(1, 2)  # (batch, embedding, time)
        before = self.filters.kernel_size[0] - 1
        return functional.relu(self.filters(functional.pad(words, (before, 0)))).transpose(1, 2)
