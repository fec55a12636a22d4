"""Splits, encoded documents and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.data.batches import make_batch, shuffled_batches, sorted_batches
from models.data.documents import BadRows, Documents, encode_rows, split_rows
from models.data.labels import given_labels
from models.data.rows import Row
from models.errors import DataError
from models.text.tokenizer import TokenizerConfig, build_tokenizer

PATH = Path("train.csv")
TOKENIZER = build_tokenizer(["a b c"], TokenizerConfig())


def rows(*texts_and_labels: tuple[str, str]) -> list[tuple[Path, Row]]:
    return [(PATH, Row(text, label, line)) for line, (text, label) in enumerate(texts_and_labels, start=1)]


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 100))
def test_split_puts_every_row_on_one_side(count: int, fraction: float, seed: int) -> None:
    every = rows(*((f"text {number}", "x") for number in range(count)))
    train, dev = split_rows(every, fraction, seed)
    assert sorted(row.line for _, row in (*train, *dev)) == list(range(1, count + 1))
    assert len(dev) == min(max(1, round(fraction * count)), count - 1)
    assert split_rows(every, fraction, seed) == (train, dev)


def test_another_seed_splits_otherwise() -> None:
    every = rows(*((f"text {number}", "x") for number in range(100)))
    assert split_rows(every, 0.1, seed=1) != split_rows(every, 0.1, seed=2)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(DataError, match="expected at least two rows to make a dev split from, found one"):
        split_rows(rows(("a", "x")), 0.5, seed=1)


LABELS = given_labels(["x", "y"], {"x": "x", "y": "y", "neutral": None})


def test_rows_become_token_ids_and_class_indices() -> None:
    documents = encode_rows(rows(("a b", "x"), ("c", "neutral"), ("c", "y")), LABELS, TOKENIZER)
    assert [ids.tolist() for ids in documents.token_ids] == [[2, 3], [4]]
    assert documents.labels.tolist() == [0, 1]
    assert documents.lengths.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("<br />", "x"), "train.csv, line 2: expected at least one token in the text, found none"),
        (("a", "z"), "train.csv, line 2: expected a label in"),
    ],
)
def test_unusable_document_is_told_or_counted(row: tuple[str, str], message: str) -> None:
    every = rows(("a", "x"), row)
    with pytest.raises(DataError) as raised:
        encode_rows(every, LABELS, TOKENIZER)
    assert str(raised.value).startswith(message)
    bad = BadRows()
    assert len(encode_rows(every, LABELS, TOKENIZER, bad)) == 1
    assert bad.count == 1
    assert bad.messages[0].startswith(message)


def test_no_document_left_is_told() -> None:
    with pytest.raises(DataError, match="expected documents of the given classes, found none"):
        encode_rows(rows(("a", "neutral")), LABELS, TOKENIZER)


def test_progress_is_told_in_documents() -> None:
    told: list[int] = []
    encode_rows(rows(*[("a", "x")] * 5000), LABELS, TOKENIZER, progress=told.append)
    assert told == [4096, 5000]


LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=300).map(
    lambda values: np.array(values, np.int64)
)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 40), st.integers(0, 5), st.integers(1, 5))
def test_an_epoch_has_every_document_once(lengths: np.ndarray, size: int, seed: int, epoch: int) -> None:
    batches = shuffled_batches(lengths, size, seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // size)
    assert all(len(batch) <= size for batch in batches)
    again = shuffled_batches(lengths, size, seed, epoch)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def test_epochs_and_seeds_shuffle_otherwise() -> None:
    lengths = np.arange(1, 201)
    orders = {
        tuple(np.concatenate(shuffled_batches(lengths, 16, seed, epoch)).tolist())
        for seed in (1, 2)
        for epoch in (1, 2)
    }
    assert len(orders) == 4


def test_batches_hold_documents_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 500, 3200)
    for batches in (shuffled_batches(lengths, 32, seed=1, epoch=1), sorted_batches(lengths, 32)):
        padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
        assert padded < 1.15 * lengths.sum()


def test_batch_is_padded_on_the_right() -> None:
    documents = Documents(
        (np.array([5, 6, 7], np.int32), np.array([8], np.int32)), np.array([1, 0], dtype=np.int64)
    )
    batch = make_batch(documents, np.array([1, 0]))
    assert batch.token_ids.tolist() == [[8, 0, 0], [5, 6, 7]]
    assert batch.lengths.tolist() == [1, 3]
    assert batch.labels.tolist() == [0, 1]
