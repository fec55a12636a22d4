"""What a person sees while a run goes on: a bar with loss, dev accuracy, skip rate, speed and time left."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

_LOG_SECONDS = 30.0  # without a terminal, a line this often instead of a bar


class Progress(Protocol):
    """Told by the trainer what happens."""

    def start_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """An epoch begins, or goes on after `done` batches."""

    def advance(self, documents: int, loss: float, skip_rate: float | None) -> None:
        """A batch is done; `loss` is the mean since the last evaluation."""

    def evaluated(self, line: dict[str, object]) -> None:
        """An evaluation is done."""


class ConsoleProgress:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[measures]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self.bar.add_task("", measures="")
        self._best = ""
        self._started = self._logged = time.monotonic()
        self._documents = 0

    def __enter__(self) -> ConsoleProgress:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def start_epoch(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """See `Progress`."""
        self._epoch = f"epoch {epoch}/{epochs}"
        self._batches = batches
        self._done = done
        self.bar.reset(self._task, total=batches, completed=done, description=self._epoch)
        self._started, self._documents = time.monotonic(), 0

    def advance(self, documents: int, loss: float, skip_rate: float | None) -> None:
        """See `Progress`."""
        self._documents += documents
        self._done += 1
        now = time.monotonic()
        speed = self._documents / max(now - self._started, 1e-6)
        skipped = "" if skip_rate is None else f" skip {skip_rate:.2f}"
        measures = f"loss {loss:.4f}{skipped}{self._best} {speed:,.0f} docs/s"
        self.bar.update(self._task, advance=1, measures=measures)
        if self.bar.disable and now - self._logged > _LOG_SECONDS:
            self._logged = now
            self.console.print(
                f"{self._epoch} batch {self._done}/{self._batches} {measures}", highlight=False
            )

    def evaluated(self, line: dict[str, object]) -> None:
        """See `Progress`."""
        numbers = {name: value for name, value in line.items() if isinstance(value, float)}
        self._best = f" dev {numbers['dev_accuracy']:.4f}"
        skipped = f"  skip rate {numbers['dev_skip_rate']:.3f}" if "dev_skip_rate" in numbers else ""
        mark = "  (best so far)" if line["best"] else ""
        losses = f"train loss {numbers['train_loss']:.4f}  dev loss {numbers['dev_loss']:.4f}"
        accuracy = f"dev accuracy {numbers['dev_accuracy']:.4f}"
        self.console.print(
            f"epoch {numbers['epoch']:g}  {losses}  {accuracy}{skipped}{mark}", highlight=False
        )
