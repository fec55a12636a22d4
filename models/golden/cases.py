"""Golden cases: tiny networks with every weight, input, per-word state and answer written out, as JSON.

A file has a `model`, and `cases` with `name`, `config`, `weights` (`(out, in)`, possibly nested by part), and
`sequences` of words `x` with `steps`, one object of values per word.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.errors import DataError
from models.plain.gates import Weights

_DIRECTIONS = {"fwd": "forward", "bwd": "backward"}  # files write the names of parts out or short


@dataclass(frozen=True)
class Case:
    """One network of a golden file."""

    model: str
    name: str
    config: dict[str, Any]
    weights: Weights  # those of a part are called `part.name`
    sequences: list[dict[str, Any]]
    batch: dict[str, float]  # what holds for all sequences together
    penalties: list[dict[str, float]]  # of each scale of MODE-LSTM, by what is to be orthogonal
    dtype: torch.dtype = torch.float64

    def to(self, dtype: torch.dtype) -> Case:
        """The same case in another precision."""
        weights = {name: weight.to(dtype) for name, weight in self.weights.items()}
        return replace(self, weights=weights, dtype=dtype)

    def words(self, sequence: int) -> Tensor:
        """The embedded words of a sequence, `(time, input)`."""
        return torch.tensor(self.sequences[sequence]["x"], dtype=self.dtype)

    def has(self, sequence: int, name: str) -> bool:
        """Whether the words of a sequence have a value of that name; those of a part are called `part.name`."""
        steps: list[dict[str, Any]] = self.sequences[sequence].get("steps", [])
        return bool(steps) and _value(steps[0], name) is not None

    def final(self, sequence: int, name: str) -> Tensor | None:
        """A value after the last word, in float64, where the file says it apart from the words' values."""
        value = self.sequences[sequence].get("final", {}).get(name)
        return None if value is None else torch.tensor(value, dtype=torch.float64)

    def expected(self, sequence: int, name: str) -> Tensor:
        """A value after every word, `(time, …)`, in float64."""
        steps = self.sequences[sequence]["steps"]
        return torch.tensor([_value(step, name) for step in steps], dtype=torch.float64)

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """A table of all word vectors, padding first; token ids `(batch, time)` into it; lengths."""
        words = [self.words(sequence) for sequence in range(len(self.sequences))]
        lengths = torch.tensor([len(x) for x in words])
        table = torch.cat([torch.zeros_like(words[0][:1]), *words])
        ids = torch.zeros(len(words), int(lengths.max()), dtype=torch.int64)
        first = 1
        for row, length in enumerate(lengths.tolist()):
            ids[row, :length] = torch.arange(first, first + length)
            first += length
        return table, ids, lengths


def read_cases(path: Path) -> list[Case]:
    """The cases of a file.

    Raises:
        DataError: it cannot be read, or has another form.
    """
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
        return [
            Case(
                model=file["model"],
                name=case["name"],
                config=case["config"],
                weights=_flat(case["weights"]),
                sequences=case["sequences"],
                batch=case.get("batch", {}),
                penalties=case.get("penalty_per_scale", []),
            )
            for case in file["cases"]
        ]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            path,
            None,
            "expected a golden file with model and cases of name, config, weights, sequences; "
            f"found a fault at {error}",
        ) from error


def _value(step: dict[str, Any], name: str) -> Any:
    value: Any = step
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _flat(weights: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
    flat: dict[str, Tensor] = {}
    for name, value in weights.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{_DIRECTIONS.get(name, name)}.")
        else:
            flat[prefix + name] = torch.tensor(value, dtype=torch.float64)
    return flat
