"""Plain cells, networks and graphs against numbers computed elsewhere from the same equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.architectures.leap import LeapLSTM
from models.architectures.mode import MODELSTM, Orthogonality, orthogonality_penalty
from models.architectures.windows import WindowModel
from models.golden.cases import Case
from models.golden.networks import has_network, load
from models.golden.plain import read
from tests.models.cases import FOLDER, golden

TOLERANCE = 1e-12

CASES = [case for file in sorted(FOLDER.glob("*.json")) for case in golden(file.stem)]
MODE_CASES = golden("mode_lstm")
(SOFT,) = [case for case in CASES if case.config.get("mode") == "soft"]


def name(case: Case) -> str:
    return f"{case.model}-{case.name}"


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.to(torch.float64), expected, rtol=0, atol=TOLERANCE)


def winners(case: Case, sequence: int) -> Tensor:
    """Where the windows end that won each feature, from 1."""
    found = case.final(sequence, "argmax_t")
    assert found is not None
    return found.flatten().long()


@pytest.mark.parametrize("case", CASES, ids=name)
def test_plain_cell(case: Case) -> None:
    for sequence in range(len(case.sequences)):
        found = read(case, sequence)
        compared = {value for value in found if case.has(sequence, value)}
        states = {"features", "prefix_max"} if case.model == "mode_lstm" else {"h", "c"}
        assert compared >= states | {"logits", "probs"}
        for value in compared:
            assert_close(found[value], case.expected(sequence, value))


def test_plain_leap_lstm_gives_its_decisions() -> None:
    for case in golden("leap_lstm"):
        compared = {value for value in read(case, 0) if case.has(0, value)}
        assert compared >= ({"pi", "skip"} if case.config["mode"] == "argmax" else {"pi", "y"})


@pytest.mark.parametrize("case", MODE_CASES, ids=name)
def test_plain_mode_lstm_gives_its_windows(case: Case) -> None:
    for sequence in range(len(case.sequences)):
        assert torch.equal(read(case, sequence)["argmax_t"], winners(case, sequence))


@pytest.mark.parametrize("case", MODE_CASES, ids=name)
@torch.inference_mode()
def test_windows_that_win(case: Case) -> None:
    model = load(case)
    assert isinstance(model, WindowModel)
    _, ids, lengths = case.padded()
    for sequence, last_word in enumerate(model.winners(ids, lengths).last_word):
        assert torch.equal(last_word + 1, winners(case, sequence))


@pytest.mark.parametrize("case", MODE_CASES, ids=name)
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("matrices", "gram_of_flattened_W"),
        ("candidate_only", "gram_of_flattened_candidate_block"),
        ("equation_7", "literal_eq7_4p_by_4p"),
    ],
)
@torch.inference_mode()
def test_orthogonality_penalty(case: Case, kind: Orthogonality, key: str) -> None:
    for n, expected in enumerate(case.penalties, start=1):
        found = orthogonality_penalty(case.weights[f"scale_{n}.W"], kind)
        assert float(found) == pytest.approx(expected[key], rel=TOLERANCE)
    model = load(case)
    assert isinstance(model, MODELSTM)
    model.config = model.config.model_copy(update={"orthogonality": kind})
    _, ids, lengths = case.padded()
    penalty = model(ids, lengths).penalty
    total = sum(expected[key] for expected in case.penalties)
    assert float(penalty) == pytest.approx(total, rel=TOLERANCE)


@pytest.mark.parametrize("case", [case for case in CASES if has_network(case)], ids=name)
def test_network(case: Case) -> None:
    model = load(case)
    _, ids, lengths = case.padded()
    with torch.inference_mode():
        trace, answer = model.trace(ids, lengths), model(ids, lengths)
    for sequence, length in enumerate(lengths.tolist()):
        expected = case.expected(sequence, "logits")
        assert_close(trace.logits[sequence, :length], expected)
        assert_close(answer.logits[sequence], expected[-1])
        if trace.skipped is not None:
            assert trace.keep_probability is not None
            skipped = case.expected(sequence, "skip") == 1
            assert torch.equal(trace.skipped[sequence, :length], skipped)
            assert_close(trace.keep_probability[sequence, :length], case.expected(sequence, "pi")[:, 0])
        if trace.forgetting_rates is not None:
            groups = torch.split(case.expected(sequence, "r"), case.config["group_sizes"], dim=1)
            means = torch.stack([group.mean(dim=1) for group in groups], dim=1)
            assert_close(trace.forgetting_rates[sequence, :length], means)


def test_fast_leap_lstm_blends_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(SOFT).train()
    assert isinstance(model, LeapLSTM)
    _, ids, lengths = SOFT.padded()
    noise = torch.zeros(*ids.shape, 2, dtype=torch.float64)
    for sequence, content in enumerate(SOFT.sequences):
        noise[sequence, : lengths[sequence]] = torch.tensor(content["gumbel"], dtype=torch.float64)
    words = iter(noise.unbind(1))

    def blend(logits: Tensor, tau: float) -> Tensor:
        return torch.softmax((logits + next(words)) / tau, dim=-1)

    monkeypatch.setattr(functional, "gumbel_softmax", blend)
    with torch.no_grad():
        answer = model(ids, lengths)
    for sequence in range(len(lengths)):
        assert_close(answer.logits[sequence], SOFT.expected(sequence, "logits")[-1])
    assert float(answer.skip_rate) == pytest.approx(SOFT.batch["soft_skip_rate"], abs=TOLERANCE)
    assert float(answer.penalty) == pytest.approx(SOFT.batch["penalty"], abs=TOLERANCE)
