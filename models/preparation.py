"""From a configuration to what the trainer takes: labels, tokenizer, documents, initial word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from tokenizers import Tokenizer

from models.architectures.base import WordSource, source_shape
from models.architectures.registry import require_source, resolve
from models.config import DataConfig, RunConfig
from models.data.documents import BadRows, Documents, encode_rows, load_rows, split_rows
from models.data.labels import LabelSet, found_labels, given_labels
from models.data.rows import Columns, Row
from models.errors import ConfigError, EncoderError
from models.text.encoder import (
    PretrainedEncoder,
    encoder_folder,
    read_encoder,
    read_tokenizer,
    weights_sha256,
)
from models.text.tokenizer import build_tokenizer, vocabulary
from models.text.vectors import WordVectors, embedding_matrix, read_vectors
from models.training.run_folder import RunRecord

_Rows = list[tuple[Path, Row]]


@dataclass(frozen=True)
class Prepared:
    """All that a run trains with; `words` are the initial vectors `(vocabulary, embedding)`, or the encoder."""

    record: RunRecord
    tokenizer: Tokenizer
    train: Documents
    dev: Documents
    words: WordSource


def prepare(
    config: RunConfig, root: Path, bad: BadRows | None, console: Console, tokenizer: Tokenizer | None = None
) -> Prepared:
    """Read the labelled files and word vectors of a configuration.

    Args:
        config: the run's configuration.
        root: where its relative paths start.
        bad: takes note of bad rows, which are then left out; None: the first one raises.
        console: where coverage is told.
        tokenizer: that of a run which is resumed; None: one is built from the training text.

    Raises:
        ReadtraceTrainingError: data, vectors or options that cannot be used.
    """
    pretrained = _read_encoder(config, root)
    with console.status("reading the labelled files and word vectors"):
        vectors = [(Path(name).name, read_vectors(root / name)) for name in config.vectors.files]
        if tokenizer is None:  # a resumed run's configuration says every size, given or not
            _require_width(config, vectors)
        rows, dev_rows = _read_rows(config, root, bad)
        labels = _labels(config.data, rows)
        train_rows, dev_rows = (
            (rows, dev_rows) if dev_rows else split_rows(rows, config.data.dev_fraction, config.training.seed)
        )
    with console.status("building the vocabulary and encoding the documents"):
        if tokenizer is None and pretrained is not None:
            tokenizer = pretrained.tokenizer
        elif tokenizer is None:
            known = _vector_words(vectors, config.tokenizer.lowercase)
            tokenizer = build_tokenizer((row.text for _, row in train_rows), config.tokenizer, known)
        most = None if pretrained is None else pretrained.encoder.positions
        _require_room(config, tokenizer)
        longest = min((limit for limit in (config.training.longest, most) if limit), default=None)
        train = encode_rows(train_rows, labels, tokenizer, bad, longest)
        # label_map says what the training file's labels mean; a dev file of its own speaks in class names
        dev_labels = LabelSet(labels.names, {}) if config.data.dev else labels
        dev = encode_rows(dev_rows, dev_labels, tokenizer, bad, most)
    words, coverage = _words(config, tokenizer, vectors, pretrained)
    mean_length = float(train.lengths.mean())
    record = RunRecord(
        root=str(root.absolute()),
        skip_bad_rows=bad is not None,
        config=config.model_copy(update={"model": resolve(config.model, mean_length)}),
        labels=labels.names,
        embedding_shape=source_shape(words),
        train_documents=len(train),
        dev_documents=len(dev),
        mean_length=mean_length,
        coverage=coverage,
        encoder_sha256=None if pretrained is None else pretrained.sha256,
        train_sha256=train.sha256,
        dev_sha256=dev.sha256,
    )
    return Prepared(record, tokenizer, train, dev, words)


@dataclass(frozen=True)
class _Pretrained:
    encoder: PretrainedEncoder
    tokenizer: Tokenizer
    sha256: str


def _read_encoder(config: RunConfig, root: Path) -> _Pretrained | None:
    training, name = config.training, config.encoder.folder
    require_source(config.model, encoder=bool(name))
    if training.frozen_epochs > training.epochs:
        raise ConfigError(
            f"training.frozen_epochs are some of the {training.epochs} epochs, found {training.frozen_epochs}"
        )
    if not name:
        return None
    if config.vectors.files:
        raise ConfigError("expected word vectors or an encoder, found both: vectors.files and encoder.folder")
    if training.word_dropout or training.schedule_mask_start:
        raise ConfigError(
            "training.word_dropout and schedule_mask_start make words of a table unknown; on an encoder expected 0"
        )
    folder = encoder_folder(name, root)
    encoder, tokenizer = read_encoder(folder), read_tokenizer(folder)
    if (most := max(tokenizer.get_vocab().values(), default=-1)) >= encoder.vocabulary:
        raise EncoderError(
            f"{folder}: expected a tokenizer of at most the encoder's {encoder.vocabulary:,} tokens, found the "
            f"token id {most:,}"
        )
    return _Pretrained(encoder, tokenizer, weights_sha256(folder))


def _require_room(config: RunConfig, tokenizer: Tokenizer) -> None:
    """Make sure that a training document that is cut keeps a word beside what the tokenizer adds.

    Raises:
        ConfigError: it would not.
    """
    added, longest = tokenizer.num_special_tokens_to_add(is_pair=False), config.training.longest
    if longest is not None and longest <= added:
        raise ConfigError(
            f"training.longest: expected more than the {added} tokens that the tokenizer adds, found {longest}"
        )


def _require_width(config: RunConfig, vectors: Sequence[tuple[str, WordVectors]]) -> None:
    """Make sure that an embedding size that was asked for is that of the files.

    Raises:
        ConfigError: it is another.
    """
    size, width = config.model.embedding_size, sum(found.dimensions for _, found in vectors)
    if vectors and size != width and "embedding_size" in config.model.model_fields_set:
        files = " + ".join(f"{name} ({found.dimensions})" for name, found in vectors)
        raise ConfigError(
            f"model.embedding_size: expected {width}, the numbers per word of {files}, found {size}; "
            "leave it out, or give files of that size"
        )


def _words(
    config: RunConfig,
    tokenizer: Tokenizer,
    vectors: Sequence[tuple[str, WordVectors]],
    pretrained: _Pretrained | None,
) -> tuple[WordSource, tuple[str, ...]]:
    """Where the features of words come from, and a line for each file about it."""
    if pretrained is not None:
        encoder = pretrained.encoder
        count = sum(parameter.numel() for parameter in encoder.parameters())
        folder = Path(config.encoder.folder)  # where it lay is no business of whoever reads the card
        name = folder.name if folder.is_absolute() else config.encoder.folder
        line = f"{name}: encoder of {count:,} parameters, at most {encoder.positions} tokens"
        return encoder, (line,)
    embedding, coverage = embedding_matrix(
        vocabulary(tokenizer), vectors, config.model.embedding_size, config.training.seed
    )
    return torch.from_numpy(embedding), tuple(str(line) for line in coverage)


def _read_rows(config: RunConfig, root: Path, bad: BadRows | None) -> tuple[_Rows, _Rows]:
    """The rows to train on and the dev rows, none where the first are yet to be split."""
    data = config.data
    if not data.train:
        raise ConfigError("expected labelled training data: give --train FILE")
    columns = Columns(data.text_column, data.label_column)
    train = load_rows([root / name for name in data.train], columns, bad)
    return train, load_rows([root / name for name in data.dev], columns, bad) if data.dev else []


def _labels(data: DataConfig, rows: _Rows) -> LabelSet:
    mapping = {label: name or None for label, name in data.label_map.items()}
    if data.labels:
        labels = given_labels(data.labels, mapping)
    elif mapping:
        raise ConfigError("label_map needs the class names: set data.labels")
    else:
        labels = found_labels((row.label for _, row in rows), rows[0][0])
    if data.polarity and len(data.polarity) != len(labels.names):
        raise ConfigError(
            f"polarity needs a value for each of {list(labels.names)}, found {list(data.polarity)}"
        )
    return labels


def _vector_words(vectors: Sequence[tuple[str, WordVectors]], lowercase: bool) -> list[str]:
    """The words of the first file; further files only add to the vectors of words already known."""
    return [word.lower() if lowercase else word for _, found in vectors[:1] for word in found.words]
