"""The networks of the table in `tests/architectures.py`, and some of real sizes, with random weights, lowered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from export.lowering.base import Lowered, array
from export.lowering.registry import lower
from export.reading import Arrays, GraphReader
from models.architectures.base import Architecture
from models.architectures.cifg import CIFGConfig
from models.architectures.clstm import CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTMConfig
from models.architectures.gru import GRUConfig
from models.architectures.hl_mtgru import HLMTGRUConfig
from models.architectures.jump import LSTMJumpConfig
from models.architectures.leap import LeapLSTMConfig
from models.architectures.lstm import LSTMConfig
from models.architectures.mode import MODELSTMConfig
from models.architectures.mtgru import MTGRUConfig
from models.architectures.mtlstm import MTLSTMConfig
from models.architectures.registry import AnyModelConfig
from models.architectures.rnn import RNNConfig
from models.architectures.self_attentive import SelfAttentiveLSTMConfig
from models.architectures.skim import SkimLSTMConfig
from models.architectures.skip import SkipLSTMConfig
from models.architectures.text_cnn import TextCNNConfig
from models.architectures.windows import WindowModel
from models.text.storage import Storage, store_vectors
from tests.architectures import VARIANTS
from tests.models.networks import VOCABULARY, random_network

NETWORKS: dict[str, AnyModelConfig] = {
    name: variant.config
    for name, variant in VARIANTS.items()
    if not variant.config.characters  # they are in the table of word vectors before anything is lowered
}
# the sizes of the models that ship: sums are long enough for another order of summation to show
REALISTIC: dict[str, AnyModelConfig] = {
    "lstm_300": LSTMConfig(hidden=300),
    "lstm_full_100": LSTMConfig(hidden=100, cell_to_gate="full"),
    "blstm_120": LSTMConfig(hidden=120, bidirectional=True),
    "cifg_both_120": CIFGConfig(hidden=120, bidirectional=True),
    "clstm_120": CLSTMConfig(),
    "clstm_mean_both_120": CLSTMConfig(readout="mean_all", bidirectional=True),
    "rnn_both_120": RNNConfig(hidden=120, bidirectional=True),
    "gru_256": GRUConfig(),
    "mtgru_both_256": MTGRUConfig(bidirectional=True),
    "hl_mtgru_256": HLMTGRUConfig(),
    "f2s_250": MTLSTMConfig(hidden=250, groups=5),
    "s2f_full_100": MTLSTMConfig(hidden=100, groups=3, strategy="slow_to_fast", cell_to_gate="full"),
    "leap_300": LeapLSTMConfig(hidden=300),
    "skip_300": SkipLSTMConfig(),
    "skim_300": SkimLSTMConfig(),
    "jump_300": LSTMJumpConfig(),
    "mode_300": MODELSTMConfig(),
    "text_cnn_300": TextCNNConfig(),
    "c_lstm_150": ConvolutionalLSTMConfig(),
    "self_attentive_100": SelfAttentiveLSTMConfig(),
}


@dataclass(frozen=True)
class Pair:
    """A network and its graphs."""

    model: Architecture
    lowered: Lowered
    reader: GraphReader

    @property
    def longest(self) -> int:
        """Words of the largest segment."""
        return self.lowered.length_buckets[-1]


@cache
def pair(name: str, storage: Storage = "int8") -> Pair:
    """A named network with random weights, its word vectors rounded as they are stored."""
    if name in NETWORKS:
        model = random_network(NETWORKS[name], seed=1)
    else:
        model = random_network(REALISTIC[name], width=100, seed=1, scale=0.1)
    return lower_pair(model, storage)


def lower_pair(model: Architecture, storage: Storage = "int8") -> Pair:
    stored = store_vectors(array(model.embedding.weight), storage)
    with torch.no_grad():
        model.embedding.weight.copy_(torch.from_numpy(stored.vectors))
    lowered = lower(model, stored)
    return Pair(model, lowered, GraphReader(lowered.passes, lowered.graphs))


def documents(*lengths: int, seed: int = 0) -> list[NDArray[np.int32]]:
    """Random words."""
    random = np.random.default_rng(seed)
    return [random.integers(1, VOCABULARY, length, dtype=np.int32) for length in lengths]


_TOLD = (
    "skipped",
    "keep_probability",
    "forgetting_rates",
    "attention",
    "skimmed",
    "read_probability",
    "half_logits",
)


@torch.inference_mode()
def traced(model: Architecture, document: NDArray[np.int32]) -> Arrays:
    """What the network itself says, in the graphs' words."""
    ids = torch.from_numpy(document.astype(np.int64))[None]
    lengths = torch.tensor([len(document)])
    trace = model.trace(ids, lengths)
    logits = trace.logits[0]
    found: Arrays = {"logits": logits.numpy(), "probabilities": torch.softmax(logits, -1).numpy()}
    for name in _TOLD:
        if (values := getattr(trace, name)) is not None:
            found[name] = values[0].numpy()
    if isinstance(model, WindowModel):
        winners = model.winners(ids, lengths)
        found |= {"last_word": winners.last_word[0].numpy(), "feature_weight": winners.weight[0].numpy()}
    return found
