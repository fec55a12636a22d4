"""Length-bucketed batches, the same for the same seed and epoch, so that a killed epoch can go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.data.documents import Documents

_POOL_BATCHES = 50  # batches whose documents are sorted together: little padding, enough shuffling


@dataclass(frozen=True)
class Batch:
    """Documents of similar length.

    Attributes:
        token_ids: int64 `(batch, time)`, right-padded with 0.
        lengths: int64 `(batch,)`, tokens of each document.
        labels: int64 `(batch,)`, class indices.
    """

    token_ids: Tensor
    lengths: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        return Batch(self.token_ids.to(device), self.lengths.to(device), self.labels.to(device))


def shuffled_batches(lengths: NDArray[np.int64], size: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Row numbers of each batch of an epoch: shuffled, sorted by length within pools, batches shuffled."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(lengths))
    pool = size * _POOL_BATCHES
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(order), pool):
        members = order[start : start + pool]
        members = members[np.argsort(lengths[members], kind="stable")]
        batches += [members[first : first + size] for first in range(0, len(members), size)]
    return [batches[index] for index in random.permutation(len(batches))]


def sorted_batches(lengths: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    """Row numbers of batches in order of length, for evaluation: the least padding."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def make_batch(documents: Documents, rows: NDArray[np.int64]) -> Batch:
    """Pad the given documents into one batch."""
    chosen = [documents.token_ids[row] for row in rows]
    lengths = np.array([len(ids) for ids in chosen], dtype=np.int64)
    token_ids = np.zeros((len(chosen), int(lengths.max())), dtype=np.int64)
    for row, ids in enumerate(chosen):
        token_ids[row, : len(ids)] = ids
    return Batch(
        torch.from_numpy(token_ids), torch.from_numpy(lengths), torch.from_numpy(documents.labels[rows])
    )
