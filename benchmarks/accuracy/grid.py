"""The grid of the results table: sets.toml, models.toml and rows.toml become the configuration of each single run.

A **row** is a model on a set; a **unit** is one training of it: a seed, or a fold of a set that is cross-validated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.config import RunConfig, TrainingConfig

HERE = Path(__file__).parent
_FOLD_SEED = 1  # every fold starts from this seed: the folds are the repetition

Kind = Literal["seed", "fold"]
Tree = dict[str, object]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SetEntry(_Table):
    """A labelled set; exactly one of `seeds` and `folds` is given."""

    title: str
    task: str
    seeds: tuple[int, ...] = ()
    folds: int = Field(0, ge=0)
    data: Tree
    tokenizer: Tree = {}
    vectors: Tree = {}
    model: Tree = {}
    training: Tree = {}


class ModelEntry(_Table):
    """A model of one of the papers."""

    title: str
    explains: tuple[str, ...]  # as the choosing guide names it
    choice: bool = True  # false: evidence for a claim, which the choosing guide leaves out
    encoder: str = ""  # folder of a pretrained encoder, in place of the set's word vectors
    vectors: Tree = {}
    model: Tree
    training: Tree = {}


class RowEntry(_Table):
    """What a row changes, and what its paper reports, in percent."""

    paper: float | None = None
    paper_skip: float | None = None
    why: str = ""
    seeds: tuple[int, ...] | None = None
    model: Tree = {}
    training: Tree = {}


@dataclass(frozen=True, order=True)
class Unit:
    """One training."""

    kind: Kind
    number: int  # a seed, or a fold counted from 1

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True)
class Row:
    """A model on a set; `name` is `SET/MODEL`."""

    set_name: str
    model_name: str
    data: SetEntry
    model: ModelEntry
    entry: RowEntry
    defaults: Tree

    @property
    def name(self) -> str:
        """As the command line takes it."""
        return f"{self.set_name}/{self.model_name}"

    @property
    def units(self) -> tuple[Unit, ...]:
        """All trainings that the row's figure is the mean of."""
        if self.data.folds:
            return tuple(Unit("fold", fold) for fold in range(1, self.data.folds + 1))
        return tuple(Unit("seed", seed) for seed in self.entry.seeds or self.data.seeds)

    def config(self, unit: Unit, files: Mapping[str, str]) -> RunConfig:
        """The configuration of one training on the files `train` and, where the set has one, `dev`.

        Raises:
            ValidationError: the tables hold something that training does not know.
        """
        data = {
            key: value for key, value in self.data.data.items() if key not in ("all", "train", "dev", "test")
        }
        seed = _FOLD_SEED if unit.kind == "fold" else unit.number
        return RunConfig.model_validate(
            {
                "recipe": self.name,
                "data": {"name": f"{self.data.title}: {self.data.task}", **data}
                | {split: [path] for split, path in files.items() if split in ("train", "dev")},
                **self._words(),
                "model": self._merged("model") | self.model.model | self.entry.model,
                "training": self._merged("training")
                | self.model.training
                | self.entry.training
                | {"seed": seed},
            }
        )

    def training(self) -> TrainingConfig:
        """How the row is trained, seeds apart."""
        return self.config(self.units[0], {}).training

    def _words(self) -> Tree:
        if self.model.encoder:
            return {"encoder": {"folder": self.model.encoder}}
        return {
            "tokenizer": self._merged("tokenizer"),
            "vectors": self._merged("vectors") | self.model.vectors,
        }

    def _merged(self, section: str) -> Tree:
        default = self.defaults.get(section, {})
        own: Tree = getattr(self.data, section)
        assert isinstance(default, dict)
        return {**default, **own}


def read_grid() -> dict[str, Row]:
    """All rows by name, in the order of rows.toml.

    Raises:
        SystemExit: a table is wrong; the message says where.
    """
    sets = _read("sets.toml")
    defaults = sets.pop("defaults")
    models = _read("models.toml")
    grid: dict[str, Row] = {}
    for set_name, rows in _read("rows.toml").items():
        for model_name, entry in rows.items():
            try:
                assert isinstance(entry, dict)
                row = Row(
                    set_name,
                    model_name,
                    SetEntry.model_validate(sets[set_name]),
                    ModelEntry.model_validate(models[model_name]),
                    RowEntry.model_validate(entry),
                    defaults,
                )
                row.training()
            except (KeyError, ValidationError) as error:
                raise SystemExit(f"rows.toml: {set_name}/{model_name}: {error}") from error
            grid[row.name] = row
    return grid


def select(grid: Mapping[str, Row], patterns: tuple[str, ...]) -> Iterator[Row]:
    """The rows whose names match one of the shell patterns, in the grid's order; none given: all.

    Raises:
        SystemExit: a pattern matches no row.
    """
    from fnmatch import fnmatchcase

    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in grid):
            raise SystemExit(f"no row '{pattern}'; `python -m benchmarks.accuracy list` names them")
    for name, row in grid.items():
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns):
            yield row


def _read(name: str) -> dict[str, Tree]:
    with (HERE / name).open("rb") as file:
        return tomllib.load(file)
