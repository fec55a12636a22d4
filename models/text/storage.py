"""Word vectors as a bundle stores them: float32, float16, or int8 with a scale per word.

A run's weights are always read with their word vectors rounded to the stored form, so what is evaluated is what
is exported and served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Storage = Literal["float32", "float16", "int8"]


@dataclass(frozen=True)
class StoredVectors:
    """`table` `(vocabulary, embedding)`, and for int8 a float32 `scale` `(vocabulary, 1)`."""

    table: NDArray[np.generic]
    scale: NDArray[np.float32] | None

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The float32 values that the table stands for."""
        vectors = self.table.astype(np.float32)
        return vectors if self.scale is None else vectors * self.scale


def store_vectors(vectors: NDArray[np.float32], storage: Storage) -> StoredVectors:
    """Round word vectors `(vocabulary, embedding)`; rounding twice changes nothing."""
    if storage == "int8":
        scale = np.abs(vectors).max(axis=1, keepdims=True) / np.float32(127)
        scale[scale == 0] = 1
        return StoredVectors(np.rint(vectors / scale).astype(np.int8), scale.astype(np.float32))
    return StoredVectors(vectors.astype(storage), None)
