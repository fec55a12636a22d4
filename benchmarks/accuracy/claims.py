"""The papers' claims held against the results (claims.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import mean, stdev
from typing import Literal

from pydantic import BaseModel, ConfigDict
from scipy.stats import t as student_t

from benchmarks.accuracy.grid import HERE, Unit
from benchmarks.accuracy.results import RowResult

_SURE = 0.975  # on either side
_FOLD_OVERLAP = 1 / 9  # a fold's test split over what is left to train on


class Claim(BaseModel):
    """`better` is at least `margin` points above `than`, as means over rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    better: tuple[str, ...]
    than: tuple[str, ...]
    margin: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim; figures in percent and points."""

    claim: Claim
    outcome: Literal["holds", "does not hold", "within noise", "not measured"]
    better: float = 0.0
    than: float = 0.0
    error: float = 0.0  # standard error of the difference
    units: int = 0  # trainings that both sides share
    parameters: tuple[int, int] = (0, 0)  # of the largest network on either side, without word vectors


def read_claims() -> list[Claim]:
    """The claims in the papers' order."""
    with (HERE / "claims.toml").open("rb") as file:
        return [Claim.model_validate(claim) for claim in tomllib.load(file)["claims"]]


def judge(claim: Claim, results: Mapping[str, RowResult]) -> Verdict:
    """Compare both sides on the seeds and folds that they share, pair by pair.

    `within noise`: the difference is one that chance alone gives in more than one case of twenty, by Student's t with
    the degrees of freedom of Welch and Satterthwaite, since two or three seeds tell little of their own spread. Where
    they have none, as a single one, it is that of the test split's size. Folds train on much the same texts, so their
    variance over n is too small: it is corrected (Nadeau and Bengio, Inference for the Generalization Error, 2003).
    """
    differences, errors, better, than, units = [], [], [], [], 0
    uncertainty = 0.0  # of the errors themselves
    for left, right in zip(claim.better, claim.than, strict=True):
        pairs = _pairs(results.get(left), results.get(right))
        if not pairs:
            return Verdict(claim, "not measured")
        gaps = [round(100 * (a - b), 9) for a, b in pairs]  # equal ones are equal
        differences.append(mean(gaps))
        if len(set(gaps)) > 1:
            overlap = _FOLD_OVERLAP if next(iter(results[left].units)).startswith("fold") else 0.0
            errors.append(stdev(gaps) * sqrt(1 / len(gaps) + overlap))
            uncertainty += errors[-1] ** 4 / (len(gaps) - 1)
        else:
            errors.append(_sampling_error(results[left], pairs[0]))
        better.append(100 * mean(a for a, _ in pairs))
        than.append(100 * mean(b for _, b in pairs))
        units += len(pairs)
    variance = sum(one**2 for one in errors)
    error = sqrt(variance) / len(errors)
    freedom = variance**2 / uncertainty if uncertainty else inf
    gap = mean(differences) - claim.margin
    outcome: Literal["holds", "does not hold", "within noise"] = "holds" if gap >= 0 else "does not hold"
    if abs(gap) < error * student_t.ppf(_SURE, freedom):
        outcome = "within noise"
    parameters = _most_parameters(claim.better, results), _most_parameters(claim.than, results)
    return Verdict(claim, outcome, mean(better), mean(than), error, units, parameters)


def common_units(results: Sequence[RowResult]) -> list[Unit]:
    """The trainings that all of some rows have."""
    names = set.intersection(*(set(result.units) for result in results)) if results else set()
    return sorted(
        Unit("fold" if name.startswith("fold") else "seed", int(name.rpartition("-")[2])) for name in names
    )


def _pairs(left: RowResult | None, right: RowResult | None) -> list[tuple[float, float]]:
    if left is None or right is None:
        return []
    return [
        (left.units[str(unit)].test_accuracy, right.units[str(unit)].test_accuracy)
        for unit in common_units([left, right])
    ]


def _most_parameters(rows: Sequence[str], results: Mapping[str, RowResult]) -> int:
    return max(results[row].parameters for row in rows)


def _sampling_error(result: RowResult, pair: tuple[float, float]) -> float:
    """In points, as if both models erred independently: an upper bound for two models on one split."""
    unit = next(iter(result.units.values()))
    documents = sum(decile.documents for decile in unit.test_by_length)
    return 100 * sqrt(sum(share * (1 - share) for share in pair) / documents)
