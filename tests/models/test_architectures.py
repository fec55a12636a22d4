"""What must hold for any sizes: fast equals plain, padding and batch-mates change nothing, traces are honest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.bag_of_words import BagOfWordsConfig
from models.architectures.cifg import CIFGConfig
from models.architectures.clstm import CLSTM, CLSTMConfig
from models.architectures.convolutional_lstm import ConvolutionalLSTMConfig
from models.architectures.gru import GRUConfig
from models.architectures.hl_mtgru import HLMTGRU, HLMTGRUConfig
from models.architectures.jump import LSTMJump, LSTMJumpConfig
from models.architectures.leap import Ablation, LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mode import DLSTMConfig, MODELSTMConfig, ODELSTMConfig
from models.architectures.mtgru import MTGRUConfig, Timescale
from models.architectures.mtlstm import MOST_GROUPS, MTLSTM, MTLSTMConfig, group_sizes, largest_group_count
from models.architectures.registry import AnyModelConfig, build, resolve
from models.architectures.rnn import RNNConfig
from models.architectures.self_attentive import SelfAttentiveLSTM, SelfAttentiveLSTMConfig
from models.architectures.skim import SkimLSTM, SkimLSTMConfig
from models.architectures.skip import SkipLSTM, SkipLSTMConfig, round_straight_through
from models.architectures.text_cnn import TextCNNConfig
from models.architectures.windows import WindowModel
from models.errors import ConfigError
from models.plain import self_attentive
from tests.models.networks import decided_reading, plain_logits, random_batch, random_network, window_reading
from tests.models.plain_weights import self_attentive_weights

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=4)
SEEDS = st.integers(0, 1000)


def assert_equal(found: Tensor, expected: Tensor) -> None:
    """Up to the order of sums in float64."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@st.composite
def mtlstm_configs(draw: st.DrawFn) -> MTLSTMConfig:
    groups = draw(st.integers(1, 4))
    return MTLSTMConfig(
        hidden=draw(st.integers(groups, 9)),
        groups=groups,
        strategy=draw(st.sampled_from(["fast_to_slow", "slow_to_fast"])),
        cell_to_gate=draw(st.sampled_from(["full", "none"])),
    )


LEAP_CONFIGS = st.builds(
    LeapLSTMConfig,
    hidden=st.integers(1, 6),
    reverse_hidden=st.integers(1, 4),
    decision_hidden=st.integers(1, 5),
    filter_widths=st.sampled_from([(1,), (2, 3), (3, 4, 5)]),
    filters=st.integers(1, 3),
    without=st.sampled_from(["nothing", "cnn", "reverse_lstm", "following_text", "state", "word"]),
    layout=st.sampled_from(["paper", "reference_code"]),
    mlp=st.sampled_from([0, 4]),
)
SKIP_CONFIGS = st.builds(
    SkipLSTMConfig, hidden=st.integers(1, 6), initial_state=st.sampled_from(["zeros", "trained"])
)
SKIM_CONFIGS = st.integers(1, 6).flatmap(
    lambda hidden: st.builds(SkimLSTMConfig, hidden=st.just(hidden), small_hidden=st.integers(1, hidden))
)
JUMP_CONFIGS = st.builds(
    LSTMJumpConfig,
    hidden=st.integers(1, 6),
    run=st.integers(1, 4),
    longest_jump=st.integers(1, 5),
    jumps=st.integers(1, 6),
)
WINDOWS = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)
WINDOW_CONFIGS = st.one_of(
    st.builds(
        MODELSTMConfig,
        scales=WINDOWS,
        states=st.integers(1, 3),
        state_size=st.integers(1, 3),
        mlp=st.integers(1, 5),
    ),
    st.builds(TextCNNConfig, filter_widths=WINDOWS, filters=st.integers(1, 3), mlp=st.integers(1, 5)),
)


@st.composite
def lstm_configs(draw: st.DrawFn, bidirectional: bool) -> LSTMConfig:
    cell_to_gate = draw(st.sampled_from(["none", "diagonal", "full"]))
    cells = ["new"] if cell_to_gate == "none" else ["new", "previous"]
    return LSTMConfig(
        hidden=draw(st.integers(1, 8)),
        cell_to_gate=cell_to_gate,
        output_gate_cell=draw(st.sampled_from(cells)),
        bidirectional=bidirectional,
    )


@st.composite
def clstm_configs(draw: st.DrawFn, bidirectional: bool) -> CLSTMConfig:
    groups = draw(st.integers(1, 4))
    return CLSTMConfig(
        hidden=draw(st.integers(groups, 9)),
        groups=groups,
        readout=draw(st.sampled_from(["slowest", "mean_all"])),
        bidirectional=bidirectional,
    )


TIMESCALES: dict[str, st.SearchStrategy[Any]] = {
    "bias": st.booleans(),
    "timescale": st.sampled_from(["tau", "inverse"]),
    "orthogonal": st.booleans(),
}
CAUSAL_CONFIGS = st.one_of(
    lstm_configs(bidirectional=False),
    mtlstm_configs(),
    st.builds(CIFGConfig, hidden=st.integers(1, 8)),
    clstm_configs(bidirectional=False),
    st.builds(RNNConfig, hidden=st.integers(1, 8)),
    st.builds(GRUConfig, hidden=st.integers(1, 8), bias=st.booleans()),
    st.builds(MTGRUConfig, hidden=st.integers(1, 8), **TIMESCALES),
    st.builds(HLMTGRUConfig, hidden=st.integers(2, 9), **TIMESCALES),
    st.builds(
        ConvolutionalLSTMConfig,
        filter_width=st.integers(1, 7),
        filters=st.integers(1, 5),
        hidden=st.integers(1, 8),
    ),
    st.builds(
        BagOfWordsConfig,
        pooling=st.sampled_from(["mean", "sum"]),
        activation=st.sampled_from(["none", "tanh"]),
    ),
    WINDOW_CONFIGS,
    SKIP_CONFIGS,
    SKIM_CONFIGS,
    JUMP_CONFIGS,
    st.builds(LeapLSTMConfig, hidden=st.integers(1, 6), without=st.just("following_text")),
)
BIDIRECTIONAL_CONFIGS = st.one_of(
    lstm_configs(bidirectional=True),
    st.builds(CIFGConfig, hidden=st.integers(1, 8), bidirectional=st.just(True)),
    clstm_configs(bidirectional=True),
    st.builds(RNNConfig, hidden=st.integers(1, 8), bidirectional=st.just(True)),
    st.builds(
        SelfAttentiveLSTMConfig,
        hidden=st.integers(1, 6),
        attention=st.integers(1, 5),
        hops=st.integers(1, 4),
        mlp=st.integers(1, 5),
    ),
    st.builds(GRUConfig, hidden=st.integers(1, 8), bidirectional=st.just(True)),
    st.builds(MTGRUConfig, hidden=st.integers(1, 8), bidirectional=st.just(True), **TIMESCALES),
)
CONFIGS = st.one_of(CAUSAL_CONFIGS, BIDIRECTIONAL_CONFIGS, LEAP_CONFIGS)


@settings(max_examples=60, deadline=None)
@given(CONFIGS, LENGTHS, SEEDS)
@torch.inference_mode()
def test_fast_equals_plain(config: AnyModelConfig, lengths: list[int], seed: int) -> None:
    model = random_network(config, seed=seed).double()
    ids, length = random_batch(lengths, seed)
    trace, answer = model.trace(ids, length), model(ids, length)
    for row, words in enumerate(lengths):
        x = model.embedding(ids[row, :words])
        expected = plain_logits(model, x)
        assert_equal(trace.logits[row, :words], expected)
        assert_equal(answer.logits[row], expected[-1])
        decided = trace.skimmed if trace.skipped is None else trace.skipped
        if decided is not None:
            assert torch.equal(decided[row, :words], decided_reading(model, x)[1])


@settings(max_examples=30, deadline=None)
@given(WINDOW_CONFIGS, LENGTHS, SEEDS)
@torch.inference_mode()
def test_winners_are_the_windows_whose_features_were_pooled(
    config: AnyModelConfig, lengths: list[int], seed: int
) -> None:
    model = random_network(config, seed=seed).double()
    assert isinstance(model, WindowModel)
    ids, length = random_batch(lengths, seed)
    winners = model.winners(ids, length)
    for row, words in enumerate(lengths):
        reading = window_reading(model, model.embedding(ids[row, :words]))
        found = reading.features.gather(0, winners.last_word[row : row + 1])[0]
        assert_equal(found, reading.pooled[-1])


def test_weights_of_the_winners_are_gradient_times_feature() -> None:
    model = random_network(MODELSTMConfig(scales=(2, 3), state_size=3, mlp=6), seed=5).double()
    assert isinstance(model, WindowModel)
    ids, lengths = random_batch([9, 4], seed=5)
    for row, words in enumerate((9, 4)):
        reading = window_reading(model, model.embedding(ids[row, :words]))
        pooled = reading.pooled[-1].detach().requires_grad_()
        logits = model.classifier(torch.relu(model.mlp(pooled)))
        (logits.max() - logits.mean()).backward()
        assert pooled.grad is not None
        assert_equal(model.winners(ids, lengths).weight[row].detach(), pooled.grad * pooled.detach())


@settings(max_examples=30, deadline=None)
@given(CAUSAL_CONFIGS, st.integers(1, 20), SEEDS)
@torch.inference_mode()
def test_trace_is_the_answer_for_each_prefix(config: AnyModelConfig, length: int, seed: int) -> None:
    model = random_network(config, seed=seed).double()
    ids, lengths = random_batch([length], seed)
    trace = model.trace(ids, lengths).logits[0]
    for words in range(1, length + 1):
        answer = model(ids[:, :words], torch.tensor([words])).logits[0]
        assert_equal(trace[words - 1], answer)


@settings(max_examples=30, deadline=None)
@given(BIDIRECTIONAL_CONFIGS, LENGTHS, SEEDS)
@torch.inference_mode()
def test_bidirectional_trace_ends_at_the_answer(
    config: AnyModelConfig, lengths: list[int], seed: int
) -> None:
    model = random_network(config, seed=seed).double()
    ids, length = random_batch(lengths, seed)
    trace, answer = model.trace(ids, length).logits, model(ids, length).logits
    for row, words in enumerate(lengths):
        assert_equal(trace[row, words - 1], answer[row])


@torch.inference_mode()
def test_attention_is_the_plain_cells_and_adds_up_to_one() -> None:
    model = random_network(SelfAttentiveLSTMConfig(hidden=4, attention=5, hops=3, mlp=6), seed=7).double()
    assert isinstance(model, SelfAttentiveLSTM)
    ids, length = random_batch([9, 4], seed=7)
    attention = model.trace(ids, length).attention
    assert attention is not None
    for row, words in enumerate((9, 4)):
        plain = self_attentive.read(self_attentive_weights(model), model.embedding(ids[row, :words]))
        assert_equal(attention[row, :words], plain.attention)
        assert_equal(attention[row].sum(dim=0), torch.ones(3).double())


@pytest.mark.parametrize("words", [1, 6])
@torch.inference_mode()
def test_attention_penalty_is_that_of_the_equation(words: int) -> None:
    """With one word all hops agree, and ‖A A' - I‖² is hops² - hops."""
    model = random_network(SelfAttentiveLSTMConfig(hidden=4, attention=5, hops=3, mlp=6, penalty=2.0), seed=7)
    assert isinstance(model, SelfAttentiveLSTM)
    model.score_hops.weight.mul_(1000.0)
    ids, length = random_batch([words], seed=3)
    attention = model.trace(ids, length).attention
    assert attention is not None
    overlap = attention[0].T @ attention[0] - torch.eye(3)
    penalty = model(ids, length).penalty
    assert penalty is not None
    assert float(penalty) == pytest.approx(2 * float(overlap.square().sum()), rel=1e-5)
    if words == 1:
        assert float(penalty) == pytest.approx(2 * (3 * 3 - 3))


@settings(max_examples=30, deadline=None)
@given(CONFIGS, LENGTHS, SEEDS, st.integers(1, 7))
@torch.inference_mode()
def test_padding_and_batch_mates_change_nothing(
    config: AnyModelConfig, lengths: list[int], seed: int, padding: int
) -> None:
    model = random_network(config, seed=seed).double()
    ids, length = random_batch(lengths, seed)
    together = model(nn.functional.pad(ids, (0, padding)), length)
    for row, words in enumerate(lengths):
        alone = model(ids[row : row + 1, :words], length[row : row + 1])
        assert_equal(together.logits[row], alone.logits[0])


@torch.inference_mode()
def test_padding_ids_do_not_reach_the_skip_rate() -> None:
    model = random_network(LeapLSTMConfig(hidden=4, reverse_hidden=2, filters=2), seed=3)
    ids, lengths = random_batch([3, 17], seed=3)
    answer, trace = model(ids, lengths), model.trace(ids, lengths)
    assert trace.skipped is not None
    skipped = sum(int(trace.skipped[row, :words].sum()) for row, words in enumerate((3, 17)))
    assert float(answer.skip_rate) == pytest.approx(skipped / 20)
    assert float(answer.penalty) == pytest.approx((0.6 - skipped / 20) ** 2, abs=1e-6)


@torch.inference_mode()
def test_each_word_that_is_read_costs() -> None:
    config = SkipLSTMConfig(hidden=4, cost_per_word=0.5)
    model = random_network(config, seed=3)
    ids, lengths = random_batch([3, 17], seed=3)
    answer, trace = model(ids, lengths), model.trace(ids, lengths)
    assert trace.skipped is not None
    read = [int((~trace.skipped[row, :words]).sum()) for row, words in enumerate((3, 17))]
    assert 2 < sum(read) < 20
    assert float(answer.penalty) == pytest.approx(0.5 * sum(read) / 2)
    assert float(answer.skip_rate) == pytest.approx(1 - sum(read) / 20)


def skip_lstm_with_increment(increment: float) -> SkipLSTM:
    model = random_network(SkipLSTMConfig(hidden=4))
    assert isinstance(model, SkipLSTM)
    with torch.no_grad():
        model.increment.weight.zero_()
        model.increment.bias.fill_(torch.logit(torch.tensor(increment)))
    return model


@pytest.mark.parametrize(
    ("increment", "skipped"), [(0.9, [False] * 6), (0.5, [False, True] * 3), (0.25, [False, True, True] * 2)]
)
@torch.inference_mode()
def test_increment_says_how_many_words_are_skipped(increment: float, skipped: list[bool]) -> None:
    """One half rounds to even, so it skips."""
    trace = skip_lstm_with_increment(increment).trace(*random_batch([6]))
    assert trace.skipped is not None
    assert trace.skipped[0].tolist() == skipped


def test_gradient_goes_straight_through_the_rounding() -> None:
    probability = torch.tensor([0.2, 0.5, 0.7], requires_grad=True)
    update = round_straight_through(probability)
    assert update.tolist() == [0.0, 0.0, 1.0]
    (gradient,) = torch.autograd.grad(update, probability, torch.tensor([1.0, 2.0, 3.0]))
    assert gradient.tolist() == [1.0, 2.0, 3.0]


def test_cost_teaches_skip_lstm_to_skip() -> None:
    model = skip_lstm_with_increment(0.6).train()
    penalty = model(*random_batch([6])).penalty
    assert penalty is not None
    (gradient,) = torch.autograd.grad(penalty, model.increment.bias)
    assert float(gradient) > 0


def test_small_cell_writes_its_units_only() -> None:
    model = random_network(SkimLSTMConfig(hidden=5, small_hidden=2))
    assert isinstance(model, SkimLSTM)
    with torch.no_grad():
        model.decide_state.weight.zero_()
        model.decide_word.weight.zero_()
        model.decide_word.bias.copy_(torch.tensor([0.0, 1.0]))
        model.classifier.weight.copy_(torch.eye(5)[2:])
        trace = model.trace(*random_batch([7]))
    assert trace.skimmed is not None
    assert trace.skimmed.all()
    assert torch.equal(trace.logits, model.classifier.bias.expand_as(trace.logits))


def test_small_cell_larger_than_the_large_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="small_hidden: expected at most the 5 hidden units, found 6"):
        build(SkimLSTMConfig(hidden=5, small_hidden=6), torch.zeros(10, 4), 2)


def jumping_network(jump: int, run: int, jumps: int) -> LSTMJump:
    """One that always jumps so far."""
    model = random_network(LSTMJumpConfig(hidden=4, run=run, longest_jump=3, jumps=jumps))
    assert isinstance(model, LSTMJump)
    with torch.no_grad():
        model.jump.weight.zero_()
        model.jump.bias.copy_(functional.one_hot(torch.tensor(jump), 4))
    return model


@pytest.mark.parametrize(
    ("jump", "run", "jumps", "read"),
    [
        (3, 2, 9, [0, 1, 4, 5, 8, 9]),
        (3, 2, 1, [0, 1, 4, 5]),
        (1, 2, 9, list(range(10))),
        (0, 2, 9, [0, 1]),
        (2, 20, 9, list(range(10))),
    ],
    ids=["jumps", "jumps are used up", "to the next word", "stops", "reads on to the end"],
)
@torch.inference_mode()
def test_reading_goes_on_where_the_jump_lands(jump: int, run: int, jumps: int, read: list[int]) -> None:
    model = jumping_network(jump, run, jumps)
    ids, lengths = random_batch([10, 3])
    trace, answer = model.trace(ids, lengths), model(ids, lengths)
    assert trace.skipped is not None
    assert torch.nonzero(~trace.skipped[0]).flatten().tolist() == read
    words_read = len(read) + sum(word < 3 for word in read)
    assert float(answer.skip_rate) == pytest.approx(1 - words_read / 13)


@pytest.mark.parametrize(("label", "reward"), [(0, 1.0), (1, -1.0)])
def test_jump_is_taught_by_its_reward_over_the_baseline(
    monkeypatch: pytest.MonkeyPatch, label: int, reward: float
) -> None:
    """Of three words, read one by one, the jumps behind the first two have an outcome."""
    model = jumping_network(1, run=1, jumps=9).train()
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([1.0, 0.0, 0.0]))
        model.baseline.weight.zero_()
        model.baseline.bias.fill_(0.25)
    monkeypatch.setattr(
        torch, "multinomial", lambda p, samples: torch.ones(len(p), samples, dtype=torch.int64)
    )
    reward_loss = model(*random_batch([3])).reward_loss
    assert reward_loss is not None
    found = torch.autograd.grad(
        reward_loss(torch.tensor([label])),
        [model.jump.bias, model.baseline.bias, model.cell.recurrent.weight],
        allow_unused=True,
    )
    toward_the_jump = functional.one_hot(torch.tensor(1), 4) - torch.softmax(model.jump.bias.detach(), dim=0)
    torch.testing.assert_close(found[0], -2 * (reward - 0.25) * toward_the_jump)
    torch.testing.assert_close(found[1], torch.tensor([-2 * 2 * (reward - 0.25)]))
    assert found[2] is None


def test_a_tie_keeps() -> None:
    model = random_network(LeapLSTMConfig(hidden=4, reverse_hidden=2, filters=2))
    assert isinstance(model, LeapLSTM)
    with torch.no_grad():
        model.decide.weight.zero_()
        model.decide.bias.zero_()
        trace = model.trace(*random_batch([5]))
    assert trace.skipped is not None
    assert not trace.skipped.any()


@pytest.mark.parametrize(
    ("hidden", "groups", "sizes"), [(55, 3, [19, 18, 18]), (60, 3, [20] * 3), (7, 1, [7])]
)
def test_uneven_groups_give_the_fastest_one_unit_more(hidden: int, groups: int, sizes: list[int]) -> None:
    assert group_sizes(hidden, groups) == sizes


@pytest.mark.parametrize("groups", [0, 6])
def test_group_count_must_fit(groups: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 to 5 groups for 5 hidden units, found {groups}"):
        group_sizes(5, groups)


@pytest.mark.parametrize(
    ("mean_length", "groups"), [(19, 3), (18, 3), (10, 2), (294, 7), (1.5, 1), (8200, 12)]
)
def test_equation_16_gives_the_papers_group_counts(mean_length: float, groups: int) -> None:
    """SST-1, SST-2, QC and IMDB by their mean lengths, the floor of one group, and more than can be exported."""
    assert largest_group_count(mean_length) == groups
    resolved = resolve(MTLSTMConfig(), mean_length)
    assert isinstance(resolved, MTLSTMConfig)
    assert resolved.groups == min(groups, MOST_GROUPS)


def test_groups_that_could_not_be_exported_are_refused() -> None:
    build(MTLSTMConfig(hidden=12, groups=11), torch.zeros(10, 4), 2)
    with pytest.raises(
        ConfigError, match=r"expected at most 11, found 12: the slowest would run every 2\^11 words"
    ):
        build(MTLSTMConfig(hidden=12, groups=12), torch.zeros(10, 4), 2)


def test_unresolved_group_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be resolved"):
        build(MTLSTMConfig(), torch.zeros(10, 4), 2)


def test_output_gate_that_sees_no_cell_is_refused() -> None:
    with pytest.raises(ConfigError, match="expects cell_to_gate 'full' or 'diagonal', found 'none'"):
        build(LSTMConfig(output_gate_cell="previous"), torch.zeros(10, 4), 2)


def matrix_count(module: nn.Module) -> int:
    return sum(p.numel() for name, p in module.named_parameters() if "bias" not in name)


@pytest.mark.parametrize(
    ("hidden", "groups", "plain", "without_v", "with_v"),
    [(60, 3, 38_400, 33_600, 40_800), (55, 3, 34_100, 30_068, 36_119), (100, 5, 80_000, 64_000, 82_000)],
    ids=["SST", "QC", "IMDB"],
)
def test_parameters_of_the_papers_sizes(
    hidden: int, groups: int, plain: int, without_v: int, with_v: int
) -> None:
    """Matrices without biases, embedding and classifier; 100-dimensional words."""
    table = torch.zeros(5, 100)
    lstm = build(LSTMConfig(hidden=hidden), table, 2)
    assert isinstance(lstm, LSTM)
    assert matrix_count(lstm.cell) == plain
    for cell_to_gate, expected in (("none", without_v), ("full", with_v)):
        config = MTLSTMConfig.model_validate(
            {"hidden": hidden, "groups": groups, "cell_to_gate": cell_to_gate}
        )
        model = build(config, table, 2)
        assert isinstance(model, MTLSTM)
        assert matrix_count(model.groups) == expected


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LSTMConfig(hidden=120), 81_600),
        (CIFGConfig(hidden=120), 61_200),
        (CIFGConfig(hidden=120, bidirectional=True), 122_400),
        (CLSTMConfig(), 61_200),
        (CLSTMConfig(groups=4, bidirectional=True), 122_400),
    ],
    ids=["LSTM", "CIFG-LSTM", "CIFG-BLSTM", "CLSTM", "B-CLSTM"],
)
def test_parameters_of_the_cached_lstm_papers_layers(config: AnyModelConfig, parameters: int) -> None:
    """120 units and 50-dimensional words; layers without biases."""
    model = build(config, torch.zeros(5, 50), 5)
    assert (
        matrix_count(model) - model.embedding.weight.numel() - model.classifier.weight.numel() == parameters
    )


@pytest.mark.parametrize(
    ("groups", "classes", "bidirectional", "parameters"),
    [(3, 10, False, 410), (3, 10, True, 810), (4, 5, False, 155), (4, 5, True, 305)],
)
def test_clstm_classifies_by_the_slowest_group(
    groups: int, classes: int, bidirectional: bool, parameters: int
) -> None:
    model = build(CLSTMConfig(groups=groups, bidirectional=bidirectional), torch.zeros(5, 50), classes)
    assert sum(p.numel() for p in model.classifier.parameters()) == parameters


def test_clstm_with_more_groups_than_units_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected 1 to 5 groups for 5 hidden units, found 6"):
        build(CLSTMConfig(hidden=5, groups=6), torch.zeros(10, 4), 2)


@given(st.integers(1, 5), SEEDS)
@settings(max_examples=20, deadline=None)
@torch.inference_mode()
def test_forgetting_rates_stay_in_their_groups_ranges(groups: int, seed: int) -> None:
    """Equation 13: those of group k between (k-1)/K and k/K."""
    model = random_network(CLSTMConfig(hidden=7, groups=groups), seed=seed, scale=3.0)
    assert isinstance(model, CLSTM)
    rates = model.trace(*random_batch([12], seed)).forgetting_rates
    assert rates is not None
    assert rates.shape == (1, 12, groups)
    for k in range(groups):
        assert ((rates[..., k] >= k / groups) & (rates[..., k] <= (k + 1) / groups)).all()


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (SkipLSTMConfig(), 721_200 + 301),
        (SkipLSTMConfig(initial_state="trained"), 721_200 + 301 + 600),
        (SkimLSTMConfig(), 721_200 + 4 * 5 * (300 + 5 + 1) + 2 * (300 + 300 + 1)),
        (LSTMJumpConfig(), 721_200 + 11 * 301 + 301),
    ],
    ids=["skip", "skip, trained start", "skim", "jump"],
)
def test_parameters_beside_the_leap_lstm_papers_lstm(config: AnyModelConfig, parameters: int) -> None:
    """300 units and 300-dimensional words: an LSTM of 721,200, and what decides."""
    model = build(config, torch.zeros(5, 300), 4)
    counted = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.weight")
    assert counted == parameters + 300 * 4 + 4


@pytest.mark.parametrize(("width", "parameters"), [(1024, 933_888), (4096, 3_293_184)])
def test_parameters_of_hl_mtgru(width: int, parameters: int) -> None:
    """On the features of ALBERT-large and -xxlarge; the classifier left out, and a τ for either layer."""
    model = build(HLMTGRUConfig(), torch.zeros(5, width), 5)
    assert isinstance(model, HLMTGRU)
    assert sum(p.numel() for p in model.cell.parameters()) == parameters + 2
    assert sum(p.numel() for p in model.own_learning_rates()) == 2


@pytest.mark.parametrize("timescale", ["tau", "inverse"])
def test_timescales_begin_where_the_configuration_says(timescale: Timescale) -> None:
    model = build(HLMTGRUConfig(hidden=4, tau_slow=1.25, timescale=timescale), torch.zeros(10, 4), 2)
    begin = [1.0, 1.25] if timescale == "tau" else [1.0, 0.8]
    assert [parameter.item() for parameter in model.own_learning_rates()] == pytest.approx(begin)


def test_hl_mtgru_without_fast_units_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected fewer slow units than the 4 hidden ones, found 4"):
        build(HLMTGRUConfig(hidden=4, slow_units=4), torch.zeros(10, 4), 2)


@pytest.mark.parametrize(("timescale", "before", "after"), [("tau", 0.7, 1.0), ("inverse", 1.3, 1.0)])
def test_no_timescale_goes_below_one(timescale: Timescale, before: float, after: float) -> None:
    model = build(HLMTGRUConfig(hidden=4, timescale=timescale), torch.zeros(10, 4), 2)
    for parameter in model.own_learning_rates():
        parameter.data.fill_(before)
    model.constrain()
    assert [parameter.item() for parameter in model.own_learning_rates()] == [after, after]


@torch.inference_mode()
def test_halves_and_bias_add_up_to_the_logits() -> None:
    model = random_network(HLMTGRUConfig(hidden=7), seed=4).double()
    trace = model.trace(*random_batch([6, 3], seed=4))
    assert trace.half_logits is not None
    assert_equal(trace.half_logits.sum(dim=2) + model.classifier.bias, trace.logits)


@pytest.mark.parametrize(
    ("without", "parameters"),
    [
        ("cnn", 216_180 + 180 + 180 * 20),
        ("reverse_lstm", 25_680 + 80 + 20 + 20 * 20),
        ("following_text", 216_180 + 25_680 + 80 + 200 + 200 * 20),
        ("state", 300 * 20),
        ("word", 300 * 20),
    ],
)
def test_ablations_leave_their_part_out(without: Ablation, parameters: int) -> None:
    """Table 4: the encoder, its share of h_end, its columns of W_1."""
    whole, part = (
        build(LeapLSTMConfig(without=what), torch.zeros(5, 300), 4) for what in ("nothing", without)
    )
    assert (
        sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in part.parameters()) == parameters
    )


@pytest.mark.parametrize("widths", [(), (0,), (9,)])
def test_filters_must_have_a_word_and_fit_into_a_segment(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="filter_widths"):
        LeapLSTMConfig(filter_widths=widths)


@pytest.mark.parametrize("classes", [2, 4, 14])
def test_parameters_of_leap_lstm(classes: int) -> None:
    """At the paper's sizes; PyTorch's LSTM counts a second bias of 80 in the reversed LSTM."""
    model = build(LeapLSTMConfig(), torch.zeros(5, 300), classes)
    counted = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.weight")
    assert counted - 80 == 979_322 + 300 * classes + classes


@pytest.mark.parametrize(
    ("part", "parameters"),
    [
        ("cell.", 721_200),
        ("look_ahead.reverse.", 25_680 + 80),  # PyTorch's second bias
        ("look_ahead.filters.", 216_180),
        ("decide", 16_062),
        ("look_ahead.h_end", 200),
    ],
)
def test_parameters_of_leap_lstms_parts(part: str, parameters: int) -> None:
    model = build(LeapLSTMConfig(), torch.zeros(5, 300), 2)
    assert sum(p.numel() for name, p in model.named_parameters() if name.startswith(part)) == parameters


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (MODELSTMConfig(), 526_652),
        (ODELSTMConfig(), 526_652),
        (DLSTMConfig(), 826_652),
        (TextCNNConfig(), 465_752),
    ],
    ids=lambda value: getattr(value, "architecture", None),
)
def test_parameters_of_window_models(config: AnyModelConfig, parameters: int) -> None:
    """At the MODE-LSTM paper's sizes: words of 300 dimensions beside 50 of their characters."""
    for classes in (2, 5):
        model = build(config, torch.zeros(5, 350), classes)
        counted = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.weight")
        assert counted == parameters + 151 * (classes - 2)


def test_parameters_of_mode_lstm_on_an_encoders_features() -> None:
    """BERT's 768 numbers per word in place of 350."""
    model = build(MODELSTMConfig(), torch.zeros(5, 768), 2)
    counted = sum(p.numel() for name, p in model.named_parameters() if name != "embedding.weight")
    assert counted == 1_028_252


@pytest.mark.parametrize("scales", [(), (0,), (65,)])
def test_windows_must_have_a_word_and_fit_into_a_graph(scales: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="scales"):
        MODELSTMConfig(scales=scales)
