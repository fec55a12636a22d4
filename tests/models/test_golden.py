"""The plain cells and the fast networks against numbers computed elsewhere from the same equations."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from models.architectures.leap import LeapLSTM
from models.plain import leap, lstm, mtlstm
from tests.models.cases import Case, golden, load

TOLERANCE = 1e-12

LSTM_CASES = golden("lstm_graves")
MTLSTM_CASES = golden("mtlstm_f2s")
LEAP_CASES = golden("leap_lstm")
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


FAST = [
    *(case for case in LSTM_CASES if case.config["v"] == "none"),
    *MTLSTM_CASES,
    *(case for case in DECIDED if case.config["layout"] == "paper"),
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
