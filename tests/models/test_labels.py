from __future__ import annotations

from pathlib import Path

import pytest

from models.data.labels import DROP, LabelSet, found_labels, given_labels
from models.data.rows import Row
from models.errors import ConfigError, DataError

PATH = Path("train.csv")
NAMES = given_labels(["negative", "positive"], {})


def index(labels: LabelSet, label: str | int) -> int:
    return labels.index(Row("text", label, 7), PATH)


@pytest.mark.parametrize(("label", "expected"), [("negative", 0), ("positive", 1), (0, 0), (1, 1), ("1", 1)])
def test_label_is_a_name_or_a_position(label: str | int, expected: int) -> None:
    assert index(NAMES, label) == expected


def test_beside_names_that_are_numbers_there_are_no_positions() -> None:
    """A file that counts from 0 would else be read as classes that count from 1, all but its 0 one off."""
    stars = given_labels(["1", "2", "3"], {})
    assert index(stars, 3) == 2
    with pytest.raises(DataError, match=r"expected one of the classes \['1', '2', '3'\], found '0'"):
        index(stars, 0)


@pytest.mark.parametrize("names", [["-1", "+1"], ["1.0", "2.0"], ["no", "-.5"]])
def test_beside_names_that_are_signed_or_decimal_numbers_there_are_no_positions(names: list[str]) -> None:
    with pytest.raises(DataError, match="found '1'"):
        index(given_labels(names, {}), 1)


@pytest.mark.parametrize("label", ["neutral", 2, -1, "²", "01", "9" * 5000, "Positive"])
def test_unknown_label_is_told_with_its_line(label: str | int) -> None:
    with pytest.raises(DataError) as raised:
        index(NAMES, label)
    expected = f"train.csv, line 7: expected one of the classes ['negative', 'positive'], found '{label}'"
    assert str(raised.value) == expected


def test_mapping_renames_and_leaves_out() -> None:
    labels = given_labels(["negative", "positive"], {"1": "negative", "3": None, "5": "positive"})
    assert [index(labels, label) for label in (1, "3", 5)] == [0, DROP, 1]
    with pytest.raises(DataError, match=r"line 7: expected a label in \['1', '3', '5'\], found 'positive'"):
        index(labels, "positive")


@pytest.mark.parametrize("names", [[], ["only"], ["a", "b", "a"], ["a", "b", ""], ["a", " "]])
def test_class_names_must_be_two_or_more_and_distinct(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected two or more distinct class names"):
        given_labels(names, {})


def test_mapping_to_an_unknown_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"label_map names \['c'\], which are not among the classes"):
        given_labels(["a", "b"], {"1": "a", "2": "c"})


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ("a", "b")),
        ([10, 9, 1], ("1", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        ([-1, 1, 0, -2], ("-2", "-1", "0", "1")),
        (["10.0", "0.5", "1.0"], ("0.5", "1.0", "10.0")),
        ([True, "true", 2], ("2", "True", "true")),
    ],
)
def test_labels_are_found_in_order(labels: list[str | int], names: tuple[str, ...]) -> None:
    assert found_labels(labels, PATH).names == names


@pytest.mark.parametrize(("labels", "found"), [([], "no rows"), (["a", "a"], r"\['a'\]")])
def test_one_class_is_not_enough(labels: list[str | int], found: str) -> None:
    with pytest.raises(DataError, match=f"expected rows of at least two classes, found {found}"):
        found_labels(labels, PATH)
