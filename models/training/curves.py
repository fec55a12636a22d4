"""The picture of a run: loss, dev accuracy and skip rate over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def draw_curves(lines: Sequence[dict[str, object]], title: str, path: Path) -> None:
    """Draw the metrics of all evaluations so far into a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in lines]
    for name, label in (("train_loss", "train"), ("dev_loss", "dev")):
        loss.plot(epochs, [line[name] for line in lines], marker="o", markersize=3, label=label)
    accuracy.plot(
        epochs, [line["dev_accuracy"] for line in lines], marker="o", markersize=3, label="dev accuracy"
    )
    if any("dev_skip_rate" in line for line in lines):
        rates = [line.get("dev_skip_rate") for line in lines]
        accuracy.plot(epochs, rates, marker="s", markersize=3, linestyle="--", label="dev skip rate")
    loss.set_title("cross-entropy")
    accuracy.set_title("share")
    for axes in (loss, accuracy):
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120, format="png")
