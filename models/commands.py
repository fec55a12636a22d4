"""What `readtrace train` and `readtrace evaluate` do, from options to a finished run folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from models.architectures.mtlstm import MTLSTMConfig
from models.architectures.registry import build, resolve
from models.config import RunConfig
from models.data.documents import BadRows, Documents, encode_rows, load_rows, split_rows
from models.data.labels import LabelSet, found_labels, given_labels
from models.data.rows import Columns
from models.errors import ConfigError
from models.text.tokenizer import build_tokenizer
from models.text.vectors import embedding_matrix, read_vectors
from models.training.evaluate import Report, evaluate
from models.training.progress import ConsoleProgress
from models.training.run_folder import RunFolder, RunRecord
from models.training.trainer import Trainer


@dataclass(frozen=True)
class TrainOptions:
    """What decides how a run is done, not what its result is."""

    out: Path
    root: Path  # relative paths of the configuration start here
    device: str = "auto"
    threads: int | None = None
    skip_bad_rows: bool = False


@dataclass(frozen=True)
class _Splits:
    labels: LabelSet
    tokenizer: Tokenizer
    train: Documents
    dev: Documents


def train(config: RunConfig, options: TrainOptions, console: Console) -> None:
    """Train a new run.

    Raises:
        ReadtraceTrainingError: bad configuration, data, vectors, or a folder that holds a run already.
    """
    _use_threads(options.threads)
    if not config.data.train:
        raise ConfigError("expected labelled training data: give --train FILE")
    vectors = [(Path(name).name, read_vectors(options.root / name)) for name in config.vectors.files]
    words = [
        word.lower() if config.tokenizer.lowercase else word
        for _, found in vectors[:1]
        for word in found.words
    ]
    splits = _load_splits(config, options, console, words)
    vocabulary = sorted(splits.tokenizer.get_vocab(), key=splits.tokenizer.get_vocab().__getitem__)
    matrix, coverage = embedding_matrix(
        vocabulary, vectors, config.model.embedding_size, config.training.seed
    )
    for line in coverage:
        console.print(str(line), highlight=False)
    mean_length = float(splits.train.lengths.mean())
    config = config.model_copy(update={"model": resolve(config.model, mean_length)})
    record = RunRecord(
        config=config,
        labels=splits.labels.names,
        embedding_shape=(matrix.shape[0], matrix.shape[1]),
        train_documents=len(splits.train),
        dev_documents=len(splits.dev),
        mean_length=mean_length,
        coverage=tuple(str(line) for line in coverage),
    )
    _describe(record, splits.train, console)
    torch.manual_seed(config.training.seed)
    model = build(config.model, torch.from_numpy(matrix), len(splits.labels.names))
    folder = RunFolder(options.out)
    folder.create(record, splits.tokenizer)
    with ConsoleProgress(console) as progress:
        trainer = Trainer(
            model.to(choose_device(options.device)),
            config.training,
            splits.train,
            splits.dev,
            folder,
            progress,
        )
        _finish(trainer, console)


def resume(options: TrainOptions, console: Console) -> None:
    """Go on with a run that was stopped; its configuration and tokenizer are those of its folder.

    Raises:
        ReadtraceTrainingError: no run in the folder, or its data has changed or gone.
    """
    _use_threads(options.threads)
    folder = RunFolder(options.out)
    record = folder.record()
    splits = _load_splits(record.config, options, console, [], folder.tokenizer())
    if len(splits.train) != record.train_documents or len(splits.dev) != record.dev_documents:
        raise ConfigError(
            f"the data has changed: the run began with {record.train_documents:,} training and "
            f"{record.dev_documents:,} dev documents, found {len(splits.train):,} and {len(splits.dev):,}"
        )
    config = record.config
    files = [(Path(name).name, read_vectors(options.root / name)) for name in config.vectors.files]
    vocabulary = sorted(splits.tokenizer.get_vocab(), key=splits.tokenizer.get_vocab().__getitem__)
    matrix, _ = embedding_matrix(vocabulary, files, config.model.embedding_size, config.training.seed)
    torch.manual_seed(config.training.seed)
    model = build(config.model, torch.from_numpy(matrix), len(record.labels))
    with ConsoleProgress(console) as progress:
        trainer = Trainer(
            model.to(choose_device(options.device)),
            config.training,
            splits.train,
            splits.dev,
            folder,
            progress,
        )
        trainer.resume()
        _finish(trainer, console)


def evaluate_file(
    run: Path,
    data: Path,
    columns: Columns | None,
    name: str | None,
    device: str,
    skip_bad_rows: bool,
    console: Console,
) -> Report:
    """Measure a run's best weights on a labelled file, show the measures and keep them in the run folder.

    Raises:
        ReadtraceTrainingError: no run, or a file that cannot be used.
    """
    folder = RunFolder(run)
    record = folder.record()
    chosen = columns or Columns(record.config.data.text_column, record.config.data.label_column)
    bad = BadRows() if skip_bad_rows else None
    rows = load_rows([data], chosen, bad)
    documents = encode_rows(rows, given_labels(record.labels, {}), folder.tokenizer(), bad)
    where = choose_device(device)
    report = evaluate(folder.model(where), documents, where)
    _report_bad(bad, console)
    _show_report(report, record.labels, console)
    folder.write_evaluation(
        name or data.name.split(".")[0], json.dumps({"file": data.name, **report.as_dict()}, indent=2)
    )
    return report


def choose_device(name: str) -> torch.device:
    """The device to train on; `auto` takes a CUDA card where there is one.

    Raises:
        ConfigError: CUDA is asked for and there is none, or the name is none of auto, cpu, cuda.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"--device expects auto, cpu or cuda, found '{name}'")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda: torch finds no CUDA card here; use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def _load_splits(
    config: RunConfig,
    options: TrainOptions,
    console: Console,
    vector_words: Sequence[str],
    tokenizer: Tokenizer | None = None,
) -> _Splits:
    data = config.data
    columns = Columns(data.text_column, data.label_column)
    bad = BadRows() if options.skip_bad_rows else None
    with console.status("reading the labelled files"):
        train_rows = load_rows([options.root / name for name in data.train], columns, bad)
        if data.dev:
            dev_rows = load_rows([options.root / name for name in data.dev], columns, bad)
        else:
            train_rows, dev_rows = split_rows(train_rows, data.dev_fraction, config.training.seed)
    mapping = {label: name or None for label, name in data.label_map.items()}
    if data.labels:
        labels = given_labels(data.labels, mapping)
    else:
        labels = found_labels((row.label for _, row in train_rows), train_rows[0][0])
    if data.polarity and len(data.polarity) != len(labels.names):
        raise ConfigError(
            f"polarity needs a value for each of {list(labels.names)}, found {list(data.polarity)}"
        )
    with console.status("building the vocabulary and encoding"):
        if tokenizer is None:
            tokenizer = build_tokenizer((row.text for _, row in train_rows), config.tokenizer, vector_words)
        train = encode_rows(train_rows, labels, tokenizer, bad)
        dev_labels = LabelSet(labels.names, {}) if data.dev else labels
        dev = encode_rows(dev_rows, dev_labels, tokenizer, bad)
    _report_bad(bad, console)
    return _Splits(labels, tokenizer, train, dev)


def _describe(record: RunRecord, train: Documents, console: Console) -> None:
    console.print(
        f"{record.train_documents:,} training and {record.dev_documents:,} dev documents, "
        f"{len(record.labels)} classes, {record.mean_length:.0f} tokens on average, "
        f"{record.embedding_shape[0]:,} words known",
        highlight=False,
    )
    model = record.config.model
    if isinstance(model, MTLSTMConfig) and isinstance(model.groups, int):
        slowest = 2 ** (model.groups - 1)
        if slowest > train.lengths.max():
            console.print(
                f"warning: the slowest of {model.groups} groups runs every {slowest} words, but the longest document "
                f"has {train.lengths.max()}; equation 16 suggests fewer groups",
                style="yellow",
            )


def _finish(trainer: Trainer, console: Console) -> None:
    position = trainer.train()
    console.print(
        f"best dev accuracy {position.best_accuracy:.4f} after epoch {position.best_epoch:g}; run kept in "
        f"{trainer.folder.path}",
        highlight=False,
    )


def _report_bad(bad: BadRows | None, console: Console) -> None:
    if bad is not None and bad.count:
        console.print(f"left out {bad.count:,} bad rows, among them:", style="yellow")
        for message in bad.messages:
            console.print(f"  {message}", highlight=False, markup=False)


def _show_report(report: Report, labels: Sequence[str], console: Console) -> None:
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
    console.print(confusion)
    deciles = Table("tokens", "documents", "accuracy", title="accuracy by length")
    for part in report.accuracy_by_length:
        deciles.add_row(
            f"{part['shortest']}-{part['longest']}", f"{part['documents']}", f"{part['accuracy']:.4f}"
        )
    console.print(deciles)


def _use_threads(threads: int | None) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
