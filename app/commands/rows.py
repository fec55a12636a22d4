"""Reads texts row by row from JSON Lines, CSV, TSV and plain text, also compressed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, cast

from app.errors import StartError

Format = Literal["jsonl", "csv", "tsv", "txt"]
_FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".txt": "txt"}
_LONGEST_FIELD = 64 * 2**20  # characters; the csv module's own 128 KiB is less than a book


@dataclass(frozen=True, slots=True)
class Row:
    """A row's text, or why it has none."""

    line: int
    text: str | None
    problem: str = ""


def format_of(path: Path) -> Format:
    """The format that a file's name tells; standard input is JSON Lines.

    Raises:
        StartError: the name tells none of them.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    if str(path) == "-":
        return "jsonl"
    if not suffixes or suffixes[-1] not in _FORMATS:
        raise StartError(f"{path}: expected {', '.join(_FORMATS)} (or one of these with .gz)")
    return _FORMATS[suffixes[-1]]


def open_text(path: Path) -> TextIO:
    """Open a file, a compressed file or standard input (``-``) as UTF-8.

    Raises:
        StartError: it cannot be opened.
    """
    try:
        file = _open(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    # Bytes that are no UTF-8 become lone surrogates, which fail their own row and no other.
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


def _open(path: Path) -> BinaryIO:
    if str(path) == "-":
        # Not sys.stdin, which the interpreter closes at its end, and for that waits for whoever still reads.
        return open(0, "rb", closefd=False)
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _unreadable(path: Path, error: Exception) -> StartError:
    return StartError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_rows(file: TextIO, path: Path, column: str) -> Iterator[Row]:
    """The rows of a file, opened from a path, one at a time.

    Raises:
        StartError: it cannot be read on, or a table has no such column.
    """
    try:
        yield from _rows(file, path, column)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def _rows(file: TextIO, path: Path, column: str) -> Iterator[Row]:
    form = format_of(path)
    if form == "jsonl":
        yield from _json_rows(file, column)
    elif form == "txt":
        for number, line in enumerate(file, start=1):
            yield _text_row(number, line.rstrip("\r\n"))
    else:
        yield from _table_rows(file, "," if form == "csv" else "\t", path, column)


def _text_row(number: int, text: str) -> Row:
    problem = _broken_utf8(text)
    return Row(number, None if problem else text, problem)


def _broken_utf8(text: str) -> str:
    """What is wrong with a text that came from bytes which are no UTF-8; empty where nothing is."""
    broken = next((character for character in text if "\udc80" <= character <= "\udcff"), None)
    return f"expected UTF-8, found the byte 0x{ord(broken) - 0xDC00:02x}" if broken else ""


def _json_rows(file: TextIO, column: str) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        if problem := _broken_utf8(line):
            yield Row(number, None, problem)
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            yield Row(number, None, f"expected JSON: {error.msg} at column {error.colno}")
            continue
        except (
            ValueError,
            RecursionError,
        ) as error:  # a number of thousands of digits, lists in lists in lists
            yield Row(number, None, f"expected JSON: {error}")
            continue
        text = value.get(column) if isinstance(value, dict) else value
        if isinstance(text, str):
            yield Row(number, text)
        else:
            yield Row(number, None, f"expected a string or an object with a string {column!r}")


def _table_rows(file: TextIO, delimiter: str, path: Path, column: str) -> Iterator[Row]:
    """Rows of a table, each with its first line; one of another form than the header is no row."""
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    header = next(reader, [])
    if header.count(column) != 1:
        found = ", ".join(header) or "nothing"
        raise StartError(f"{path}: expected one column {column!r}, found {found} (name it with --column)")
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lost = f"; the row goes on to line {reader.line_num}" if reader.line_num > line else ""
            yield Row(line, None, f"expected a table row: {error}{lost}")
            continue
        if fields and len(fields) != len(header):
            yield Row(line, None, f"expected {len(header)} fields as in the header, found {len(fields)}")
        elif fields:
            yield _text_row(line, fields[header.index(column)])
