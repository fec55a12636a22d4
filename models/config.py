"""The configuration of a run: recipe file, overrides, and the record that a run folder keeps."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from models.architectures.lstm import LSTMConfig
from models.architectures.registry import AnyModelConfig
from models.errors import ConfigError
from models.text.tokenizer import TokenizerConfig

_TYPES = {"int", "float", "str", "bool"}  # in the place of a value that may have several forms
RECIPES = Path(__file__).parent / "recipes"


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(_Config):
    """The labelled files and what their rows mean."""

    name: str = "unnamed data"  # shown in the card
    terms: str = "not stated"  # terms of use, shown in the card
    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()  # none: a seeded share of the training rows
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    text_column: str = "text"
    label_column: str = "label"
    labels: tuple[str, ...] = ()  # none: the distinct labels of the training rows
    # label as written -> class name; an empty name leaves the row out. For the training files only.
    label_map: dict[str, str] = {}
    # the sentiment of each class from -1 to 1, in label order; none: the classes have no polarity
    polarity: tuple[Annotated[float, Field(ge=-1, le=1)], ...] = ()


class VectorsConfig(_Config):
    """Pretrained word vectors; several files are put side by side."""

    files: tuple[str, ...] = ()


class EncoderConfig(_Config):
    """A pretrained transformer encoder in place of word vectors."""

    # a folder in Hugging Face's form: a path, or package:NAME/FOLDER in an installed package; none: word vectors
    folder: str = ""


class TrainingConfig(_Config):
    """How the weights are found."""

    optimizer: Literal["adam", "adagrad", "adamw"] = "adam"
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Literal["constant", "linear"] = "constant"  # linear: down to zero at the last epoch's end
    weight_decay: float = Field(
        0.0, ge=0
    )  # L2, added to the gradient; adamw: apart from it, on matrices only; never on a timescale
    # two-step training: so many of the epochs come first and leave the word vectors or the encoder as they are
    frozen_epochs: int = Field(0, ge=0)
    frozen_learning_rate: float | None = Field(None, gt=0)  # none: learning_rate
    clip_norm: float = Field(5.0, gt=0)
    batch_size: int = Field(32, ge=1)
    epochs: int = Field(10, ge=1)
    patience: int = Field(
        3, ge=1
    )  # epochs without a better dev accuracy, or the same at less loss, before stopping early
    # share of words replaced by the unknown word in training
    word_dropout: float = Field(0.0, ge=0, lt=1)
    # schedule-training (Leap-LSTM paper, 4.3.2): in epoch i also mask max(0, start - i * step), i from 1
    schedule_mask_start: float = Field(0.0, ge=0, lt=1)
    schedule_mask_step: float = Field(0.15, gt=0)
    # exponential moving average of the weights, used for evaluation and export; 0: off
    average_decay: float = Field(0.0, ge=0, lt=1)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    longest: int | None = Field(None, ge=1)  # tokens of a training document that are read; None: all
    evaluations_per_epoch: int = Field(1, ge=1)
    seed: int = Field(1, ge=0, lt=2**63)


class RunConfig(_Config):
    """Everything that decides a run's result, besides the files' contents."""

    recipe: str = "none"
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    vectors: VectorsConfig = VectorsConfig()
    encoder: EncoderConfig = EncoderConfig()
    model: AnyModelConfig = LSTMConfig()
    training: TrainingConfig = TrainingConfig()


def list_recipes() -> list[str]:
    """Names of the recipes that ship."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load_config(
    recipe: str | None, overrides: Mapping[str, object], settings: Sequence[str] = ()
) -> RunConfig:
    """A run's configuration: the recipe, then options, then `--set` lines.

    Args:
        recipe: the name of a recipe that ships, or a path to a TOML file; None for the defaults.
        overrides: dotted key -> value; values of None are passed over.
        settings: `dotted.key=value` lines, the value in TOML or a bare word.

    Raises:
        ConfigError: an unknown recipe, key or value.
    """
    tree = _read_recipe(recipe) if recipe else {}
    for key, value in overrides.items():
        if value is not None:
            _put(tree, key, value)
    for line in settings:
        key, equals, text = line.partition("=")
        if not equals:
            raise ConfigError(f"--set expects key=value, for example training.epochs=5, found '{line}'")
        _put(tree, key.strip(), _parse_value(text.strip()))
    model = tree.setdefault("model", {})
    if isinstance(model, dict):
        model.setdefault("architecture", "lstm")
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(explain_all(error)) from error


def _read_recipe(recipe: str) -> dict[str, object]:
    path = RECIPES / f"{recipe}.toml" if recipe in list_recipes() else Path(recipe)
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"no recipe '{recipe}': expected a TOML file or one of {list_recipes()}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected a TOML recipe: {error}") from error
    return {"recipe": path.stem, **tree}


def _put(tree: dict[str, object], key: str, value: object) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        child = tree.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"no setting '{key}': '{parent}' holds a value, not settings")
        tree = child
    tree[last] = value


def _parse_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word, such as an architecture's name


def explain_all(error: ValidationError, what: str = "setting") -> str:
    """What is wrong with which settings, or other entries, a line for each."""
    problems: dict[str, list[ErrorDetails]] = {}
    for problem in error.errors(include_url=False):
        problems.setdefault(_name_of(problem), []).append(problem)
    # a list is also found too short without the entry that is wrong
    parts = [key for key in problems if not any(other.startswith(f"{key}.") for other in problems)]
    return "\n".join(_explain(f"{what} '{key}'" if key else "", problems[key]) for key in parts)


def _name_of(problem: ErrorDetails) -> str:
    """The setting's name, as `--set` has it."""
    location = problem["loc"]
    if location[:1] == ("config",):
        location = location[1:]  # of a run's record
    if location[:1] == ("model",):
        location = location[:1] + location[2:]  # without the architecture, which no setting's name has
    return ".".join(part for part in map(str, location) if part not in _TYPES and not part.endswith("]"))


def _explain(entry: str, problems: Sequence[ErrorDetails]) -> str:
    """One for each form that the value may have."""
    if problems[0]["type"] == "extra_forbidden":
        return f"no {entry}"
    messages = ", or: ".join(problem["msg"] for problem in problems)
    if not entry:
        return messages  # of the whole, which is not to be repeated here
    return f"{entry}: {messages}, found {problems[0]['input']!r}"
