"""What `readtrace train` and `readtrace evaluate` do, from options to a finished run folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console

from models.architectures.registry import build, resolve
from models.config import RunConfig
from models.data.documents import BadRows, encode_rows, load_rows
from models.data.labels import given_labels
from models.data.rows import Columns
from models.errors import ConfigError, RunError
from models.memory import memory_bounded
from models.preparation import Prepared, prepare
from models.reports import show_bad_rows, show_prepared, show_report, show_shortened
from models.text.tokenizer import vocabulary
from models.training.evaluate import Report, evaluate
from models.training.progress import ConsoleProgress
from models.training.run_folder import RunFolder
from models.training.trainer import Trainer

_LONGEST_NAME = 100  # bytes of a split's name, which is part of a file's


@dataclass(frozen=True)
class RunOptions:
    """Where and how a command runs. A run keeps its root and whether it skips bad rows; `resume` goes by them.

    Results are the same on the same device with the same number of threads; some architectures add up in another
    order on another number.
    """

    root: Path | None = (
        None  # where relative paths start; None: in the current folder, or where the run has it
    )
    device: str = "auto"
    threads: int = 1  # recurrent steps are too small to be shared: two threads were slower than one
    skip_bad_rows: bool = False

    def bad_rows(self) -> BadRows | None:
        """Takes note of bad rows where they are to be skipped."""
        return BadRows() if self.skip_bad_rows else None


@memory_bounded()
def train(config: RunConfig, out: Path, options: RunOptions, console: Console) -> None:
    """Train a new run in the folder `out`.

    Raises:
        ReadtraceTrainingError: bad configuration, data, vectors, or a folder that holds a run already.
    """
    folder = RunFolder(out)
    folder.require_free()  # before minutes of reading
    device = choose_device(options.device)
    bad = options.bad_rows()
    prepared = prepare(config, options.root or Path(), bad, console)
    show_bad_rows(bad, console)
    show_prepared(prepared, console)
    with ConsoleProgress(console) as progress:
        trainer = _trainer(prepared, folder, options, device, progress)
        with folder.claimed():
            folder.create(prepared.record, prepared.tokenizer, trainer.model.encoder)
            _finish(trainer, console)


@memory_bounded()
def resume(out: Path, options: RunOptions, console: Console, config: RunConfig | None = None) -> None:
    """Go on with a run that was stopped; its configuration and tokenizer are those of its folder.

    Args:
        out: the run folder.
        options: device, threads; root and bad rows where they are others than the run began with.
        console: where the run's measures are shown.
        config: what is asked for anew, which must be what the run began with; None: nothing is.

    Raises:
        ReadtraceTrainingError: no run in the folder, another configuration, or data that has changed or gone.
    """
    folder = RunFolder(out)
    if not folder.exists():
        raise RunError(f"{out}: holds no run to go on with: begin one without --resume")
    record = folder.record()
    if config is not None:
        asked = config.model_copy(update={"model": resolve(config.model, record.mean_length)})
        if changed := _changed(record.config.model_dump(), asked.model_dump()):
            raise RunError(
                f"{out}: --resume expects the options that the run began with, or none of them: {changed}"
            )
    device = choose_device(options.device)
    options = replace(options, skip_bad_rows=options.skip_bad_rows or record.skip_bad_rows)
    root = record.root_folder(options.root)
    prepared = prepare(record.config, root, options.bad_rows(), console, folder.tokenizer())
    where = {"root", "skip_bad_rows"}  # may be others, as long as they lead to the same data
    if changed := _changed(
        record.model_dump(exclude_none=True, exclude=where), prepared.record.model_dump(exclude=where)
    ):
        raise RunError(f"{out}: the data has changed since the run began: {changed}")
    with ConsoleProgress(console) as progress:
        trainer = _trainer(prepared, folder, options, device, progress)
        with folder.claimed():
            trainer.resume()
            _finish(trainer, console)


@memory_bounded()
def evaluate_file(
    run: Path, data: Path, columns: Columns | None, name: str | None, options: RunOptions, console: Console
) -> Report:
    """Measure a run's best weights on a labelled file, show the measures and keep them in the run folder.

    Args:
        run: the run folder.
        data: the labelled file; its labels are class names or their positions.
        columns: None for those of the training file.
        name: the split's name in the report, `test` for instance; None for the file's name up to its first dot.
        options: device, threads, bad rows.
        console: where the measures are shown.

    Raises:
        ReadtraceTrainingError: no run, or a name or file that cannot be used.
    """
    split = name or data.name.split(".")[0]
    if not re.fullmatch(r"[^/\0]+", split) or len(split.encode()) > _LONGEST_NAME:
        raise ConfigError(
            f"--name: expected 1 to {_LONGEST_NAME} bytes without a slash, found {len(split.encode())}: '{split}'"
        )
    folder = RunFolder(run)
    record = folder.record()
    if folder.unfinished():
        console.print(
            f"warning: the training of {run} has not ended; better weights will remove this", style="yellow"
        )
    torch.set_num_threads(options.threads)
    bad = options.bad_rows()
    trained_on = record.config.data
    rows = load_rows([data], columns or Columns(trained_on.text_column, trained_on.label_column), bad)
    device = choose_device(options.device)
    model = folder.model(device)
    longest = None if model.encoder is None else model.encoder.positions
    documents = encode_rows(rows, given_labels(record.labels, {}), folder.tokenizer(), bad, longest)
    show_bad_rows(bad, console)
    show_shortened(documents, "", console)
    report = evaluate(model, documents, device)
    show_report(report, record.labels, console)
    folder.write_evaluation(split, json.dumps({"file": data.name, **report.as_dict()}, indent=2))
    return report


def choose_device(name: str) -> torch.device:
    """The device to compute on; `auto` takes a CUDA card where there is one.

    Raises:
        ConfigError: CUDA is asked for and there is none, or the name is none of auto, cpu, cuda.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"--device expects auto, cpu or cuda, found '{name}'")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch finds no CUDA card here; use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def _trainer(
    prepared: Prepared,
    folder: RunFolder,
    options: RunOptions,
    device: torch.device,
    progress: ConsoleProgress,
) -> Trainer:
    torch.set_num_threads(options.threads)
    config = prepared.record.config
    torch.manual_seed(config.training.seed)
    known = vocabulary(prepared.tokenizer)
    model = build(config.model, prepared.words, len(prepared.record.labels), known)
    return Trainer(model.to(device), config.training, prepared.train, prepared.dev, folder, progress)


def _changed(began: Mapping[str, object], now: Mapping[str, object], within: str = "") -> str:
    """The entries of `began` that are others `now`, named with dots; empty where there are none."""
    found = []
    for name, old in began.items():
        new = now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found.append(_changed(old | dict.fromkeys(new.keys() - old.keys()), new, f"{within}{name}."))
        elif old != new:
            found.append(f"{within}{name} was {old}, is {new}")
    return "; ".join(entry for entry in found if entry)


def _finish(trainer: Trainer, console: Console) -> None:
    position = trainer.train()
    console.print(
        f"best dev accuracy {position.best_accuracy:.4f} after epoch {position.best_epoch:g}; "
        f"the run is in {trainer.folder.path}",
        highlight=False,
    )
