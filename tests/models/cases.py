"""The golden cases, and networks loaded with their weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.architectures.base import Architecture
from models.architectures.leap import LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mode import MODELSTM, MODELSTMConfig, Orthogonality, SmallStates
from models.architectures.mtlstm import MTLSTM, MemoryGroup, MemoryGroupWithCellGates, MTLSTMConfig
from models.plain.gates import Weights, part

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Case:
    """One network of a golden file; float64 throughout."""

    name: str
    config: dict[str, Any]
    weights: Weights
    sequences: list[dict[str, Any]]
    batch: dict[str, float]
    penalties: list[dict[str, float]]

    def words(self, sequence: int) -> Tensor:
        return torch.tensor(self.sequences[sequence]["x"], dtype=torch.float64)

    def expected(self, sequence: int, name: str) -> Tensor:
        steps = self.sequences[sequence]["steps"]
        return torch.tensor([step[name] for step in steps], dtype=torch.float64)

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """A table of all word vectors, padding first; token ids `(batch, time)` into it; lengths."""
        words = [self.words(sequence) for sequence in range(len(self.sequences))]
        lengths = torch.tensor([len(x) for x in words])
        table = torch.cat([torch.zeros_like(words[0][:1]), *words])
        ids = torch.zeros(len(words), int(lengths.max()), dtype=torch.int64)
        first = 1
        for row, length in enumerate(lengths.tolist()):
            ids[row, :length] = torch.arange(first, first + length)
            first += length
        return table, ids, lengths


def golden(model: str) -> list[Case]:
    file = json.loads((FOLDER / f"{model}.json").read_text(encoding="utf-8"))
    return [
        Case(
            case["name"],
            case["config"],
            _flat(case["weights"]),
            case["sequences"],
            case.get("batch", {}),
            case.get("penalty_per_scale", []),
        )
        for case in file["cases"]
    ]


def _flat(weights: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
    flat: dict[str, Tensor] = {}
    for name, value in weights.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = torch.tensor(value, dtype=torch.float64)
    return flat


def load(case: Case) -> Architecture:
    """The fast network with a case's weights, in float64, its vocabulary the case's words."""
    table = case.padded()[0]
    if "filter_widths" in case.config:
        model: Architecture = _leap(case, table)
    elif "scales" in case.config:
        model = mode(case, table)
    elif "group_sizes" in case.config:
        model = _mtlstm(case, table)
    else:
        lstm = LSTM(LSTMConfig(hidden=case.config["h"]), table, case.config["classes"]).double()
        _fill_cell(lstm.cell, case.weights)
        model = lstm
    _fill(model.classifier, case.weights["W_y"], case.weights["b_y"])
    return model.eval()


def mode(case: Case, table: Tensor, orthogonality: Orthogonality = "matrices") -> MODELSTM:
    sizes = case.config
    config = MODELSTMConfig(
        scales=tuple(sizes["scales"]),
        states=sizes["K"],
        state_size=sizes["p"],
        mlp=sizes["mlp"],
        orthogonality=orthogonality,
        penalty=1.0,
        classifier_decay=0.0,
        dropout=0.0,
    )
    model = MODELSTM(config, table, sizes["classes"]).double()
    for n, scale in enumerate(model.scales, start=1):
        assert isinstance(scale, SmallStates)
        small = part(case.weights, f"scale_{n}")
        inputs = [small[f"U_{gate}"] for gate in "fiog"]
        biases = [
            small.get(f"b_{gate}", torch.zeros_like(u[:, 0])) for gate, u in zip("fiog", inputs, strict=True)
        ]
        _fill(scale.project, _by_state(inputs, sizes["K"]), _by_state(biases, sizes["K"]))
        with torch.no_grad():
            scale.recurrent.copy_(small["W"])
    _fill(model.mlp, case.weights["W_m"], case.weights["b_m"])
    return model


def _by_state(gates: list[Tensor], states: int) -> Tensor:
    """Gates over all units `(K p, …)` -> all gates of the first state, then of the second, …"""
    return torch.stack([gate.view(states, -1, *gate.shape[1:]) for gate in gates], dim=1).flatten(0, 2)


def _mtlstm(case: Case, table: Tensor) -> MTLSTM:
    sizes = case.config["group_sizes"]
    config = MTLSTMConfig(hidden=sum(sizes), groups=len(sizes), cell_to_gate=case.config["v"])
    model = MTLSTM(config, table, case.config["classes"]).double()
    units = torch.split(torch.arange(sum(sizes)), sizes)
    for k, group in enumerate(model.groups):
        columns = torch.cat([units[j] for j in range(k)]) if k else torch.empty(0, dtype=torch.int64)
        w = _pack(case.weights, "W")[units_of_gates(units[k], sum(sizes), 4)]
        u = _pack(case.weights, "U")[units_of_gates(units[k], sum(sizes), 4)]
        b = _pack(case.weights, "b")[units_of_gates(units[k], sum(sizes), 4)]
        joined = torch.cat([w, u[:, columns]], dim=1)
        if isinstance(group, MemoryGroup):
            _fill_packed(group.cell, joined, u[:, units[k]], b)
            continue
        assert isinstance(group, MemoryGroupWithCellGates)
        v = _pack(case.weights, "V", "ifo")[units_of_gates(units[k], sum(sizes), 3)]
        _fill(group.inputs, joined, b)
        _fill(group.recurrent, u[:, units[k]])
        _fill(group.own_cell, v[:, units[k]])
        if group.source_cells is not None:
            _fill(group.source_cells, v[:, columns])
    return model


def units_of_gates(units: Tensor, hidden: int, gates: int) -> Tensor:
    """The rows of some units in a matrix that packs several gates."""
    return torch.cat([gate * hidden + units for gate in range(gates)])


def _leap(case: Case, table: Tensor) -> LeapLSTM:
    sizes, weights = case.config, case.weights
    config = LeapLSTMConfig(
        hidden=sizes["h"],
        reverse_hidden=sizes["h_prime"],
        decision_hidden=sizes["s"],
        filter_widths=tuple(sizes["filter_widths"]),
        filters=sizes["filters"],
        temperature=sizes.get("temperature", 0.1),
        target_skip_rate=case.batch.get("target", 0.6),
        penalty=case.batch.get("lambda", 1.0),
        dropout=0.0,
    )
    model = LeapLSTM(config, table, sizes["classes"]).double()
    cell = part(weights, "lstm")
    _fill(model.cell.project, _pack(cell, "W"), _pack(cell, "b"))
    _fill(model.cell.recurrent, _pack(cell, "U"))
    _fill_cell(model.look_ahead.reverse, part(weights, "reverse"))
    for width, conv in zip(config.filter_widths, model.look_ahead.filters, strict=True):
        assert isinstance(conv, nn.Conv1d)
        _fill(conv, weights[f"cnn_w_{width}"].transpose(1, 2), weights[f"cnn_b_{width}"])
    with torch.no_grad():
        model.look_ahead.h_end.copy_(weights["h_end"])
    word, state, ahead = torch.split(weights["W_1"], [sizes["d"], sizes["h"], model.look_ahead.size], dim=1)
    _fill(model.decide_word, word, weights["b_1"])
    _fill(model.decide_state, state)
    _fill(model.decide_ahead, ahead)
    _fill(model.decide, weights["W_2"], weights["b_2"])
    return model


def _pack(weights: Weights, letter: str, gates: str = "ifco") -> Tensor:
    """The gates of one matrix or bias in PyTorch's order; absent biases are zeros."""
    like = weights["U_i"][:, 0]
    return torch.cat([weights.get(f"{letter}_{gate}", torch.zeros_like(like)) for gate in gates])


def _fill_cell(cell: nn.LSTM, weights: Weights) -> None:
    _fill_packed(cell, *(_pack(weights, letter) for letter in "WUb"))


def _fill_packed(cell: nn.LSTM, w: Tensor, u: Tensor, b: Tensor) -> None:
    with torch.no_grad():
        for parameter, value in zip(cell.all_weights[0], (w, u, b, torch.zeros_like(b)), strict=True):
            parameter.copy_(value)


def _fill(layer: nn.Linear | nn.Conv1d, weight: Tensor, bias: Tensor | None = None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            assert layer.bias is not None
            layer.bias.copy_(bias)
