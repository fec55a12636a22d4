"""Golden cases: tiny networks with every weight, input, per-word state and answer written out, as JSON.

A file has a `model`, and `cases` with `name`, `config`, `weights` (`(out, in)`, possibly nested by part), and
`sequences` of words `x` with `steps`, one object of values per word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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

    def check(self) -> None:
        """Make sure that there is something to read, and a step for every word where there are steps.

        Raises:
            ValueError: what was expected and what was found.
        """
        if not self.sequences:
            raise ValueError("expected sequences, found none")
        for number, content in enumerate(self.sequences, start=1):
            words, steps = len(content["x"]), content.get("steps")
            if not words:
                raise ValueError(f"sequence {number}: expected words, found none")
            if content.get("length", words) != words:
                raise ValueError(f"sequence {number}: expected {content['length']} words, found {words}")
            if steps is not None and len(steps) != words:
                raise ValueError(
                    f"sequence {number}: expected a step for each of {words} words, found {len(steps)}"
                )

    def has(self, sequence: int, name: str) -> bool:
        """Whether words of a sequence have a value of that name; those of a part are called `part.name`."""
        steps: list[dict[str, Any]] = self.sequences[sequence].get("steps", [])
        return any(_value(step, name) is not None for step in steps)

    def final(self, sequence: int, name: str) -> Tensor | None:
        """A value after the last word, in float64, where the file says it apart from the words' values."""
        value = self.sequences[sequence].get("final", {}).get(name)
        return None if value is None else torch.tensor(value, dtype=torch.float64)

    def expected(self, sequence: int, name: str) -> Tensor:
        """A value after every word, `(time, …)`, in float64.

        Raises:
            ValueError: a word has none.
        """
        values = [_value(step, name) for step in self.sequences[sequence]["steps"]]
        if None in values:
            raise ValueError(f"expected {name} at every word, found none at word {1 + values.index(None)}")
        return torch.tensor(values, dtype=torch.float64)

    def names(self) -> set[str]:
        """Of the values after every word and after the last one."""
        steps = [step for content in self.sequences for step in content.get("steps", [])]
        places = [*steps, *(content.get("final", {}) for content in self.sequences)]
        return {name for place in places for name in _names(place)}

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
        cases = [
            Case(
                model=_text(file["model"]),
                name=_text(case["name"]),
                config=dict(case["config"]),
                weights=_flat(case["weights"]),
                sequences=[dict(sequence) for sequence in case["sequences"]],
                batch=case.get("batch", {}),
                penalties=case.get("penalty_per_scale", []),
            )
            for case in file["cases"]
        ]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            path,
            None,
            "expected a golden file with model and cases of name, config, weights, sequences; "
            f"found a fault at {error}",
        ) from error
    if not cases:
        raise DataError(path, None, "expected cases, found none")
    return cases


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a name, found {value}")
    return value


def _names(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name


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
