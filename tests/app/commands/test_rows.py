from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from app.commands.rows import Row, format_of, open_text, read_rows
from app.errors import StartError


def rows(path: Path, column: str = "text") -> list[Row]:
    with open_text(path) as file:
        return list(read_rows(file, path, column))


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("in.csv", 'label,text\nx,"good\nfilm"\ny,bad\n', [2, 4]),
        ("in.tsv", "label\ttext\nx\tgood\nfilm\ny\tbad\n", None),
        ("in.jsonl", '{"text": "good\\nfilm"}\n\n"bad"\n', [1, 3]),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_formats_are_told_by_name(
    tmp_path: Path, name: str, content: str, lines: list[int] | None, compressed: bool
) -> None:
    path = tmp_path / (name + ".gz" * compressed)
    path.write_bytes(gzip.compress(content.encode()) if compressed else content.encode())
    found = rows(path)
    if lines is None:  # a broken row: the second line has no text
        assert [row.text for row in found] == ["good", None, "bad"]
        assert (found[1].line, found[1].problem) == (3, "expected 2 fields as in the header, found 1")
    else:
        assert [(row.line, row.text) for row in found] == list(zip(lines, ["good\nfilm", "bad"], strict=True))


def test_every_line_of_plain_text_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("good film\n\nbad\n")
    assert [row.text for row in rows(tmp_path / "in.txt")] == ["good film", "", "bad"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "expected JSON: "),
        ("5", "expected a string or an object with a string 'text'"),
        ('{"text": 5}', "expected a string or an object with a string 'text'"),
        ("9" * 5000, "expected JSON: "),
        ("[" * 100_000, "expected JSON: "),
    ],
)
def test_wrong_json_row_says_what_was_expected(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "in.jsonl").write_text(f'"good"\n{line}\n"bad"\n')
    good, wrong, bad = rows(tmp_path / "in.jsonl")
    assert (good.text, wrong.text, bad.text) == ("good", None, "bad")
    assert wrong.problem.startswith(problem)


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path, name: str) -> None:
    content = "text,label\ngood,x\n" if name == "in.csv" else '"good"\n'
    (tmp_path / name).write_text(content, encoding="utf-8-sig")
    assert [row.text for row in rows(tmp_path / name)] == ["good"]


def test_compressed_file_that_breaks_off_ends_with_its_name(tmp_path: Path) -> None:
    content = "".join(f'"{number}"\n' for number in range(10_000))
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(content.encode())[:-100])
    with pytest.raises(StartError, match=r"in\.jsonl\.gz: cannot be read: "):
        rows(tmp_path / "in.jsonl.gz")


def test_book_fits_into_a_field(tmp_path: Path) -> None:
    book = "word " * 100_000
    (tmp_path / "in.csv").write_text(f"text\n{book}\n")
    assert rows(tmp_path / "in.csv")[0].text == book


@pytest.mark.parametrize("name", ["in.doc", "in", "in.gz"])
def test_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(StartError, match=r"expected \.jsonl, \.csv, \.tsv, \.txt"):
        format_of(Path(name))


def test_missing_column_names_those_found(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("title,body\na,b\n")
    with pytest.raises(StartError, match=r"in\.csv: expected one column 'text', found title, body \(name it"):
        rows(tmp_path / "in.csv")


def test_table_row_that_would_lose_text_is_none(tmp_path: Path) -> None:
    """An unclosed quote would make one text of all that follows, a comma too many would cut a text off."""
    path = tmp_path / "in.csv"
    path.write_text('text,label\ngood, very good,x\nfine,x\n"open,x\nbad,y\n')
    cut, fine, unclosed = rows(path)
    assert (cut.line, cut.text, cut.problem) == (2, None, "expected 2 fields as in the header, found 3")
    assert (fine.line, fine.text) == (3, "fine")
    assert (unclosed.line, unclosed.text) == (4, None)
    assert unclosed.problem == "expected a table row: unexpected end of data; the row goes on to line 5"


@pytest.mark.parametrize(
    ("name", "before", "after"), [("in.csv", "text\n", "\n"), ("in.txt", "", "\n"), ("in.jsonl", '"', '"\n')]
)
def test_byte_that_is_no_utf8_is_named(tmp_path: Path, name: str, before: str, after: str) -> None:
    path = tmp_path / name
    path.write_bytes(before.encode() + "caf\u00e9".encode("latin-1") + after.encode())
    (row,) = rows(path)
    assert (row.text, row.problem) == (None, "expected UTF-8, found the byte 0xe9")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"absent\.csv: cannot be read: No such file"):
        rows(tmp_path / "absent.csv")
