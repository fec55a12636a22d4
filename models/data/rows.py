"""Labelled rows from JSON Lines, CSV, TSV and Parquet files, each with its line number.

A row that cannot be used raises `DataError` with file, line, what was expected and what came; a caller that
passes ``on_bad`` is told instead and the row is left out.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from models.errors import DataError

if TYPE_CHECKING:
    from _csv import Reader

    from pyarrow import RecordBatch

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FIELD_LIMIT = 64 * 1024 * 1024  # characters in one CSV field; the csv module's own limit is 131,072

Record = dict[str, object]
OnBad = Callable[[DataError], None]


@dataclass(frozen=True)
class Columns:
    """The names of the columns that hold the text and the label; None where no labels are read."""

    text: str = "text"
    label: str | None = "label"

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Each column with how it may be named; where labels are not read, it is the training file's."""
        if self.label is None:
            return ((self.text, "as in the training file"),)
        return ((self.text, "name it with --text-column"), (self.label, "name it with --label-column"))


@dataclass(frozen=True)
class Row:
    """One labelled document as its file gives it, its label empty where none is read; `line` counts from 1."""

    text: str
    label: str | int
    line: int


def read_rows(path: Path, columns: Columns, on_bad: OnBad | None = None) -> Iterator[Row]:
    """Yield the usable rows of a labelled file in file order.

    Args:
        path: a file whose name ends with one of `SUFFIXES`.
        columns: where text and label are found.
        on_bad: told of each unusable row; without it the first one raises.

    Raises:
        DataError: the file cannot be read at all, or a row cannot be used and `on_bad` is None.
    """

    def bad(error: DataError) -> None:
        if on_bad is None:
            raise error
        on_bad(error)

    try:
        for line, record in _records(path, columns, bad):
            try:
                yield _row(path, line, record, columns)
            except DataError as error:
                bad(error)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            path, None, f"expected a whole gzip file, but it ends or breaks early ({error})"
        ) from error
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror or error}") from error


def _records(path: Path, columns: Columns, bad: OnBad) -> Iterator[tuple[int, Record]]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        return _parquet_records(path, columns)
    if name.endswith(".jsonl"):
        return _json_records(path, bad)
    if name.endswith((".csv", ".tsv")):
        return _csv_records(path, columns, "\t" if name.endswith(".tsv") else ",", bad)
    raise DataError(path, None, f"expected a file ending in one of {', '.join(SUFFIXES)}")


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")


def _lines(file: BufferedIOBase) -> Iterator[str]:
    """Decoded lines; bytes that are not UTF-8 become lone surrogates, for `_require_utf8` to find."""
    for line, raw in enumerate(file, start=1):
        yield raw.decode("utf-8-sig" if line == 1 else "utf-8", "surrogateescape")


def _require_utf8(path: Path, line: int, text: str) -> None:
    if broken := next((character for character in text if _is_surrogate(character)), None):
        raise DataError(path, line, f"expected UTF-8, found the byte 0x{ord(broken) - 0xDC00:02x}")


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _json_records(path: Path, bad: OnBad) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for line, text in enumerate(_lines(file), start=1):
            try:
                if text.strip():
                    yield line, _json_object(path, line, text)
            except DataError as error:
                bad(error)


def _json_object(path: Path, line: int, text: str) -> Record:
    _require_utf8(path, line, text)
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at column {error.colno}"
        raise DataError(path, line, f"expected one JSON object, found {found}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        raise DataError(path, line, f"expected one JSON object, found {error}") from error
    if not isinstance(record, dict):
        raise DataError(path, line, f"expected a JSON object, found {_kind(record)}")
    return record


def _csv_records(path: Path, columns: Columns, delimiter: str, bad: OnBad) -> Iterator[tuple[int, Record]]:
    csv.field_size_limit(_FIELD_LIMIT)
    with _open(path) as file:
        reader = csv.reader(_lines(file), delimiter=delimiter, strict=True)
        header = _csv_fields(path, 1, reader) or []
        _require_columns(path, header, columns)
        while True:
            line = reader.line_num + 1
            try:
                fields = _csv_fields(path, line, reader)
                if fields is None:
                    return
                if fields and len(fields) != len(header):
                    found = f"expected {len(header)} fields as in the header, found {len(fields)}"
                    raise DataError(path, line, found)
                if fields:
                    yield line, dict(zip(header, fields, strict=True))
            except DataError as error:
                bad(error)


def _csv_fields(path: Path, line: int, reader: Reader) -> list[str] | None:
    """The next row's fields, none for an empty line; None at the end of the file."""
    try:
        fields = next(reader, None)
    except csv.Error as error:
        lost = f"; the row goes on to line {reader.line_num}" if reader.line_num > line else ""
        raise DataError(path, line, f"expected delimited fields, found {error}{lost}") from error
    for field in fields or ():
        _require_utf8(path, line, field)
    return fields


def _parquet_records(path: Path, columns: Columns) -> Iterator[tuple[int, Record]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        _require_columns(path, list(file.schema_arrow.names), columns)
        line = 0
        for batch in file.iter_batches(columns=[name for name, _ in columns.named]):
            for record in _parquet_rows(path, line, batch):
                line += 1
                yield line, record
    except ArrowException as error:
        raise DataError(path, None, f"expected a Parquet file: {error}") from error


def _parquet_rows(path: Path, before: int, batch: RecordBatch) -> list[Record]:
    try:
        records: list[Record] = batch.to_pylist()
    except UnicodeDecodeError as error:
        rows = f"{before + 1:,} to {before + batch.num_rows:,}"
        found = f"the byte 0x{error.object[error.start]:02x}"
        raise DataError(path, None, f"expected UTF-8 in the rows {rows}, found {found}") from error
    return records


def _require_columns(path: Path, found: list[str], columns: Columns) -> None:
    for name, how in columns.named:
        if found.count(name) != 1:
            listed = ", ".join(found) or "nothing"
            raise DataError(path, 1, f"expected one column '{name}', found {listed} ({how})")


def _row(path: Path, line: int, record: Record, columns: Columns) -> Row:
    for name, how in columns.named:
        if name not in record:
            listed = ", ".join(record) or "nothing"
            raise DataError(path, line, f"expected a field '{name}', found {listed} ({how})")
    text, label = record[columns.text], "" if columns.label is None else record[columns.label]
    if not isinstance(text, str):
        raise DataError(path, line, f"expected text in '{columns.text}', found {_kind(text)}")
    if not text.strip():
        raise DataError(path, line, f"expected text in '{columns.text}', found nothing but white space")
    for (name, _), value in zip(columns.named, (text, str(label)), strict=False):
        if any(map(_is_surrogate, value)):
            raise DataError(path, line, f"expected Unicode text in '{name}', found a lone surrogate")
    if columns.label is None:
        return Row(text, "", line)
    if isinstance(label, bool):
        label = str(label).lower()
    if not isinstance(label, str | int) or not str(label).strip():
        raise DataError(
            path, line, f"expected a label (text or whole number) in '{columns.label}', found {_kind(label)}"
        )
    return Row(text, label, line)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    if isinstance(value, str) and not value.strip():
        return "nothing"
    if type(value) in (int, float):
        return f"the number {value}"
    return names.get(type(value), f"a {type(value).__name__}")
