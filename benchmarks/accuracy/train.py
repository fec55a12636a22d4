"""Trainings of the grid: each unit becomes a run folder and a record in its row's result file.

A unit that has a record is passed over, one that was killed goes on where it stopped, and several processes share the
work. The test split is read once, when the training has ended; every choice was made on dev.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy.folds import write_fold
from benchmarks.accuracy.grid import Row, Unit
from benchmarks.accuracy.results import UnitResult, changed_result, claimed, read_result
from models.commands import RunOptions, evaluate_file, resume, train
from models.training.run_folder import CONFIG, METRICS, RunFolder


def train_rows(rows: Sequence[Row], only: int | None, root: Path, runs: Path, options: RunOptions) -> None:
    """Train what has no result yet: every row's first unit, then every row's second one, and so on.

    Args:
        rows: the rows.
        only: the one seed or fold to train; None: all.
        root: the folder that holds data/ and embeddings/.
        runs: where run folders go.
        options: device and threads.

    Raises:
        SystemExit: no row has a seed or fold of the number `only`.
        ReadtraceTrainingError: a training that cannot be done.
    """
    waiting = [
        (position, index, row, unit)
        for index, row in enumerate(rows)
        for position, unit in enumerate(row.units)
        if only in (None, unit.number)
    ]
    if not waiting:
        numbers = sorted({unit.number for row in rows for unit in row.units})
        raise SystemExit(f"--only {only}: the seeds and folds of these rows are {numbers}")
    for _, _, row, unit in sorted(waiting, key=lambda item: item[:2]):
        folder = run_folder(runs, row, unit)
        with claimed(folder.parent / f".{folder.name}.lock") as mine:
            if mine and str(unit) not in read_result(row).units:
                _train(row, unit, root, folder, options)


def run_folder(runs: Path, row: Row, unit: Unit) -> Path:
    """Where a unit's run lies."""
    return runs / row.set_name / row.model_name / str(unit)


def _train(row: Row, unit: Unit, root: Path, folder: Path, options: RunOptions) -> None:
    console = Console(stderr=True)
    console.rule(f"{row.name} {unit}")
    files = _files(row, unit, root, folder.parents[1])
    config = row.config(unit, files)
    resumed = (folder / CONFIG).exists()
    started = time.process_time()
    if resumed:
        resume(folder, options, console, config)
    else:
        train(config, folder, options, console)
    seconds = None if resumed else round(time.process_time() - started, 1)
    report = evaluate_file(folder, Path(files["test"]), None, "test", options, console)
    record = RunFolder(folder).record()
    lines = [json.loads(line) for line in (folder / METRICS).read_text(encoding="utf-8").splitlines()]
    best = max((line for line in lines if line["best"]), key=lambda line: line["epoch"])
    with changed_result(row) as result:
        result.parameters = _parameters(folder)
        result.model = record.config.model.model_dump(mode="json")
        result.training = record.config.training.model_dump(mode="json", exclude={"seed"})
        result.units[str(unit)] = UnitResult.model_validate(
            {
                "date": datetime.now(UTC).date().isoformat(),
                "dev_accuracy": best["dev_accuracy"],
                "test_accuracy": report.accuracy,
                "test_macro_f1": report.macro_f1,
                "skip_rate": report.skip_rate,
                "best_epoch": best["epoch"],
                "train_documents": record.train_documents,
                "training_cpu_seconds": seconds,
                "curve": [(line["epoch"], line["dev_accuracy"]) for line in lines],
                "test_by_length": report.accuracy_by_length,
            }
        )
        result.units = dict(sorted(result.units.items(), key=lambda item: int(item[0].rpartition("-")[2])))


def _files(row: Row, unit: Unit, root: Path, folds: Path) -> dict[str, str]:
    data = row.data.data
    if unit.kind == "fold":
        return write_fold(root / str(data["all"]), unit.number, row.data.folds, folds / f"fold-{unit.number}")
    train_files, dev_files = data["train"], data["dev"]
    assert isinstance(train_files, list)
    assert isinstance(dev_files, list)
    return {
        "train": str((root / train_files[0]).absolute()),
        "dev": str((root / dev_files[0]).absolute()),
        "test": str((root / str(data["test"])).absolute()),
    }


def _parameters(folder: Path) -> int:
    weights = RunFolder(folder).model().state_dict()
    return sum(tensor.numel() for name, tensor in weights.items() if not name.startswith("embedding."))
