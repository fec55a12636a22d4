"""A made-up task that a word decides, and runs trained on it in a second.

As a command it trains such a run and saves a checkpoint after every batch, so that a test can kill it between two:

    python -m tests.models.tiny_run DATA OUT VARIANT
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

from rich.console import Console

from models.commands import RunOptions, train
from models.config import RunConfig, load_config
from models.training import trainer
from models.training.run_folder import RunFolder
from tests.architectures import VARIANTS

OPTIONS = RunOptions(device="cpu", threads=1)


def write_documents(path: Path, count: int = 300, seed: int = 0) -> Path:
    """A CSV file of short documents; `good` or `bad` somewhere in them decides."""
    draw = random.Random(seed)
    filler = [f"word{number}" for number in range(20)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(count):
            words = draw.choices(filler, k=draw.randint(2, 14))
            word, label = (("good", "positive"), ("bad", "negative"))[number % 2]
            words.insert(draw.randint(0, len(words)), word)
            writer.writerow([" ".join(words), label])
    return path


def tiny_config(data: Path, variant: str, *settings: str) -> RunConfig:
    """Three epochs of a form in the table, with every source of randomness switched on; `settings` win."""
    model = VARIANTS[variant].config
    options = {"embedding_size": 8, "dropout": 0.2, **model.model_dump(exclude_unset=True)}
    return load_config(
        None,
        {
            "data.train": [str(data)],
            "data.polarity": [-1.0, 1.0],
            "model": {"architecture": model.architecture, **options},
        },
        [
            "training.batch_size=16",
            "training.learning_rate=0.02",
            "training.epochs=3",
            "training.word_dropout=0.1",
            "training.average_decay=0.5",
            *settings,
        ],
    )


def tiny_run(data: Path, out: Path, variant: str, *settings: str) -> RunFolder:
    train(tiny_config(data, variant, *settings), out, OPTIONS, Console(quiet=True))
    return RunFolder(out)


if __name__ == "__main__":
    trainer._CHECKPOINT_SECONDS = 0.0
    tiny_run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
