"""Speed of the exported graphs beside the standard LSTM's: `python benchmarks/lowering/speed.py --json FILE`.

Random weights of the papers' sizes, one thread, every graph run in turn with the LSTM of the same hidden size on
the same words; the medians of the time per word and of the ratio to the LSTM in the same turn. A ratio above 1 is
faster than the LSTM. Leap-LSTM's skip rate is set by the bias of its decision.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

from export.lowering.registry import lower
from export.reading import GraphReader
from models.architectures.base import Architecture
from models.architectures.leap import KEEP, LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTMConfig
from models.architectures.mtlstm import MTLSTMConfig
from models.architectures.registry import AnyModelConfig, build
from models.text.storage import store_vectors

_VOCABULARY, _EMBEDDING, _CLASSES = 5000, 100, 2


@dataclass(frozen=True)
class Result:
    """One model at one batch shape."""

    model: str
    rows: int
    length: int
    microseconds_per_word: float
    speed_over_lstm: float
    skip_rate: float | None


def network(config: AnyModelConfig, keep_bias: float = 0.0) -> tuple[Architecture, GraphReader]:
    """A random network and its sessions."""
    torch.manual_seed(0)
    vectors = np.random.default_rng(0).normal(0, 1, (_VOCABULARY, _EMBEDDING)).astype(np.float32)
    stored = store_vectors(vectors, "int8")
    model = build(config, torch.from_numpy(stored.vectors), _CLASSES).eval()
    if isinstance(model, LeapLSTM):
        with torch.no_grad():
            model.decide.bias[KEEP] += keep_bias
    lowered = lower(model, stored)
    return model, GraphReader(lowered.passes, lowered.graphs)


def leap_at(rate: float, hidden: int) -> GraphReader:
    """A random Leap-LSTM that skips about the given share of random words."""
    documents = list(np.random.default_rng(1).integers(1, _VOCABULARY, (4, 128)).astype(np.int32))
    low, high = -8.0, 8.0
    for _ in range(14):
        bias = (low + high) / 2
        _, reader = network(LeapLSTMConfig(hidden=hidden), bias)
        skipped = float(np.mean([found["skipped"].astype(float) for found in reader.read(documents, 128)]))
        low, high = (bias, high) if skipped > rate else (low, bias)
    return reader


def timed(run: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(models: dict[str, GraphReader], base: str, rows: int, length: int, turns: int) -> list[Result]:
    """Time all models in turn on the same documents."""
    documents = list(np.random.default_rng(rows).integers(1, _VOCABULARY, (rows, length)).astype(np.int32))
    skips = {name: reader.read(documents, length)[0].get("skipped") for name, reader in models.items()}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(turns):
        for name, reader in models.items():
            seconds[name].append(timed(lambda reader=reader: reader.read(documents, length)))  # type: ignore[misc]
    results = []
    for name, times in seconds.items():
        ratios = [reference / own for reference, own in zip(seconds[base], times, strict=True)]
        skipped = skips[name]
        results.append(
            Result(
                name,
                rows,
                length,
                round(statistics.median(times) / rows / length * 1e6, 3),
                round(statistics.median(ratios), 2),
                None if skipped is None else round(float(skipped.astype(float).mean()), 2),
            )
        )
    return results


def main() -> None:
    """Print the table, and write it with the machine's description where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    periodic: dict[str, AnyModelConfig] = {
        "LSTM h=100": LSTMConfig(hidden=100),
        "MT-LSTM F2S g=5 h=100": MTLSTMConfig(hidden=100, groups=5),
        "MT-LSTM S2F g=5 h=100": MTLSTMConfig(hidden=100, groups=5, strategy="slow_to_fast"),
        "MT-LSTM F2S g=5 h=100, full V": MTLSTMConfig(hidden=100, groups=5, cell_to_gate="full"),
    }
    groups = [{name: network(config)[1] for name, config in periodic.items()}]
    leaps = {f"Leap-LSTM h=300, skip {rate}": leap_at(rate, 300) for rate in (0.25, 0.6, 0.9)}
    groups.append({"LSTM h=300": network(LSTMConfig(hidden=300))[1], **leaps})
    results = [
        result
        for models in groups
        for rows in (1, 2, 8, 32)
        for length in (32, 128)
        for result in compare(models, next(iter(models)), rows, length, options.turns)
    ]
    for result in results:
        print(result)
    if options.json:
        report = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.processor() or platform.machine()}, one thread",
            "onnxruntime": ort.__version__,
            "command": "python benchmarks/lowering/speed.py",
            "results": [asdict(result) for result in results],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
