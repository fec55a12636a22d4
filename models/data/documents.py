"""Labelled files as encoded documents: token ids and class indices, ready for batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from models.data.labels import DROP, LabelSet
from models.data.rows import Columns, Row, read_rows
from models.errors import DataError

_SHOWN_BAD_ROWS = 5
_ENCODE_BATCH = 4096  # texts handed to the tokenizer at a time; bounds memory on large files


@dataclass
class BadRows:
    """Counts the rows left out by `--skip-bad-rows` and keeps the first few messages for the report."""

    count: int = 0
    messages: list[str] = field(default_factory=list)

    def __call__(self, error: DataError) -> None:
        """Take note of one bad row."""
        self.count += 1
        if len(self.messages) < _SHOWN_BAD_ROWS:
            self.messages.append(str(error))


@dataclass(frozen=True)
class Documents:
    """Encoded documents of one split.

    Attributes:
        token_ids: one int32 array `(length,)` per document, never empty.
        labels: int64 `(documents,)`, class indices.
        shortened: how many documents were longer than what is read, and cut.
    """

    token_ids: tuple[NDArray[np.int32], ...]
    labels: NDArray[np.int64]
    shortened: int = 0

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def sha256(self) -> str:
        """Of token ids, in order, and labels, hexadecimal."""
        digest = sha256(self.lengths.tobytes())
        for ids in self.token_ids:
            digest.update(ids.tobytes())
        digest.update(self.labels.tobytes())
        return digest.hexdigest()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document."""
        return np.array([len(ids) for ids in self.token_ids], dtype=np.int64)


def load_rows(paths: Sequence[Path], columns: Columns, bad: BadRows | None) -> list[tuple[Path, Row]]:
    """All usable rows of some files, each with the file it is from.

    Raises:
        DataError: see `read_rows`; also when no row is left.
    """
    rows = [(path, row) for path in paths for row in read_rows(path, columns, bad)]
    if not rows:
        found = "none" if bad is None or not bad.count else f"{bad.count:,} bad ones: {bad.messages[0]}"
        raise DataError(paths[0], None, f"expected labelled rows, found {found}")
    return rows


def split_rows(
    rows: Sequence[tuple[Path, Row]], fraction: float, seed: int
) -> tuple[list[tuple[Path, Row]], list[tuple[Path, Row]]]:
    """Set a seeded share of the rows aside as a dev split, at least one row on each side.

    Raises:
        DataError: fewer than two rows.
    """
    if len(rows) < 2:
        raise DataError(rows[0][0], None, "expected at least two rows to make a dev split from, found one")
    order = list(range(len(rows)))
    Random(seed).shuffle(order)
    aside = min(max(1, round(fraction * len(rows))), len(rows) - 1)
    chosen = set(order[:aside])
    train = [row for index, row in enumerate(rows) if index not in chosen]
    dev = [row for index, row in enumerate(rows) if index in chosen]
    return train, dev


def encode_rows(
    rows: Sequence[tuple[Path, Row]],
    labels: LabelSet,
    tokenizer: Tokenizer,
    bad: BadRows | None = None,
    longest: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Documents:
    """Tokenize rows and look their labels up; rows whose label is mapped to nothing are left out.

    With `longest`, later words of longer documents are cut off; what the tokenizer itself adds stays.

    Raises:
        DataError: an unknown label or a text without any token, where `bad` is None.
    """
    token_ids: list[NDArray[np.int32]] = []
    indices: list[int] = []
    shortened = 0
    for start in range(0, len(rows), _ENCODE_BATCH):
        chunk = rows[start : start + _ENCODE_BATCH]
        for (path, row), encoding in zip(
            chunk, tokenizer.encode_batch_fast([r.text for _, r in chunk]), strict=True
        ):
            try:
                index = labels.index(row, path)
                if all(encoding.special_tokens_mask):
                    raise DataError(path, row.line, "expected at least one token in the text, found none")
            except DataError as error:
                if bad is None:
                    raise
                bad(error)
                continue
            if index != DROP:
                ids = read_ids(encoding, longest)
                shortened += len(ids) < len(encoding.ids)
                token_ids.append(ids)
                indices.append(index)
        progress(min(start + _ENCODE_BATCH, len(rows)))
    if not token_ids:
        raise DataError(rows[0][0], None, "expected documents of the given classes, found none")
    return Documents(tuple(token_ids), np.array(indices, dtype=np.int64), shortened)


def read_ids(encoding: Encoding, longest: int | None) -> NDArray[np.int32]:
    """The token ids of a text, at most `longest`: its first words, and the tokens that the tokenizer adds."""
    ids = np.array(encoding.ids, dtype=np.int32)
    if longest is None or len(ids) <= longest:
        return ids
    added = np.array(encoding.special_tokens_mask, dtype=bool)
    words = np.flatnonzero(~added)[: longest - added.sum()]
    kept: NDArray[np.int32] = ids[np.sort(np.concatenate([np.flatnonzero(added), words]))]
    return kept
