"""What golden cases say of the loss: penalties of MODE-LSTM's scales, Leap-LSTM's skip rate and penalty of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from models.architectures.mode import Orthogonality, orthogonality_penalty
from models.golden import plain
from models.golden.cases import Case

_ORTHOGONALITY: Mapping[str, Orthogonality] = {
    "gram_of_flattened_W": "matrices",
    "gram_of_flattened_candidate_block": "candidate_only",
    "literal_eq7_4p_by_4p": "equation_7",
}


def read(case: Case) -> Iterator[tuple[Tensor, float]]:
    """Each value found with the one of the file; nothing where the file says nothing of the loss.

    Raises:
        KeyError: a penalty of no such kind, or a scale or a target that is missing.
        ValueError: another number of scales.
    """
    if case.penalties:
        scales = case.config["scales"]
        for n, expected in zip(range(1, 1 + len(scales)), case.penalties, strict=True):
            for name, value in expected.items():
                yield orthogonality_penalty(case.weights[f"scale_{n}.W"], _ORTHOGONALITY[name]), value
    if case.batch:
        skips = torch.cat([plain.read(case, n)["skip"] for n in range(len(case.sequences))])
        rate = skips.mean()
        yield rate, case.batch["soft_skip_rate"]
        yield case.batch["lambda"] * (case.batch["target"] - rate) ** 2, case.batch["penalty"]
