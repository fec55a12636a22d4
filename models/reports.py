"""What `readtrace train` and `evaluate` print about data, runs and measures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from models.architectures.convolutional_lstm import ConvolutionalLSTMConfig
from models.architectures.mode import DLSTMConfig, MODELSTMConfig, ODELSTMConfig
from models.architectures.mtlstm import MOST_GROUPS, MTLSTMConfig, largest_group_count
from models.architectures.registry import AnyModelConfig
from models.architectures.text_cnn import TextCNNConfig
from models.config import RunConfig
from models.data.documents import BadRows, Documents
from models.preparation import Prepared
from models.training.evaluate import Report

_SHOWN_CLASSES = 20


def show_prepared(prepared: Prepared, console: Console) -> None:
    """Data and coverage of the vectors; warnings of groups, windows and a second step that would be of no use."""
    record = prepared.record
    for line in record.coverage:
        console.print(line, highlight=False)
    console.print(
        f"{record.train_documents:,} training and {record.dev_documents:,} dev documents, "
        f"{len(record.labels)} classes, {record.mean_length:.0f} tokens on average, "
        f"{record.embedding_shape[0]:,} words known",
        highlight=False,
    )
    _show_classes(record.labels, prepared.train, console)
    for name, documents in (("training ", prepared.train), ("dev ", prepared.dev)):
        show_shortened(documents, name, console)
    model = record.config.model
    _warn_of_a_second_step_without_words(record.config, console)
    _warn_of_short_texts(model, prepared.train.lengths, console)
    longest = int(prepared.train.lengths.max())
    if (
        isinstance(model, MTLSTMConfig)
        and isinstance(model.groups, int)
        and model.groups <= MOST_GROUPS  # more are refused when the model is built
        and 2 ** (model.groups - 1) > longest
    ):
        console.print(
            f"warning: the slowest of {model.groups} groups runs every {2 ** (model.groups - 1)} words, but the "
            f"longest document has {longest}: it never runs; equation 16 of the MT-LSTM paper allows at "
            f"most {largest_group_count(record.mean_length)} here, which is what model.groups=auto takes",
            style="yellow",
        )


def _show_classes(labels: Sequence[str], documents: Documents, console: Console) -> None:
    """Documents of each class, quoted so that white space in a name is seen, and classes without any."""
    counts = np.bincount(documents.labels, minlength=len(labels))
    told = [f"{label!r} {count:,}" for label, count in zip(labels, counts, strict=True)]
    more = f" and {len(told) - _SHOWN_CLASSES:,} more" if len(told) > _SHOWN_CLASSES else ""
    console.print(
        f"training documents: {', '.join(told[:_SHOWN_CLASSES])}{more}", highlight=False, markup=False
    )
    if without := [label for label, count in zip(labels, counts, strict=True) if not count]:
        console.print(
            f"warning: no training document for {len(without):,} of the classes: {without[:_SHOWN_CLASSES]}",
            style="yellow",
            markup=False,
        )


def show_shortened(documents: Documents, name: str, console: Console) -> None:
    """How many documents were longer than what is read of them."""
    if documents.shortened:
        console.print(
            f"{documents.shortened:,} of {len(documents):,} {name}documents are read up to their first "
            f"{documents.lengths.max():,} tokens",
            style="yellow",
        )


def _warn_of_a_second_step_without_words(config: RunConfig, console: Console) -> None:
    """Warn where the epochs after the frozen ones teach the words nothing either."""
    frozen, epochs = config.training.frozen_epochs, config.training.epochs
    if 0 < frozen < epochs and not config.model.tune_embedding:
        words = "the encoder" if config.encoder.folder else "the word vectors"
        console.print(
            f"warning: model.tune_embedding=false keeps {words} unchanged in all {epochs} epochs, not only in the "
            f"{frozen} of training.frozen_epochs",
            style="yellow",
        )


def _warn_of_short_texts(model: AnyModelConfig, lengths: NDArray[np.int64], console: Console) -> None:
    """Warn where most windows of the widest kind would begin before the text."""
    widest = _widest_window(model)
    shorter = float((lengths < widest).mean())
    if shorter > 0.5:
        console.print(
            f"warning: the widest window has {widest} words, but {shorter:.0%} of the training documents are shorter "
            f"(mean {lengths.mean():.1f}): in these it always begins with zero vectors, before the text",
            style="yellow",
        )


def _widest_window(model: AnyModelConfig) -> int:
    """Words of the widest window that a model reads; 0 for a model without windows."""
    match model:
        case MODELSTMConfig() | ODELSTMConfig() | DLSTMConfig():
            return max(model.scales)
        case TextCNNConfig():
            return max(model.filter_widths)
        case ConvolutionalLSTMConfig():
            return model.filter_width
        case _:
            return 0


def show_bad_rows(bad: BadRows | None, console: Console) -> None:
    """How many rows were left out, and the first few reasons."""
    if bad is not None and bad.count:
        console.print(f"left out {bad.count:,} bad rows, among them:", style="yellow")
        for message in bad.messages:
            console.print(f"  {message}", highlight=False, markup=False)


def _by_class(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> Table:
    """What a confusion matrix says that is too wide to be shown; the run folder has all of it."""
    table = Table("class", "documents", "right", "most often taken for", title="by class")
    for index, (label, counts) in enumerate(zip(labels, confusion, strict=True)):
        wrong = [0 if other == index else count for other, count in enumerate(counts)]
        most = int(np.argmax(wrong))
        mistake = f"{labels[most]} ({wrong[most]:,})" if wrong[most] else ""
        table.add_row(label, f"{sum(counts):,}", f"{counts[index]:,}", mistake)
    return table


def show_report(report: Report, labels: Sequence[str], console: Console) -> None:
    """Measures, confusion matrix (where it is too wide, mistakes by class) and accuracy by length, as tables."""
    summary = Table(show_header=False)
    for name, value in report.as_dict().items():
        if isinstance(value, float | int):
            summary.add_row(
                name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            )
    console.print(summary)
    confusion = Table("true \\ predicted", *labels, title="confusion")
    for label, counts in zip(labels, report.confusion, strict=True):
        confusion.add_row(label, *(f"{count:,}" for count in counts))
    unbounded = console.options.update_width(10**6)  # a measure is cut at the width
    fits = console.measure(confusion, options=unbounded).maximum <= console.width
    console.print(confusion if fits else _by_class(report.confusion, labels))
    deciles = Table("tokens", "documents", "accuracy", title="accuracy by length")
    for part in report.accuracy_by_length:
        span = f"{part['shortest']:.0f}-{part['longest']:.0f}"
        deciles.add_row(span, f"{part['documents']:.0f}", f"{part['accuracy']:.4f}")
    console.print(deciles)
