"""The plain cells and the fast networks against numbers computed elsewhere from the same equations."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.architectures.leap import LeapLSTM
from models.architectures.mode import Orthogonality, orthogonality_penalty
from models.architectures.windows import WindowModel
from models.plain import leap, lstm, mtlstm
from models.plain.windows import read_mode
from tests.models.cases import Case, golden, load, mode

TOLERANCE = 1e-12

LSTM_CASES = golden("lstm_graves")
MTLSTM_CASES = golden("mtlstm_f2s")
LEAP_CASES = golden("leap_lstm")
MODE_CASES = golden("mode_lstm")
DECIDED = [case for case in LEAP_CASES if case.config["mode"] == "argmax"]
(SOFT,) = [case for case in LEAP_CASES if case.config["mode"] == "soft"]


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCE)


def assert_reading(reading: lstm.Reading | leap.LeapReading, case: Case, sequence: int) -> None:
    assert_close(reading.h, case.expected(sequence, "h"))
    assert_close(reading.c, case.expected(sequence, "c"))
    assert_close(reading.logits, case.expected(sequence, "logits"))
    assert_close(torch.softmax(reading.logits, dim=-1), case.expected(sequence, "probs"))


@pytest.mark.parametrize("case", LSTM_CASES, ids=lambda case: case.name)
def test_plain_lstm(case: Case) -> None:
    cell: Literal["new", "previous"] = "new" if case.config["output_gate_cell"] == "c_t" else "previous"
    for sequence in range(len(case.sequences)):
        assert_reading(lstm.read(case.weights, case.words(sequence), cell), case, sequence)


@pytest.mark.parametrize("case", MTLSTM_CASES, ids=lambda case: case.name)
def test_plain_mtlstm(case: Case) -> None:
    for sequence in range(len(case.sequences)):
        reading = mtlstm.read(case.weights, case.words(sequence), case.config["group_sizes"], "fast_to_slow")
        assert_reading(reading, case, sequence)


@pytest.mark.parametrize("case", DECIDED, ids=lambda case: case.name)
def test_plain_leap_lstm_decides(case: Case) -> None:
    for sequence in range(len(case.sequences)):
        reading = leap.read(
            case.weights, case.words(sequence), case.config["filter_widths"], case.config["layout"]
        )
        assert_reading(reading, case, sequence)
        assert_close(reading.probabilities, case.expected(sequence, "pi"))
        assert torch.equal(reading.skip, case.expected(sequence, "skip"))


def test_plain_leap_lstm_blends_in_training() -> None:
    for sequence, content in enumerate(SOFT.sequences):
        noise = torch.tensor(content["gumbel"], dtype=torch.float64)
        reading = leap.read(SOFT.weights, SOFT.words(sequence), SOFT.config["filter_widths"], noise=noise)
        assert_reading(reading, SOFT, sequence)
        assert_close(reading.skip, SOFT.expected(sequence, "y")[:, 1])


@pytest.mark.parametrize("case", MODE_CASES, ids=lambda case: case.name)
def test_plain_mode_lstm(case: Case) -> None:
    for sequence, content in enumerate(case.sequences):
        reading = read_mode(case.weights, case.words(sequence), case.config["scales"])
        assert_close(reading.features, case.expected(sequence, "features").flatten(1))
        assert_close(reading.pooled, case.expected(sequence, "prefix_max"))
        assert_close(reading.logits, case.expected(sequence, "logits"))
        assert torch.equal(reading.last_words + 1, torch.tensor(content["final"]["argmax_t"]).flatten())


@pytest.mark.parametrize("case", MODE_CASES, ids=lambda case: case.name)
@torch.inference_mode()
def test_windows_that_win(case: Case) -> None:
    model = load(case)
    assert isinstance(model, WindowModel)
    _, ids, lengths = case.padded()
    for content, last_word in zip(case.sequences, model.winners(ids, lengths).last_word, strict=True):
        assert torch.equal(last_word + 1, torch.tensor(content["final"]["argmax_t"]).flatten())


@pytest.mark.parametrize("case", MODE_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("matrices", "gram_of_flattened_W"),
        ("candidate_only", "gram_of_flattened_candidate_block"),
        ("equation_7", "literal_eq7_4p_by_4p"),
    ],
)
@torch.inference_mode()
def test_orthogonality_penalty(case: Case, kind: Orthogonality, name: str) -> None:
    for n, expected in enumerate(case.penalties, start=1):
        found = orthogonality_penalty(case.weights[f"scale_{n}.W"], kind)
        assert float(found) == pytest.approx(expected[name], rel=TOLERANCE)
    table, ids, lengths = case.padded()
    penalty = mode(case, table, kind)(ids, lengths).penalty
    total = sum(expected[name] for expected in case.penalties)
    assert float(penalty) == pytest.approx(total, rel=TOLERANCE)


FAST = [
    *(case for case in LSTM_CASES if case.config["v"] == "none"),
    *MTLSTM_CASES,
    *(case for case in DECIDED if case.config["layout"] == "paper"),
    *MODE_CASES,
]


@pytest.mark.parametrize("case", FAST, ids=lambda case: f"{case.config.get('mode', 'reads')}_{case.name}")
def test_fast_network(case: Case) -> None:
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
