"""Speed of MODE-LSTM's layer in training beside autograd's: `python benchmarks/training/small_states.py --json FILE`.

Forward and backward of the paper's layers on one batch of 50 documents, one thread, in turn with the same equations
left to autograd; the medians of the seconds and of the ratio in the same turn. A ratio above 1 is faster.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from models.architectures.base import init_uniform
from models.architectures.small_states import SmallStates

_DOCUMENTS, _EMBEDDING = 50, 300


def by_autograd(layer: SmallStates, x: Tensor) -> Tensor:
    """The layer's equations, step by step."""
    states, gates, size = layer.recurrent.shape
    time_steps = x.shape[1] - layer.words + 1
    projected = layer.project(x).view(len(x), -1, states, gates).permute(2, 0, 1, 3)
    h = c = x.new_zeros(states, len(x) * time_steps, size)
    for step in range(layer.words):
        words = projected[:, :, step : step + time_steps].flatten(1, 2)
        f, i, o, g = torch.baddbmm(words, h, layer.recurrent.transpose(1, 2)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h.view(states, len(x), time_steps, size).permute(1, 2, 0, 3).flatten(2)


def main() -> None:
    """Compare the layers of MODE-LSTM's scales and of ODE-LSTM at two lengths of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--turns", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results = [
        compare(states, words, length, arguments.turns)
        for states, words in ((2, 5), (2, 10), (2, 15), (6, 15))
        for length in (10, 25)
    ]
    found = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, 1 thread, CPU",
        "results": results,
    }
    text = json.dumps(found, indent=2) + "\n"
    if arguments.json:
        arguments.json.write_text(text, encoding="utf-8")
    print(text, end="")


def compare(states: int, words: int, length: int, turns: int) -> dict[str, float]:
    """One layer on texts of one length."""
    layer = SmallStates(_EMBEDDING, states, 50, words)
    init_uniform(layer, 0.1)
    x = torch.randn(_DOCUMENTS, words - 1 + length, _EMBEDDING)
    pairs = [(seconds(layer, x, plain=True), seconds(layer, x, plain=False)) for _ in range(turns + 2)][2:]
    return {
        "states": states,
        "window": words,
        "length": length,
        "autograd_milliseconds": round(1000 * statistics.median(plain for plain, _ in pairs), 1),
        "milliseconds": round(1000 * statistics.median(ours for _, ours in pairs), 1),
        "speed_over_autograd": round(statistics.median(plain / ours for plain, ours in pairs), 2),
    }


def seconds(layer: SmallStates, x: Tensor, plain: bool) -> float:
    """Processor seconds of one forward and backward."""
    layer.zero_grad()
    start = time.process_time()
    (by_autograd(layer, x) if plain else layer(x)).sum().backward()
    return time.process_time() - start


if __name__ == "__main__":
    main()
