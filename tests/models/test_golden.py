"""Plain cells, networks and graphs against numbers computed elsewhere from the same equations."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from models.architectures.leap import LeapLSTM
from models.architectures.mode import MODELSTM, Orthogonality, orthogonality_penalty
from models.architectures.skim import SkimLSTM
from models.architectures.windows import WindowModel
from models.golden.cases import Case
from models.golden.networks import has_network, load
from models.golden.plain import read
from tests.models.cases import FOLDER, golden
from tests.models.golden import compute
from tests.models.golden.compute import Json

TOLERANCE = 1e-12
STATES: dict[str, set[str]] = {
    "bclstm": set(),
    "mode_lstm": {"features", "prefix_max"},
    "hl_mtgru": {"fast.h", "slow.h", "fast.u", "slow.u"},
}

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
        states = STATES.get(case.model, {"h", "c"})
        assert compared >= states | {"logits", "probs"}
        for value in compared:
            assert_close(found[value], case.expected(sequence, value))


@pytest.mark.parametrize(("model", "values"), [("skip_rnn", {"u", "u_tilde"}), ("skim_rnn", {"p", "y"})])
def test_plain_skipping_cells_give_their_decisions(model: str, values: set[str]) -> None:
    for case in golden(model):
        assert {value for value in read(case, 0) if case.has(0, value)} >= values


def equations(file: Json, case: Json, words: NDArray[np.float64]) -> list[Json]:
    """What the independent equations make of a file's numbers."""
    sizes = case["config"]["group_sizes"]
    weights = {
        name: {key: np.array(one) for key, one in value.items()}
        if isinstance(value, dict)
        else np.array(value)
        for name, value in case["weights"].items()
    }
    read_words = compute.bclstm if file["model"] == "bclstm" else compute.mtlstm_slow_to_fast
    return read_words(weights, words, sizes)


@pytest.mark.parametrize("model", compute.FILES)
def test_computed_files_hold_what_the_equations_give(model: str) -> None:
    file = json.loads((FOLDER / f"{model}.json").read_text(encoding="utf-8"))
    for case in file["cases"]:
        for sequence in case["sequences"]:
            expected = equations(file, case, np.array(sequence["x"]))
            assert len(expected) == sequence["length"] == len(sequence["steps"])
            for found, step in zip(sequence["steps"], expected, strict=True):
                assert found.keys() == step.keys()
                for name, value in step.items():
                    np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-14)


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


# what is decided, 1 where a word is skipped or skimmed, and the probability that it is not
DECISIONS = {
    "leap_lstm": lambda case, n: (case.expected(n, "skip"), case.expected(n, "pi")[:, 0]),
    "skip_rnn": lambda case, n: (1 - case.expected(n, "u"), case.expected(n, "u_tilde")),
    "skim_rnn": lambda case, n: (case.expected(n, "y")[:, 1], case.expected(n, "p")[:, 0]),
}


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
        if case.model in DECISIONS:
            decided, probability = DECISIONS[case.model](case, sequence)
            found = trace.skimmed if trace.skipped is None else trace.skipped
            told = trace.read_probability if trace.skipped is None else trace.keep_probability
            assert found is not None
            assert told is not None
            assert torch.equal(found[sequence, :length], decided == 1)
            assert_close(told[sequence, :length], probability)
        if trace.forgetting_rates is not None and case.has(sequence, "r"):
            groups = torch.split(case.expected(sequence, "r"), case.config["group_sizes"], dim=1)
            means = torch.stack([group.mean(dim=1) for group in groups], dim=1)
            assert_close(trace.forgetting_rates[sequence, :length], means)


def blend_with(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a network in training blend with the noise of a case."""
    _, ids, lengths = case.padded()
    noise = torch.zeros(*ids.shape, 2, dtype=torch.float64)
    for sequence, content in enumerate(case.sequences):
        noise[sequence, : lengths[sequence]] = torch.tensor(content["gumbel"], dtype=torch.float64)
    words = iter(noise.unbind(1))

    def blend(logits: Tensor, tau: float) -> Tensor:
        return torch.softmax((logits + next(words)) / tau, dim=-1)

    monkeypatch.setattr(functional, "gumbel_softmax", blend)


def test_fast_leap_lstm_blends_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(SOFT).train()
    assert isinstance(model, LeapLSTM)
    _, ids, lengths = SOFT.padded()
    blend_with(SOFT, monkeypatch)
    with torch.no_grad():
        answer = model(ids, lengths)
    for sequence in range(len(lengths)):
        assert_close(answer.logits[sequence], SOFT.expected(sequence, "logits")[-1])
    assert float(answer.skip_rate) == pytest.approx(SOFT.batch["soft_skip_rate"], abs=TOLERANCE)
    assert float(answer.penalty) == pytest.approx(SOFT.batch["penalty"], abs=TOLERANCE)


def test_fast_skim_lstm_blends_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [case for case in golden("skim_rnn") if case.config["soft"]]
    model = load(case).train()
    assert isinstance(model, SkimLSTM)
    _, ids, lengths = case.padded()
    blend_with(case, monkeypatch)
    with torch.no_grad():
        answer = model(ids, lengths)
    assert_close(answer.logits[0], case.expected(0, "logits")[-1])
    assert float(answer.skip_rate) == pytest.approx(float(case.expected(0, "y")[:, 1].mean()), abs=TOLERANCE)
    to_skim = float(-case.expected(0, "p")[:, 1].log().mean())
    assert float(answer.penalty) == pytest.approx(model.config.penalty * to_skim, abs=TOLERANCE)
