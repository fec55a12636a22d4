"""Every architecture in each of its forms, small: the one table that the tests of every stage go through.

A new architecture, or a new option of one, is a line here; `tests/test_stages.py` takes it from a labelled file to an
explained answer, `tests/export/` compares its graphs with the network, and `test_table_has_every_form` misses it where
the line is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.architectures.bag_of_words import BagOfWordsConfig
from models.architectures.cifg import CIFGConfig
from models.architectures.clstm import CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTMConfig
from models.architectures.gru import GRUConfig
from models.architectures.hl_mtgru import HLMTGRUConfig
from models.architectures.jump import LSTMJumpConfig
from models.architectures.leap import Ablation, LeapLSTMConfig
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


@dataclass(frozen=True)
class Variant:
    """One form of an architecture.

    Attributes:
        config: its options, with sizes that train in a second.
        explained: the fields of `/classify` that its answers have besides the trace.
        causal: whether step t of the trace is the answer for the first t words.
    """

    config: AnyModelConfig
    explained: frozenset[str] = frozenset()
    causal: bool = True


def _causal(config: AnyModelConfig, *explained: str) -> Variant:
    return Variant(config, frozenset(explained))


def _not_causal(config: AnyModelConfig, *explained: str) -> Variant:
    return Variant(config, frozenset(explained), causal=False)


_ABLATIONS_THAT_LOOK_AHEAD: tuple[Ablation, ...] = ("cnn", "reverse_lstm", "state", "word")
VARIANTS: dict[str, Variant] = {
    "lstm": _causal(LSTMConfig(hidden=12)),
    "lstm_diagonal": _causal(LSTMConfig(hidden=7, cell_to_gate="diagonal")),
    "lstm_diagonal_previous": _causal(
        LSTMConfig(hidden=7, cell_to_gate="diagonal", output_gate_cell="previous")
    ),
    "lstm_full": _causal(LSTMConfig(hidden=7, cell_to_gate="full")),
    "lstm_full_previous": _causal(LSTMConfig(hidden=7, cell_to_gate="full", output_gate_cell="previous")),
    "blstm": _not_causal(LSTMConfig(hidden=9, bidirectional=True)),
    "blstm_diagonal": _not_causal(LSTMConfig(hidden=6, cell_to_gate="diagonal", bidirectional=True)),
    "blstm_full": _not_causal(LSTMConfig(hidden=6, cell_to_gate="full", bidirectional=True)),
    "cifg": _causal(CIFGConfig(hidden=9)),
    "cifg_both": _not_causal(CIFGConfig(hidden=6, bidirectional=True)),
    "clstm": _causal(CLSTMConfig(hidden=10), "forgetting"),
    "clstm_mean": _causal(CLSTMConfig(hidden=7, groups=2, readout="mean_all"), "forgetting"),
    "clstm_one_group": _causal(CLSTMConfig(hidden=4, groups=1), "forgetting"),
    "clstm_both": _not_causal(CLSTMConfig(hidden=9, groups=4, bidirectional=True), "forgetting"),
    "clstm_mean_both": _not_causal(
        CLSTMConfig(hidden=6, readout="mean_all", bidirectional=True), "forgetting"
    ),
    "rnn": _causal(RNNConfig(hidden=12)),
    "rnn_both": _not_causal(RNNConfig(hidden=5, bidirectional=True)),
    "gru": _causal(GRUConfig(hidden=9)),
    "gru_both": _not_causal(GRUConfig(hidden=6, bias=False, bidirectional=True)),
    "mtgru": _causal(MTGRUConfig(hidden=9, tau=1.3)),
    "mtgru_both": _not_causal(
        MTGRUConfig(hidden=12, bias=True, timescale="inverse", orthogonal=True, bidirectional=True)
    ),
    "hl_mtgru": _causal(HLMTGRUConfig(hidden=13, tau_slow=1.5), "halves"),
    "hl_mtgru_uneven": _causal(
        HLMTGRUConfig(hidden=14, slow_units=4, bias=True, timescale="inverse", orthogonal=True), "halves"
    ),
    "cbow": _causal(BagOfWordsConfig()),
    "nbow": _causal(BagOfWordsConfig(pooling="sum", activation="tanh")),
    "f2s": _causal(MTLSTMConfig(hidden=10, groups=3), "groups"),
    "f2s_full": _causal(MTLSTMConfig(hidden=10, groups=3, cell_to_gate="full"), "groups"),
    "s2f": _causal(MTLSTMConfig(hidden=11, groups=4, strategy="slow_to_fast"), "groups"),
    "s2f_full": _causal(
        MTLSTMConfig(hidden=7, groups=3, strategy="slow_to_fast", cell_to_gate="full"), "groups"
    ),
    "one_group": _causal(MTLSTMConfig(hidden=5, groups=1), "groups"),
    "one_group_full": _causal(MTLSTMConfig(hidden=5, groups=1, cell_to_gate="full"), "groups"),
    "leap": _not_causal(
        LeapLSTMConfig(hidden=12, reverse_hidden=4, decision_hidden=6, filters=3), "skip_map"
    ),
    "leap_one_width": _not_causal(
        LeapLSTMConfig(hidden=5, reverse_hidden=1, decision_hidden=3, filter_widths=(1,), filters=4),
        "skip_map",
    ),
    **{
        f"leap_without_{part}": _not_causal(
            LeapLSTMConfig(hidden=8, reverse_hidden=3, decision_hidden=4, filters=2, without=part), "skip_map"
        )
        for part in _ABLATIONS_THAT_LOOK_AHEAD
    },
    "leap_without_following_text": _causal(
        LeapLSTMConfig(hidden=12, decision_hidden=6, without="following_text"), "skip_map"
    ),
    "leap_reference_code": _not_causal(
        LeapLSTMConfig(
            hidden=9, reverse_hidden=3, decision_hidden=8, filters=2, layout="reference_code", mlp=12
        ),
        "skip_map",
    ),
    "leap_reference_code_without_cnn": _not_causal(
        LeapLSTMConfig(hidden=6, reverse_hidden=2, decision_hidden=4, layout="reference_code", without="cnn"),
        "skip_map",
    ),
    "mode": _causal(MODELSTMConfig(scales=(3, 5, 11), state_size=4, mlp=7), "ngrams"),
    "mode_characters": _causal(MODELSTMConfig(scales=(2, 4), state_size=6, mlp=12, characters=10), "ngrams"),
    "mode_one_word": _causal(
        MODELSTMConfig(scales=(1,), states=3, state_size=2, mlp=4, orthogonality="equation_7"), "ngrams"
    ),
    "ode": _causal(
        ODELSTMConfig(scales=(4,), states=3, state_size=3, mlp=6, orthogonality="candidate_only"), "ngrams"
    ),
    "dlstm": _causal(DLSTMConfig(scales=(6,), state_size=9, mlp=6), "ngrams"),
    "text_cnn": _causal(TextCNNConfig(filters=12, mlp=12), "ngrams"),
    "text_cnn_one_word": _causal(TextCNNConfig(filter_widths=(1, 2), filters=8, mlp=8), "ngrams"),
    "skip": _causal(SkipLSTMConfig(hidden=11), "skip_map"),
    "skip_trained_start": _causal(SkipLSTMConfig(hidden=6, initial_state="trained"), "skip_map"),
    "skim": _causal(SkimLSTMConfig(hidden=12, small_hidden=3), "skim_map"),
    "skim_all_units": _causal(SkimLSTMConfig(hidden=4, small_hidden=4), "skim_map"),
    "jump": _causal(LSTMJumpConfig(hidden=11, run=3, longest_jump=5, jumps=40), "skip_map"),
    "jump_once": _causal(LSTMJumpConfig(hidden=6, run=20, longest_jump=30, jumps=1), "skip_map"),
    "c_lstm": _causal(ConvolutionalLSTMConfig(filter_width=12, filters=5, hidden=7)),
    "c_lstm_one_word": _causal(ConvolutionalLSTMConfig(filter_width=1, filters=4, hidden=5)),
    "self_attentive": _not_causal(SelfAttentiveLSTMConfig(hidden=6, attention=5, hops=3, mlp=7), "attention"),
    "self_attentive_one_hop": _not_causal(
        SelfAttentiveLSTMConfig(hidden=4, attention=1, hops=1, mlp=6), "attention"
    ),
}
