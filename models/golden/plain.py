"""Golden cases read by the plain cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from models.golden.cases import Case
from models.plain import bidirectional, cifg, clstm, leap, lstm, mtgru, mtlstm, skim, skip, windows
from models.plain.gates import Weights, classify, part

Values = dict[str, Tensor]  # name in the golden files -> `(time, …)`; `argmax_t` `(features,)`


def read(case: Case, sequence: int) -> Values:
    """What the plain cell gives after every word, in the case's precision.

    Raises:
        KeyError: no such model.
    """
    values = READERS[case.model](case, sequence)
    return values | {"probs": torch.softmax(values["logits"], dim=-1)}


def _lstm(case: Case, sequence: int) -> Values:
    cell: lstm.OutputGateCell = "new" if case.config["output_gate_cell"] == "c_t" else "previous"
    return _states(lstm.read(case.weights, case.words(sequence), cell))


def _cifg(case: Case, sequence: int) -> Values:
    return _states(cifg.read(case.weights, case.words(sequence)))


def _clstm(case: Case, sequence: int) -> Values:
    reading = clstm.read(case.weights, case.words(sequence), case.config["group_sizes"])
    return {"h": reading.h, "c": reading.c, "r": reading.r, "logits": reading.logits}


def _b_clstm(case: Case, sequence: int) -> Values:
    sizes = case.config["group_sizes"]

    def slowest(weights: Weights, words: Tensor) -> Tensor:
        return clstm.read_out(clstm.states(weights, words, sizes)[0], sizes, "slowest")

    return {"logits": bidirectional.read(case.weights, case.words(sequence), slowest).logits}


def _mtlstm(case: Case, sequence: int) -> Values:
    strategy: Literal["fast_to_slow", "slow_to_fast"] = (
        "fast_to_slow" if case.config["strategy"] == "f2s" else "slow_to_fast"
    )
    return _states(mtlstm.read(case.weights, case.words(sequence), case.config["group_sizes"], strategy))


def _leap(case: Case, sequence: int) -> Values:
    noise = case.sequences[sequence].get("gumbel")
    reading = leap.read(
        case.weights,
        case.words(sequence),
        case.config["filter_widths"],
        case.config["layout"],
        None if noise is None else torch.tensor(noise, dtype=case.dtype),
        case.config.get("temperature", 0.1),
    )
    shares = torch.stack([1 - reading.skip, reading.skip], dim=1)
    return _states(reading) | {"pi": reading.probabilities, "skip": reading.skip, "y": shares}


def _skip(case: Case, sequence: int) -> Values:
    reading = skip.read(case.weights, case.words(sequence))
    return _states(reading) | {"u_tilde": reading.probability, "u": reading.update}


def _skim(case: Case, sequence: int) -> Values:
    noise = case.sequences[sequence].get("gumbel") if case.config["soft"] else None
    reading = skim.read(
        case.weights,
        case.words(sequence),
        None if noise is None else torch.tensor(noise, dtype=case.dtype),
        case.config.get("temperature", 0.5),
    )
    return _states(reading) | {"p": reading.probabilities, "y": reading.shares}


def _mode(case: Case, sequence: int) -> Values:
    scales = case.config["scales"]
    reading = windows.read_mode(case.weights, case.words(sequence), scales)
    return {
        "features": torch.stack(reading.features.chunk(len(scales), dim=1), dim=1),
        "prefix_max": reading.pooled,
        "logits": reading.logits,
        "argmax_t": reading.last_words + 1,
    }


def _mtgru(case: Case, sequence: int) -> Values:
    weights = layer_weights(case.weights)
    layer = mtgru.layer(weights, case.words(sequence), case.config["tau"])
    return vars(layer) | {"logits": classify(case.weights, layer.h)}


def _hl_mtgru(case: Case, sequence: int) -> Values:
    taus = case.config["tau_fast"], case.config["tau_slow"]
    reading = mtgru.read_hierarchical(case.weights, case.words(sequence), *taus)
    layers = {"fast": reading.fast, "slow": reading.slow}
    return {
        f"{name}.{value}": found for name, layer in layers.items() for value, found in vars(layer).items()
    } | {"logits": reading.logits}


def layer_weights(weights: Weights) -> Weights:
    """Those of a model's one MTGRU layer, which may be a part of any name."""
    (name,) = (key.removesuffix("W_xr") for key in weights if key.endswith("W_xr"))
    return part(weights, name.removesuffix(".")) if name else weights


def _states(reading: lstm.Reading | leap.LeapReading | skip.SkipReading | skim.SkimReading) -> Values:
    return {"h": reading.h, "c": reading.c, "logits": reading.logits}


READERS: Mapping[str, Callable[[Case, int], Values]] = {
    "lstm_graves": _lstm,
    "cifg": _cifg,
    "clstm": _clstm,
    "bclstm": _b_clstm,
    "mtlstm_f2s": _mtlstm,
    "mtlstm_s2f": _mtlstm,
    "mtgru": _mtgru,
    "hl_mtgru": _hl_mtgru,
    "leap_lstm": _leap,
    "skip_rnn": _skip,
    "skim_rnn": _skim,
    "mode_lstm": _mode,
}
