"""`card.md`: what a model is, what it was trained on, and how good it is, in prose and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from app.manifest import Manifest
from export.proof import Proof
from models.config import RunConfig, explain_all
from models.errors import ReadtraceTrainingError
from models.training.run_folder import RunRecord

_FIELDS = "name, dev_accuracy, test_accuracy, source"
_SOURCES = {False: "Word vectors", True: "Encoder"}
_MEASURES = ("documents", "accuracy", "macro_f1", "calibration_error", "skip_rate")


class CardError(ReadtraceTrainingError):
    """A file of comparisons that cannot be used."""


@dataclass(frozen=True)
class Comparison:
    """Another model's measures on the same files, or a published figure."""

    name: str
    dev_accuracy: float | None
    test_accuracy: float | None
    source: str

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)


def read_comparisons(path: Path) -> list[Comparison]:
    """Comparisons from a JSON list of objects with name, dev_accuracy, test_accuracy and source.

    Raises:
        CardError: the file is missing or of another form.
    """
    try:
        return TypeAdapter(list[Comparison]).validate_json(path.read_bytes())
    except ValidationError as error:
        told = explain_all(error, "entry")
        raise CardError(f"{path}: expected a JSON list of {_FIELDS}: {told}") from error
    except OSError as error:
        raise CardError(f"{path}: expected a JSON list of {_FIELDS}: {error.strerror}") from error


def write_card(manifest: Manifest, record: RunRecord, proof: Proof, comparisons: Sequence[Comparison]) -> str:
    """The card's Markdown."""
    data, training = record.config.data, record.config.training
    lines = [
        f"# {manifest.name} {manifest.version}",
        "",
        f"A document classifier with the labels {', '.join(map(_line, manifest.labels))}.",
        "",
        f"- **Architecture**: {manifest.architecture}, {_sizes(manifest)}",
        f"- **Trace**: {manifest.trace.meaning} ({'causal' if manifest.trace.causal else 'not causal'})",
        f"- **Data**: {data.name}; {record.train_documents:,} training and {record.dev_documents:,} dev documents, "
        f"{record.mean_length:.0f} tokens on average",
        f"- **Terms of use of the data**: {data.terms}",
        f"- **Recipe**: `{record.config.recipe}`, seed {training.seed}; the epoch was chosen on dev",
        *(f"- **{_SOURCES[bool(record.config.encoder.folder)]}**: {line}" for line in record.coverage),
        f"- **Proof of the export**: {proof}",
        "",
        "## Measures",
        "",
        *_measures(manifest),
    ]
    if comparisons:
        lines += ["", "## Beside other models", "", *_comparisons(manifest, comparisons)]
    lines += ["", "## Settings", "", "```json", _settings(record.config), "```", ""]
    return "\n".join(lines)


def _settings(config: RunConfig) -> str:
    """As JSON; of absolute paths only the file's name: the folders of whoever trained are no business of others."""
    data, vectors, encoder = config.data, config.vectors, config.encoder
    shown = config.model_copy(
        update={
            "data": data.model_copy(update={"train": _names(data.train), "dev": _names(data.dev)}),
            "vectors": vectors.model_copy(update={"files": _names(vectors.files)}),
            "encoder": encoder.model_copy(update={"folder": _name(encoder.folder)}),
        }
    )
    # the numbers per word are those of the vectors or the encoder, and told among the sizes
    return shown.model_dump_json(indent=1, exclude={"model": {"embedding_size"}})


def _names(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(_name, paths))


def _name(path: str) -> str:
    return Path(path).name if Path(path).is_absolute() else path


def _sizes(manifest: Manifest) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in manifest.sizes.items())


def _measures(manifest: Manifest) -> list[str]:
    splits = manifest.training.metrics
    if not splits:
        return ["None: `readtrace evaluate` was not run before the export."]
    names = [name for name in _MEASURES if any(name in measures for measures in splits.values())]
    rows = [
        f"| split | {' | '.join(name.replace('_', ' ') for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for split, measures in splits.items():
        cells = [_number(name, measures.get(name)) for name in names]
        rows.append(f"| {_cell(split)} | {' | '.join(cells)} |")
    return rows


def _comparisons(manifest: Manifest, comparisons: Sequence[Comparison]) -> list[str]:
    splits = manifest.training.metrics
    own = Comparison(
        f"**{manifest.name}** (this model)",
        splits.get("dev", {}).get("accuracy"),
        splits.get("test", {}).get("accuracy"),
        "this bundle",
    )
    rows = ["| model | dev accuracy | test accuracy | source |", "|---|---|---|---|"]
    for entry in (own, *comparisons):
        dev, test = _number("accuracy", entry.dev_accuracy), _number("accuracy", entry.test_accuracy)
        rows.append(f"| {_cell(entry.name)} | {dev} | {test} | {_cell(entry.source)} |")
    return rows


def _cell(text: str) -> str:
    """Text that neither ends its cell nor its row."""
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())


def _number(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if name == "documents" else f"{value:.4f}"
