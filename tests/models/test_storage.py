from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from models.text.storage import Storage, store_vectors

VECTORS = arrays(
    np.float32, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-10, 10, width=32)
)


@settings(deadline=None)
@given(VECTORS)
def test_int8_is_off_by_at_most_half_a_step(vectors: NDArray[np.float32]) -> None:
    stored = store_vectors(vectors, "int8")
    assert stored.table.dtype == np.int8
    step = np.abs(vectors).max(axis=1, keepdims=True) / 127
    assert (np.abs(stored.vectors - vectors) <= 0.5001 * step + 1e-30).all()


@settings(deadline=None)
@given(VECTORS, st.sampled_from(["float32", "float16", "int8"]))
def test_rounding_twice_changes_nothing(vectors: NDArray[np.float32], storage: Storage) -> None:
    once = store_vectors(vectors, storage).vectors
    assert once.dtype == np.float32
    np.testing.assert_array_equal(store_vectors(once, storage).vectors, once)


def test_padding_stays_zero() -> None:
    vectors = np.array([[0, 0], [1, -2]], dtype=np.float32)
    assert store_vectors(vectors, "int8").vectors[0].tolist() == [0, 0]


@pytest.mark.parametrize(("storage", "table_bytes"), [("float32", 240), ("float16", 120), ("int8", 60)])
def test_size_of_the_table(storage: Storage, table_bytes: int) -> None:
    assert store_vectors(np.ones((10, 6), dtype=np.float32), storage).table.nbytes == table_bytes
