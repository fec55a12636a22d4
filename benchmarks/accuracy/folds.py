"""Ten-fold cross-validation: one file of labelled rows becomes training, dev and test rows of each fold.

The rows are shuffled once, since the sources order some sets by label; fold k's test rows are every tenth row of that
order, and a tenth of the others chooses the epoch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

from benchmarks.accuracy.results import locked

_SEED = 13
_DEV_SHARE = 10


def write_fold(source: Path, fold: int, folds: int, folder: Path) -> dict[str, str]:
    """Write the three files of fold `fold` (from 1) and return their paths by split; what is there stays.

    Models that are trained at once share them: the first writes, the others wait.
    """
    paths = {split: folder / f"{split}.jsonl" for split in ("train", "dev", "test")}
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock"):
        _write(source, fold, folds, paths)
    return {split: str(path.absolute()) for split, path in paths.items()}


def _write(source: Path, fold: int, folds: int, paths: Mapping[str, Path]) -> None:
    if not all(path.exists() for path in paths.values()):
        with gzip.open(source, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        Random(_SEED).shuffle(rows)
        rest = [row for index, row in enumerate(rows) if index % folds != fold - 1]
        splits = {
            "test": rows[fold - 1 :: folds],
            "dev": rest[::_DEV_SHARE],
            "train": [row for index, row in enumerate(rest) if index % _DEV_SHARE],
        }
        for split, chosen in splits.items():
            partial = paths[split].with_name(f".{split}.partial")
            partial.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
            partial.replace(paths[split])
