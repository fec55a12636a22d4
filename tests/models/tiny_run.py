"""A made-up task that a word decides, and runs trained on it in a second.

As a command it trains such a run and saves a checkpoint after every batch, so that a test can kill it between two:

    python -m tests.models.tiny_run DATA OUT ARCHITECTURE
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

OPTIONS = RunOptions(device="cpu", threads=1)
SMALL: dict[str, list[str]] = {
    "lstm": ["model.hidden=12"],
    "cifg_lstm": ["model.hidden=12"],
    "clstm": ["model.hidden=12"],
    "b_clstm": ["model.architecture=clstm", "model.hidden=12", "model.bidirectional=true"],
    "rnn": ["model.hidden=12"],
    "gru": ["model.hidden=12"],
    "mtgru": ["model.hidden=12"],
    "hl_mtgru": ["model.hidden=12"],
    "bag_of_words": [],
    "mtlstm": ["model.hidden=12", "model.groups=2"],
    "leap_lstm": [
        "model.hidden=12",
        "model.reverse_hidden=4",
        "model.decision_hidden=6",
        "model.filters=4",
        "model.target_skip_rate=0.5",
    ],
    "skip_lstm": ["model.hidden=12"],
    "skim_lstm": ["model.hidden=12", "model.small_hidden=3"],
    "lstm_jump": ["model.hidden=12", "model.run=3", "model.longest_jump=3"],
    "mode_lstm_characters": [
        "model.architecture=mode_lstm",
        "model.scales=[2,4]",
        "model.state_size=6",
        "model.mlp=24",
        "model.characters=10",
    ],
    "mode_lstm": ["model.scales=[2,4]", "model.state_size=6", "model.mlp=24"],
    "ode_lstm": ["model.scales=[4]", "model.states=3", "model.state_size=4", "model.mlp=24"],
    "dlstm": ["model.scales=[4]", "model.state_size=12", "model.mlp=24"],
    "c_lstm": ["model.filter_width=3", "model.filters=12", "model.hidden=12"],
    "self_attentive_lstm": ["model.hidden=12", "model.attention=8", "model.hops=2", "model.mlp=24"],
    "text_cnn": ["model.filter_widths=[2,3]", "model.filters=24", "model.mlp=24"],
}


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


def tiny_config(data: Path, architecture: str, *settings: str) -> RunConfig:
    """Three epochs with every source of randomness switched on; `settings` win."""
    return load_config(
        None,
        {"data.train": [str(data)], "data.polarity": [-1.0, 1.0], "model.architecture": architecture},
        [
            "model.embedding_size=8",
            "model.dropout=0.2",
            *SMALL[architecture],
            "training.batch_size=16",
            "training.learning_rate=0.03",
            "training.epochs=3",
            "training.word_dropout=0.1",
            "training.average_decay=0.5",
            *settings,
        ],
    )


def tiny_run(data: Path, out: Path, architecture: str, *settings: str) -> RunFolder:
    train(tiny_config(data, architecture, *settings), out, OPTIONS, Console(quiet=True))
    return RunFolder(out)


if __name__ == "__main__":
    trainer._CHECKPOINT_SECONDS = 0.0
    tiny_run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
