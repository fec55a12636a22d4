from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, log_loss
from torch import Tensor

from models.architectures.base import Answer, Architecture, ModelConfig, Trace
from models.architectures.leap import LeapLSTMConfig
from models.data.documents import Documents
from models.training.evaluate import evaluate, predict
from tests.models.networks import VOCABULARY, random_network

CPU = torch.device("cpu")


class Oracle(Architecture):
    """Answers with the logits that belong to a document's first word."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(torch.zeros(len(logits), 2), logits.shape[1], 2, ModelConfig())
        self.logits = logits

    def forward(self, token_ids: Tensor, lengths: Tensor) -> Answer:
        return Answer(self.logits[token_ids[:, 0]])

    def trace(self, token_ids: Tensor, lengths: Tensor) -> Trace:
        raise NotImplementedError


def told(probabilities: list[list[float]], labels: list[int], lengths: list[int]) -> tuple[Oracle, Documents]:
    """A model that gives these probabilities, one row a document."""
    ids = [np.full(length, number, dtype=np.int32) for number, length in enumerate(lengths)]
    oracle = Oracle(torch.tensor(probabilities, dtype=torch.float64).log())
    return oracle, Documents(tuple(ids), np.array(labels, dtype=np.int64))


def test_measures_equal_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    probabilities = random.dirichlet([1, 1, 1], 500)
    labels = random.integers(0, 3, 500)
    model, documents = told(probabilities.tolist(), labels.tolist(), random.integers(1, 9, 500).tolist())
    report = evaluate(model, documents, CPU)
    predicted = probabilities.argmax(axis=1)
    assert report.documents == 500
    assert report.accuracy == pytest.approx(accuracy_score(labels, predicted))
    assert report.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert report.loss == pytest.approx(log_loss(labels, probabilities))
    assert report.confusion == confusion_matrix(labels, predicted).tolist()
    assert report.skip_rate is None
    assert "skip_rate" not in report.as_dict()


def test_calibration_error_by_hand() -> None:
    """Of 15 bins, one holds 0.9, 0.9 (one right) and one 0.6, 0.6 (both right)."""
    sure, unsure = [0.9, 0.1], [0.6, 0.4]
    model, documents = told([sure, sure, unsure, unsure], [0, 1, 0, 0], [1, 1, 1, 1])
    assert evaluate(model, documents, CPU).calibration_error == pytest.approx((0.4 + 0.4) / 2, abs=1e-6)


def test_certain_answers_have_a_bin() -> None:
    model, documents = told([[1.0, 0.0], [0.0, 1.0]], [0, 1], [1, 1])
    assert evaluate(model, documents, CPU).calibration_error == pytest.approx(0)


def test_accuracy_by_length_has_ten_parts_in_order() -> None:
    lengths = list(range(1, 31))
    right = [length <= 15 for length in lengths]
    model, documents = told([[0.8, 0.2]] * 30, [0 if r else 1 for r in right], lengths)
    parts = evaluate(model, documents, CPU).accuracy_by_length
    assert len(parts) == 10
    assert parts[0] == {"shortest": 1, "longest": 3, "documents": 3, "accuracy": 1.0}
    assert parts[-1] == {"shortest": 28, "longest": 30, "documents": 3, "accuracy": 0.0}
    few, documents = told([[0.8, 0.2]] * 3, [0, 0, 1], [5, 1, 2])
    assert [part["longest"] for part in evaluate(few, documents, CPU).accuracy_by_length] == [1, 2, 5]


def test_classes_that_never_occur_count_as_zero() -> None:
    model, documents = told([[0.5, 0.3, 0.2]] * 2, [0, 0], [1, 1])
    report = evaluate(model, documents, CPU)
    assert report.macro_f1 == pytest.approx(1 / 3)
    assert report.confusion == [[2, 0, 0], [0, 0, 0], [0, 0, 0]]


def documents_of(lengths: NDArray[np.int64]) -> Documents:
    random = np.random.default_rng(1)
    ids = tuple(random.integers(1, VOCABULARY, length, dtype=np.int32) for length in lengths)
    return Documents(ids, np.zeros(len(lengths), dtype=np.int64))


def test_skip_rate_is_that_of_all_words() -> None:
    model = random_network(LeapLSTMConfig(hidden=4, reverse_hidden=2, filters=2), seed=3)
    documents = documents_of(np.random.default_rng(0).integers(1, 40, 50))
    skipped = 0
    for ids in documents.token_ids:
        trace = model.trace(torch.from_numpy(ids.astype(np.int64))[None], torch.tensor([len(ids)]))
        assert trace.skipped is not None
        skipped += int(trace.skipped.sum())
    rate = evaluate(model, documents, CPU).skip_rate
    assert rate == pytest.approx(skipped / documents.lengths.sum())
    assert 0 < skipped < documents.lengths.sum()


def test_probabilities_come_in_document_order_however_long_the_documents() -> None:
    model = random_network(LeapLSTMConfig(hidden=4, reverse_hidden=2, filters=2), seed=3).double()
    documents = documents_of(np.array([300, 1, 20, 3000, 2]))
    found = predict(model, documents, CPU).probabilities
    for row, ids in enumerate(documents.token_ids):
        answer = model(torch.from_numpy(ids.astype(np.int64))[None], torch.tensor([len(ids)]))
        alone = torch.softmax(answer.logits, dim=-1)[0].detach()
        np.testing.assert_allclose(found[row], alone, rtol=0, atol=1e-6)
