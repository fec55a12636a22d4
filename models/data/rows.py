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

from models.errors import DataError

SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_FIELD_LIMIT = 64 * 1024 * 1024  # characters in one CSV field; the csv module's own limit is 131,072

Record = dict[str, object]
OnBad = Callable[[DataError], None]


@dataclass(frozen=True)
class Columns:
    """The names of the columns that hold the text and the label."""

    text: str = "text"
    label: str = "label"


@dataclass(frozen=True)
class Row:
    """One labelled document as its file gives it; `line` counts from 1."""

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


def _decoded_lines(path: Path, file: BufferedIOBase, bad: OnBad) -> Iterator[tuple[int, str]]:
    for line, raw in enumerate(file, start=1):
        try:
            yield line, raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            found = raw[error.start : error.start + 1].hex()
            bad(
                DataError(path, line, f"expected UTF-8, found the byte 0x{found} at column {error.start + 1}")
            )


def _json_records(path: Path, bad: OnBad) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for line, text in _decoded_lines(path, file, bad):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except json.JSONDecodeError as error:
                bad(
                    DataError(
                        path, line, f"expected one JSON object, found {error.msg} at column {error.colno}"
                    )
                )
                continue
            if isinstance(record, dict):
                yield line, record
            else:
                bad(DataError(path, line, f"expected a JSON object, found {_kind(record)}"))


def _csv_records(path: Path, columns: Columns, delimiter: str, bad: OnBad) -> Iterator[tuple[int, Record]]:
    csv.field_size_limit(_FIELD_LIMIT)
    with _open(path) as file:
        line = 0

        def lines() -> Iterator[str]:
            nonlocal line
            for number, text in _decoded_lines(path, file, bad):
                line = number
                yield text

        reader = csv.reader(lines(), delimiter=delimiter, strict=True)
        header = next(reader, None)
        _require_columns(path, header or [], columns)
        assert header is not None
        while True:
            start = line + 1
            try:
                fields = next(reader, None)
            except csv.Error as error:
                bad(DataError(path, start, f"expected {len(header)} delimited fields, found {error}"))
                continue
            if fields is None:
                return
            if len(fields) == len(header):
                yield start, dict(zip(header, fields, strict=True))
            elif fields:
                bad(
                    DataError(
                        path, start, f"expected {len(header)} fields as in the header, found {len(fields)}"
                    )
                )


def _parquet_records(path: Path, columns: Columns) -> Iterator[tuple[int, Record]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        _require_columns(path, list(file.schema_arrow.names), columns)
        line = 0
        for batch in file.iter_batches(columns=[columns.text, columns.label]):
            for record in batch.to_pylist():
                line += 1
                yield line, record
    except ArrowException as error:
        raise DataError(path, None, f"expected a Parquet file: {error}") from error


def _require_columns(path: Path, found: list[str], columns: Columns) -> None:
    for name, option in ((columns.text, "--text-column"), (columns.label, "--label-column")):
        if name not in found:
            listed = ", ".join(found) or "nothing"
            raise DataError(path, 1, f"expected a column '{name}', found {listed} (name it with {option})")


def _row(path: Path, line: int, record: Record, columns: Columns) -> Row:
    for name, option in ((columns.text, "--text-column"), (columns.label, "--label-column")):
        if name not in record:
            listed = ", ".join(record) or "nothing"
            raise DataError(path, line, f"expected a field '{name}', found {listed} (name it with {option})")
    text, label = record[columns.text], record[columns.label]
    if not isinstance(text, str):
        raise DataError(path, line, f"expected text in '{columns.text}', found {_kind(text)}")
    if not text.strip():
        raise DataError(path, line, f"expected text in '{columns.text}', found nothing but white space")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(path, line, f"expected Unicode text in '{columns.text}', found a lone surrogate")
    if isinstance(label, bool):
        label = str(label).lower()
    if not isinstance(label, str | int) or label == "":
        raise DataError(
            path, line, f"expected a label (text or whole number) in '{columns.label}', found {_kind(label)}"
        )
    return Row(text, label, line)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    if value == "":
        return "nothing"
    return names.get(type(value), f"the number {value}")
