from __future__ import annotations

import datetime
import gzip
import struct
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from models.data.documents import BadRows, load_rows
from models.data.rows import SUFFIXES, Columns, Row, read_rows
from models.errors import DataError

GOOD = b'{"text": "good", "label": "x"}\n'


def write(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def rows(path: Path, columns: Columns = Columns()) -> list[tuple[str, str | int, int]]:  # noqa: B008 (frozen)
    return [(row.text, row.label, row.line) for row in read_rows(path, columns)]


BAD_JSON_LINES = [
    (
        b"{bad",
        "expected one JSON object, found Expecting property name enclosed in double quotes at column 2",
    ),
    (b'"text"', "expected a JSON object, found text"),
    (b"[1]", "expected a JSON object, found a list"),
    (b"3", "expected a JSON object, found the number 3"),
    (b"null", "expected a JSON object, found null"),
    (b"[" * 100_000, "expected one JSON object, found maximum recursion depth exceeded"),
    (b'{"text": "a", "label": %s}' % (b"1" * 5000), "expected one JSON object, found Exceeds the limit"),
    (b'{"label": "x"}', "expected a field 'text', found label (name it with --text-column)"),
    (b'{"text": "a"}', "expected a field 'label', found text (name it with --label-column)"),
    (b"{}", "expected a field 'text', found nothing (name it with --text-column)"),
    (b'{"text": 3, "label": "x"}', "expected text in 'text', found the number 3"),
    (b'{"text": ["a"], "label": "x"}', "expected text in 'text', found a list"),
    (b'{"text": null, "label": "x"}', "expected text in 'text', found null"),
    (b'{"text": "", "label": "x"}', "expected text in 'text', found nothing but white space"),
    (b'{"text": " \\t\\u00a0", "label": "x"}', "expected text in 'text', found nothing but white space"),
    (b'{"text": "a \\ud83d b", "label": "x"}', "expected Unicode text in 'text', found a lone surrogate"),
    (b'{"text": "a", "label": "\\udc00"}', "expected Unicode text in 'label', found a lone surrogate"),
    (
        b'{"text": "a", "label": " "}',
        "expected a label (text or whole number) in 'label', found nothing",
    ),
    (b'{"text": "a \xff b", "label": "x"}', "expected UTF-8, found the byte 0xff"),
    (
        b'{"text": "a", "label": 1.5}',
        "expected a label (text or whole number) in 'label', found the number 1.5",
    ),
    (b'{"text": "a", "label": null}', "expected a label (text or whole number) in 'label', found null"),
    (b'{"text": "a", "label": ""}', "expected a label (text or whole number) in 'label', found nothing"),
    (b'{"text": "a", "label": {}}', "expected a label (text or whole number) in 'label', found an object"),
]


@pytest.mark.parametrize(("line", "message"), BAD_JSON_LINES)
def test_bad_json_line_is_told_with_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    path = write(tmp_path, "data.jsonl", GOOD + b"\n" + line + b"\n" + GOOD)
    with pytest.raises(DataError) as raised:
        rows(path)
    assert str(raised.value).startswith(f"{path}, line 3: {message}")
    told: list[DataError] = []
    assert [row.line for row in read_rows(path, Columns(), told.append)] == [1, 4]
    assert [str(error) for error in told] == [str(raised.value)]


def test_json_labels_may_be_text_numbers_and_booleans(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "data.jsonl",
        b'{"text": "a", "label": "x"}\n{"text": "b", "label": 7}\n{"text": "c", "label": true}',
    )
    assert rows(path) == [("a", "x", 1), ("b", 7, 2), ("c", "true", 3)]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("name", ["data.jsonl", "data.csv", "data.tsv"])
def test_byte_order_mark_and_line_ends_are_no_part_of_the_text(
    tmp_path: Path, name: str, mark: bytes, newline: bytes
) -> None:
    content = {
        "data.jsonl": b'{"text": "a, b", "label": "x"}\n\n',
        "data.csv": b'text,label\n"a, b",x\n\n',
        "data.tsv": b"text\tlabel\na, b\tx\n\n",
    }[name]
    path = write(tmp_path, name, mark + content.replace(b"\n", newline))
    assert [(text, label) for text, label, _ in rows(path)] == [("a, b", "x")]


@pytest.mark.parametrize("name", ["data.jsonl", "data.csv"])
def test_compressed_file_is_read_like_the_plain_one(tmp_path: Path, name: str) -> None:
    content = GOOD if name == "data.jsonl" else b"text,label\ngood,x\n"
    plain, packed = write(tmp_path, name, content), write(tmp_path, f"{name}.gz", gzip.compress(content))
    assert rows(packed) == rows(plain)
    assert len(rows(plain)) == 1


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "altered"])
def test_damaged_gzip_file_is_told(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(GOOD * 1000 + bytes(range(256)) * 50)
    content = {"truncated": whole[:-20], "not gzip": GOOD, "altered": whole[:20] + b"\xff" * 20 + whole[40:]}
    path = write(tmp_path, "data.jsonl.gz", content[damage])
    with pytest.raises(DataError, match="expected a whole gzip file, but it ends or breaks early"):
        list(read_rows(path, Columns(), on_bad=lambda error: None))


BAD_CSV_ROWS = [
    (b"b\n", "expected 2 fields as in the header, found 1"),
    (b"b,y,z\n", "expected 2 fields as in the header, found 3"),
    (b'"b"c,y\n', "expected delimited fields, found ',' expected after '\"'"),
    (b"\xffb,y\n", "expected UTF-8, found the byte 0xff"),
    (b'"b\n\xff\nb",y\n', "expected UTF-8, found the byte 0xff"),
    (b" ,y\n", "expected text in 'text', found nothing but white space"),
    (b"b,\n", "expected a label (text or whole number) in 'label', found nothing"),
]


@pytest.mark.parametrize(("content", "message"), BAD_CSV_ROWS)
def test_bad_csv_row_is_told_with_its_first_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, "data.csv", b"text,label\na,x\n" + content + b"c,z\n")
    with pytest.raises(DataError) as raised:
        rows(path)
    assert str(raised.value) == f"{path}, line 3: {message}"
    told: list[DataError] = []
    last = 3 + content.count(b"\n")
    assert [row.line for row in read_rows(path, Columns(), told.append)] == [2, last]
    assert [str(error) for error in told] == [str(raised.value)]


def test_unclosed_quote_is_told_with_the_line_it_opens_on(tmp_path: Path) -> None:
    path = write(tmp_path, "data.csv", b'text,label\na,x\n"open,x\nb,y\n')
    message = "line 3: expected delimited fields, found unexpected end of data; the row goes on to line 4"
    with pytest.raises(DataError, match=message):
        rows(path)


def test_csv_fields_keep_quotes_line_breaks_and_nul(tmp_path: Path) -> None:
    path = write(tmp_path, "data.csv", b'label,text\nx,"say ""no""\nnow"\ny,a\x00b\n')
    assert rows(path) == [('say "no"\nnow', "x", 2), ("a\x00b", "y", 4)]


def test_csv_field_of_a_whole_book_is_read(tmp_path: Path) -> None:
    book = "word " * 100_000
    assert rows(write(tmp_path, "data.csv", f"text,label\n{book},x\n".encode())) == [(book, "x", 2)]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            b"body,label\na,x\n",
            "line 1: expected one column 'text', found body, label (name it with --text-column)",
        ),
        (
            b"text,class\na,x\n",
            "line 1: expected one column 'label', found text, class (name it with --label-column)",
        ),
        (b"text,text,label\na,b,x\n", "line 1: expected one column 'text', found text, text, label"),
        (b"", "line 1: expected one column 'text', found nothing"),
        (b"\xff,label\na,x\n", "line 1: expected UTF-8, found the byte 0xff"),
    ],
)
def test_unusable_csv_header_ends_the_reading(tmp_path: Path, header: bytes, message: str) -> None:
    path = write(tmp_path, "data.csv", header)
    with pytest.raises(DataError) as raised:
        list(read_rows(path, Columns(), on_bad=lambda error: None))
    assert str(raised.value).startswith(f"{path}, {message}")


def test_columns_have_the_names_that_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "data.tsv", b"stars\tid\treview\n5\t1\tfine\n")
    assert rows(path, Columns("review", "stars")) == [("fine", "5", 2)]


def write_parquet(path: Path, **columns: list[object]) -> Path:
    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_parquet_rows_are_counted_from_one(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "data.parquet", text=["a", "b"], label=[0, 1], extra=[None, None])
    assert rows(path) == [("a", 0, 1), ("b", 1, 2)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a", None], "label": ["x", "y"]}, "line 2: expected text in 'text', found null"),
        ({"text": [b"secret"], "label": ["x"]}, "line 1: expected text in 'text', found a bytes"),
        (
            {"text": ["a"], "label": [datetime.date(2026, 1, 2)]},
            "line 1: expected a label (text or whole number) in 'label', found a date",
        ),
        ({"body": ["a"], "label": ["x"]}, "line 1: expected one column 'text', found body, label"),
    ],
)
def test_bad_parquet_row_is_told(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    path = write_parquet(tmp_path / "data.parquet", **columns)
    with pytest.raises(DataError) as raised:
        rows(path)
    assert str(raised.value).startswith(f"{path}, {message}")


def test_parquet_text_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    offsets, characters = (pyarrow.py_buffer(part) for part in (struct.pack("<2i", 0, 3), b"a\xffb"))
    text = pyarrow.StringArray.from_buffers(1, offsets, characters)
    table = pyarrow.table({"text": text, "label": ["x"]})
    parquet.write_table(table, tmp_path / "data.parquet")
    with pytest.raises(DataError, match="expected UTF-8 in the rows 1 to 1, found the byte 0xff"):
        rows(tmp_path / "data.parquet")


def test_file_that_is_no_parquet_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a Parquet file"):
        rows(write(tmp_path, "data.parquet", b"text,label\na,x\n"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_file_is_told(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match=r"cannot be read: .*No such file or directory"):
        rows(tmp_path / f"data{suffix}")


def test_unknown_ending_is_told_with_those_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a file ending in one of \.jsonl, \.jsonl\.gz, \.csv"):
        rows(write(tmp_path, "data.xlsx", b""))


def test_skipped_rows_are_counted_and_the_first_few_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "data.jsonl", b"{}\n" * 9 + GOOD)
    bad = BadRows()
    assert load_rows([path], Columns(), bad) == [(path, Row("good", "x", 10))]
    assert bad.count == 9
    assert len(bad.messages) == 5
    assert bad.messages[0].startswith(f"{path}, line 1: ")


def test_file_without_a_usable_row_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "data.jsonl", b"{}\n")
    with pytest.raises(
        DataError, match=r"found 1 bad ones: .*line 1: expected a field 'text', found nothing"
    ):
        load_rows([path], Columns(), BadRows())
    with pytest.raises(DataError, match="expected labelled rows, found none"):
        load_rows([write(tmp_path, "empty.jsonl", b"")], Columns(), BadRows())
