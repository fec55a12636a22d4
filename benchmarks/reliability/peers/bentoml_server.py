"""The reader behind BentoML with its batching: `bentoml serve bentoml_server:Classifier`."""

from __future__ import annotations

from typing import Any

import bentoml
from reader import Reader


@bentoml.service(workers=1, traffic={"timeout": 30})
class Classifier:
    """One text a request, up to 64 in a batch."""

    def __init__(self) -> None:
        self.reader = Reader()

    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=30_000)
    def classify(self, texts: list[str]) -> list[dict[str, Any]]:
        """Read a batch."""
        return self.reader.read(texts)
