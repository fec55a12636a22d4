"""Word vectors as a bundle stores them: float32, float16, or int8 with a scale per word.

The network that is proven and measured uses the stored values, rounded back to float32: the only rounding is
here, and the figures in the card include it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from export.graph import Graph

Storage = Literal["float32", "float16", "int8"]
STORAGES: tuple[str, ...] = get_args(Storage)


@dataclass(frozen=True)
class StoredEmbedding:
    """Word vectors for a graph: `table` `(vocabulary, embedding)`, and `scale` `(vocabulary, 1)` for int8."""

    table: NDArray[np.generic]
    scale: NDArray[np.float32] | None

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The float32 values that the graph computes with."""
        vectors = self.table.astype(np.float32)
        return vectors if self.scale is None else vectors * self.scale

    def lookup(self, graph: Graph, token_ids: str) -> str:
        """Add the lookup to a graph: int64 `[…]` -> float32 `[…, embedding]`."""
        rows = graph.op("Gather", graph.constant("embedding", self.table), token_ids, axis=0)
        if self.table.dtype != np.float32:
            rows = graph.op("Cast", rows, to=1)
        if self.scale is None:
            return rows
        return graph.op(
            "Mul", rows, graph.op("Gather", graph.constant("scale", self.scale), token_ids, axis=0)
        )


def store_embedding(vectors: NDArray[np.float32], storage: Storage) -> StoredEmbedding:
    """Round word vectors `(vocabulary, embedding)` to what the bundle keeps."""
    if storage == "int8":
        scale = np.abs(vectors).max(axis=1, keepdims=True) / np.float32(127)
        scale[scale == 0] = 1
        return StoredEmbedding(np.rint(vectors / scale).astype(np.int8), scale.astype(np.float32))
    return StoredEmbedding(vectors.astype(storage), None)
