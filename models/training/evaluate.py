"""Measures of a model on labelled documents."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from models.architectures.base import Architecture
from models.data.batches import make_batch, sorted_batches
from models.data.documents import Documents

_TOKENS_PER_BATCH = 8192  # padded tokens of one evaluation batch; bounds memory on long documents
_CALIBRATION_BINS = 15  # the usual number of bins of the expected calibration error


@dataclass(frozen=True)
class Predictions:
    """Probabilities `(documents, classes)`, mean loss, and skipped and real words, in document order."""

    probabilities: NDArray[np.float32]
    loss: float
    skipped_words: float | None
    words: int


@dataclass(frozen=True)
class Report:
    """What `readtrace evaluate` tells; rates and accuracies are shares from 0 to 1."""

    documents: int
    accuracy: float
    macro_f1: float
    loss: float
    calibration_error: float
    skip_rate: float | None
    confusion: list[list[int]]  # [true class][predicted class]
    accuracy_by_length: list[dict[str, float]]  # per decile: shortest, longest, documents, accuracy

    def as_dict(self) -> dict[str, object]:
        """For JSON; measures that the model does not have are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@torch.inference_mode()
def predict(model: Architecture, documents: Documents, device: torch.device) -> Predictions:
    """Class probabilities of every document; leaves the model in evaluation mode."""
    model.eval()
    classes = model.classifier.out_features
    probabilities = np.zeros((len(documents), classes), dtype=np.float32)
    loss, skipped, words = 0.0, 0.0, 0
    skips = False
    for rows in _bounded_batches(documents.lengths):
        batch = make_batch(documents, rows).to(device)
        answer = model(batch.token_ids, batch.lengths)
        loss += float(functional.cross_entropy(answer.logits, batch.labels, reduction="sum"))
        probabilities[rows] = functional.softmax(answer.logits, dim=-1).cpu().numpy()
        real = int(batch.lengths.sum())
        words += real
        if answer.skip_rate is not None:
            skips = True
            skipped += float(answer.skip_rate) * real
    return Predictions(probabilities, loss / len(documents), skipped if skips else None, words)


def evaluate(model: Architecture, documents: Documents, device: torch.device) -> Report:
    """Accuracy, macro F1, confusion, calibration error, accuracy by length decile and skip rate."""
    from sklearn.metrics import confusion_matrix, f1_score

    found = predict(model, documents, device)
    predicted = found.probabilities.argmax(axis=1)
    classes = list(range(found.probabilities.shape[1]))
    right = predicted == documents.labels
    return Report(
        documents=len(documents),
        accuracy=float(right.mean()),
        macro_f1=float(
            f1_score(documents.labels, predicted, labels=classes, average="macro", zero_division=0)
        ),
        loss=found.loss,
        calibration_error=_calibration_error(found.probabilities.max(axis=1), right),
        skip_rate=None if found.skipped_words is None else found.skipped_words / found.words,
        confusion=confusion_matrix(documents.labels, predicted, labels=classes).tolist(),
        accuracy_by_length=_accuracy_by_length(documents.lengths, right),
    )


def _bounded_batches(lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    batches = []
    for rows in sorted_batches(lengths, 256):
        size = max(1, _TOKENS_PER_BATCH // int(lengths[rows].max()))
        batches += [rows[start : start + size] for start in range(0, len(rows), size)]
    return batches


def _calibration_error(confidence: NDArray[np.float32], right: NDArray[np.bool_]) -> float:
    """Expected calibration error: mean |accuracy - confidence| over bins of equal width."""
    bins = np.minimum((confidence * _CALIBRATION_BINS).astype(int), _CALIBRATION_BINS - 1)
    gaps = [
        abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean()
        for b in range(_CALIBRATION_BINS)
        if (bins == b).any()
    ]
    return float(sum(gaps))


def _accuracy_by_length(lengths: NDArray[np.int64], right: NDArray[np.bool_]) -> list[dict[str, float]]:
    order = np.argsort(lengths, kind="stable")
    return [
        {
            "shortest": int(lengths[part].min()),
            "longest": int(lengths[part].max()),
            "documents": len(part),
            "accuracy": float(right[part].mean()),
        }
        for part in np.array_split(order, 10)
        if len(part)
    ]
