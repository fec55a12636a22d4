"""Golden cases of B-CLSTM and of MT-LSTM from slow to fast, in NumPy float64 straight from the papers' equations.

It shares no code with the models. As a command it writes the two files anew:

    python -m tests.models.golden.compute
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Json = dict[str, Any]
FOLDER = Path(__file__).parent


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def draw(random: np.random.Generator, *shape: int) -> Array:
    """Numbers of two decimals, so that the file says exactly what was computed with."""
    return np.round(random.uniform(-0.9, 0.9, shape), 2)


def answer(weights: Json, state: Array) -> Json:
    """The classifier on a state."""
    logits = weights["W_y"] @ state + weights["b_y"]
    exponentials = np.exp(logits - logits.max())
    return {"logits": logits, "probs": exponentials / exponentials.sum()}


def mtlstm_slow_to_fast(weights: Json, words: Array, sizes: Sequence[int]) -> list[Json]:
    """Liu et al., EMNLP 2015, equations 8-15: group k runs where t mod 2^(k-1) = 0, and hears the groups j >= k."""
    units = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    h, c = np.zeros(sum(sizes)), np.zeros(sum(sizes))
    steps = []
    for t, x in enumerate(words, start=1):
        h_before, c_before = h.copy(), c.copy()
        for k, rows in enumerate(units):
            if t % 2**k:
                continue
            total = {gate: weights[f"W_{gate}"][rows] @ x for gate in "ifoc"}
            for gate in "ifoc":
                if f"b_{gate}" in weights:
                    total[gate] = total[gate] + weights[f"b_{gate}"][rows]
                for heard in units[k:]:
                    block = np.ix_(rows, heard)
                    total[gate] = total[gate] + weights[f"U_{gate}"][block] @ h_before[heard]
                    if gate != "c" and f"V_{gate}" in weights:
                        total[gate] = total[gate] + weights[f"V_{gate}"][block] @ c_before[heard]
            i, f, o = (sigmoid(total[gate]) for gate in "ifo")
            c[rows] = f * c_before[rows] + i * np.tanh(total["c"])
            h[rows] = o * np.tanh(c[rows])
        steps.append({"t": t, "h": h.copy(), "c": c.copy(), **answer(weights, h)})
    return steps


def slowest_states(weights: Json, words: Array, sizes: Sequence[int]) -> list[Array]:
    """Xu et al., EMNLP 2016, equations 8-13: h of group 1 after every word, in one direction."""
    group = np.repeat(np.arange(len(sizes)), sizes)  # k - 1 of every unit
    h, c = np.zeros(sum(sizes)), np.zeros(sum(sizes))
    states = []
    for x in words:
        total = {gate: weights[f"W_{gate}"] @ x + weights[f"U_{gate}"] @ h for gate in "roc"}
        total = {gate: value + weights.get(f"b_{gate}", 0.0) for gate, value in total.items()}
        r = sigmoid(total["r"]) / len(sizes) + group / len(sizes)
        c = (1 - r) * c + r * np.tanh(total["c"])
        h = sigmoid(total["o"]) * np.tanh(c)
        states.append(h[: sizes[0]])
    return states


def bclstm(weights: Json, words: Array, sizes: Sequence[int]) -> list[Json]:
    """Equation 15: the classifier reads [fwd h^1 at t; bwd h^1 at 1], which ends at the answer."""
    forward = slowest_states(weights["fwd"], words, sizes)
    backward = slowest_states(weights["bwd"], words[::-1], sizes)[-1]
    return [
        {"t": t, "h_fwd_1": state, "h_bwd_1": backward, **answer(weights, np.concatenate([state, backward]))}
        for t, state in enumerate(forward, start=1)
    ]


def mtlstm_weights(random: np.random.Generator, width: int, sizes: Sequence[int], v: str, bias: bool) -> Json:
    """U and V with zero blocks where a group does not listen."""
    hidden, group = sum(sizes), np.repeat(np.arange(len(sizes)), sizes)
    listens = group[:, None] <= group[None, :]
    weights = {f"W_{gate}": draw(random, hidden, width) for gate in "ifoc"}
    weights |= {f"U_{gate}": draw(random, hidden, hidden) * listens for gate in "ifoc"}
    if v == "full":
        weights |= {f"V_{gate}": draw(random, hidden, hidden) * listens for gate in "ifo"}
    return weights | (_biases(random, hidden, "ifoc") if bias else {}) | _classifier(random, hidden)


def bclstm_weights(random: np.random.Generator, width: int, sizes: Sequence[int], bias: bool) -> Json:
    hidden = sum(sizes)

    def direction() -> Json:
        weights = {f"W_{gate}": draw(random, hidden, width) for gate in "roc"}
        weights |= {f"U_{gate}": draw(random, hidden, hidden) for gate in "roc"}
        return weights | (_biases(random, hidden, "roc") if bias else {})

    return {"fwd": direction(), "bwd": direction(), **_classifier(random, 2 * sizes[0])}


def _biases(random: np.random.Generator, hidden: int, gates: str) -> Json:
    return {f"b_{gate}": draw(random, hidden) for gate in gates}


def _classifier(random: np.random.Generator, size: int) -> Json:
    return {"W_y": draw(random, 2, size), "b_y": draw(random, 2)}


def mtlstm_s2f_file() -> Json:
    random = np.random.default_rng(15)
    cases = []
    for name, sizes, v, bias in (
        ("paper_full_v", (2, 2, 2), "full", False),
        ("no_v_bias", (2, 2, 2), "none", True),
        ("uneven_full_v_bias", (2, 2, 1), "full", True),
    ):
        weights = mtlstm_weights(random, 2, sizes, v, bias)
        sequences = []
        for length in (9, 3):
            words = draw(random, length, 2)
            steps = mtlstm_slow_to_fast(weights, words, sizes)
            sequences.append({"length": length, "x": words, "steps": steps})
        config = {"d": 2, "group_sizes": sizes, "periods": [2**k for k in range(len(sizes))]}
        config |= {"strategy": "s2f", "v": v, "bias": bias, "classes": 2}
        cases.append({"name": name, "config": config, "weights": weights, "sequences": sequences})
    return {
        "model": "mtlstm_s2f",
        "source": "MT-LSTM paper eqs (8)-(15)",
        "convention": {
            "groups": "group 1 first in the state vector and fastest; period T_k = 2^(k-1)",
            "clock": "t 1-based; group k runs when t mod T_k == 0",
            "connection": "j -> k exists iff T_j >= T_k (j >= k); U and V are stored dense with zero blocks",
            "states": "all groups running at t read h and c of step t-1",
            "output_gate": "eq (10): V_o reads c_{t-1}",
            "readout": "h_T of ALL groups concatenated (group 1 first)",
        },
        "cases": cases,
    }


def bclstm_file() -> Json:
    random = np.random.default_rng(16)
    cases = []
    for name, sizes, bias in (("paper_K3", (2, 2, 2), False), ("bias_K4_uneven", (2, 1, 1, 1), True)):
        weights = bclstm_weights(random, 2, sizes, bias)
        sequences = []
        for length in (7, 3, 1):
            words = draw(random, length, 2)
            sequences.append({"length": length, "x": words, "steps": bclstm(weights, words, sizes)})
        config = {"d": 2, "group_sizes": sizes, "bias": bias, "classes": 2}
        cases.append({"name": name, "config": config, "weights": weights, "sequences": sequences})
    return {
        "model": "bclstm",
        "source": "Cached LSTM paper eqs (8)-(13),(15)",
        "convention": {
            "r": "FORGETTING rate, c = (1-r) c_prev + r c_tilde; r_k = z/K + (k-1)/K in ((k-1)/K, k/K)",
            "groups": "group 1 first in the state vector and SLOWEST",
            "directions": "fwd reads x_1..x_T, bwd reads x_T..x_1, each with its own weights",
            "readout": "[fwd h^1_T ; bwd h^1_1]; at step t [fwd h^1_t ; bwd h^1_1]",
        },
        "cases": cases,
    }


FILES = {"mtlstm_s2f": mtlstm_s2f_file, "bclstm": bclstm_file}


def as_json(file: Json) -> str:
    return json.dumps(file, default=lambda array: array.tolist(), separators=(",", ":"))


if __name__ == "__main__":
    for model, make in FILES.items():
        (FOLDER / f"{model}.json").write_text(as_json(make()) + "\n", encoding="utf-8")
