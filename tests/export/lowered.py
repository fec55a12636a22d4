"""Networks of every architecture and option, lowered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from export.lowering.base import Lowered, array
from export.lowering.registry import lower
from export.reading import Arrays, GraphReader
from models.architectures.bag_of_words import BagOfWordsConfig
from models.architectures.base import Architecture
from models.architectures.cifg import CIFGConfig
from models.architectures.clstm import CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTMConfig
from models.architectures.gru import GRUConfig
from models.architectures.hl_mtgru import HLMTGRUConfig
from models.architectures.jump import LSTMJumpConfig
from models.architectures.leap import LeapLSTMConfig
from models.architectures.lstm import LSTMConfig
from models.architectures.mode import DLSTMConfig, MODELSTMConfig, ODELSTMConfig
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
from tests.models.networks import VOCABULARY, random_network

NETWORKS: dict[str, AnyModelConfig] = {
    "lstm": LSTMConfig(hidden=12),
    "lstm_diagonal": LSTMConfig(hidden=7, cell_to_gate="diagonal"),
    "lstm_diagonal_previous": LSTMConfig(hidden=7, cell_to_gate="diagonal", output_gate_cell="previous"),
    "lstm_full": LSTMConfig(hidden=7, cell_to_gate="full"),
    "lstm_full_previous": LSTMConfig(hidden=7, cell_to_gate="full", output_gate_cell="previous"),
    "blstm": LSTMConfig(hidden=9, bidirectional=True),
    "blstm_diagonal": LSTMConfig(hidden=6, cell_to_gate="diagonal", bidirectional=True),
    "blstm_full": LSTMConfig(hidden=6, cell_to_gate="full", bidirectional=True),
    "cifg": CIFGConfig(hidden=9),
    "cifg_both": CIFGConfig(hidden=6, bidirectional=True),
    "clstm": CLSTMConfig(hidden=10),
    "clstm_mean": CLSTMConfig(hidden=7, groups=2, readout="mean_all"),
    "clstm_one_group": CLSTMConfig(hidden=4, groups=1),
    "clstm_both": CLSTMConfig(hidden=9, groups=4, bidirectional=True),
    "clstm_mean_both": CLSTMConfig(hidden=6, readout="mean_all", bidirectional=True),
    "rnn": RNNConfig(hidden=9),
    "rnn_both": RNNConfig(hidden=5, bidirectional=True),
    "gru": GRUConfig(hidden=9),
    "gru_both": GRUConfig(hidden=6, bias=False, bidirectional=True),
    "mtgru": MTGRUConfig(hidden=9, tau=1.3),
    "mtgru_both": MTGRUConfig(hidden=6, bias=True, timescale="inverse", bidirectional=True),
    "hl_mtgru": HLMTGRUConfig(hidden=9, tau_slow=1.5),
    "hl_mtgru_uneven": HLMTGRUConfig(hidden=7, slow_units=2, bias=True, orthogonal=True),
    "cbow": BagOfWordsConfig(),
    "nbow": BagOfWordsConfig(pooling="sum", activation="tanh"),
    "f2s": MTLSTMConfig(hidden=10, groups=3),
    "f2s_full": MTLSTMConfig(hidden=10, groups=3, cell_to_gate="full"),
    "s2f": MTLSTMConfig(hidden=11, groups=4, strategy="slow_to_fast"),
    "s2f_full": MTLSTMConfig(hidden=7, groups=3, strategy="slow_to_fast", cell_to_gate="full"),
    "one_group": MTLSTMConfig(hidden=5, groups=1),
    "one_group_full": MTLSTMConfig(hidden=5, groups=1, cell_to_gate="full"),
    "leap": LeapLSTMConfig(hidden=12, reverse_hidden=4, decision_hidden=6, filters=3),
    "leap_one_width": LeapLSTMConfig(hidden=5, reverse_hidden=1, decision_hidden=3, filter_widths=(1,)),
    "skip": SkipLSTMConfig(hidden=11),
    "skip_trained_start": SkipLSTMConfig(hidden=6, initial_state="trained"),
    "skim": SkimLSTMConfig(hidden=12, small_hidden=3),
    "skim_all_units": SkimLSTMConfig(hidden=4, small_hidden=4),
    "jump": LSTMJumpConfig(hidden=11, run=3, longest_jump=5, jumps=40),
    "jump_once": LSTMJumpConfig(hidden=6, run=20, longest_jump=30, jumps=1),
    "mode": MODELSTMConfig(scales=(3, 5, 11), state_size=4, mlp=7),
    "mode_one_word": MODELSTMConfig(scales=(1,), states=3, state_size=2, mlp=4),
    "ode": ODELSTMConfig(scales=(4,), states=3, state_size=3, mlp=6),
    "dlstm": DLSTMConfig(scales=(6,), state_size=9, mlp=6),
    "text_cnn": TextCNNConfig(filters=4, mlp=6),
    "text_cnn_one_word": TextCNNConfig(filter_widths=(1, 2), filters=3, mlp=4),
    "c_lstm": ConvolutionalLSTMConfig(filter_width=12, filters=5, hidden=7),
    "self_attentive": SelfAttentiveLSTMConfig(hidden=6, attention=5, hops=3, mlp=7),
    "self_attentive_one_hop": SelfAttentiveLSTMConfig(hidden=1, attention=1, hops=1, mlp=1),
    "c_lstm_one_word": ConvolutionalLSTMConfig(filter_width=1, filters=4, hidden=5),
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
    told = (
        "skipped",
        "keep_probability",
        "forgetting_rates",
        "attention",
        "skimmed",
        "read_probability",
        "half_logits",
    )
    for name in told:
        if (values := getattr(trace, name)) is not None:
            found[name] = values[0].numpy()
    if isinstance(model, WindowModel):
        winners = model.winners(ids, lengths)
        found |= {"last_word": winners.last_word[0].numpy(), "feature_weight": winners.weight[0].numpy()}
    return found
