"""Networks with the weights of golden cases, each case's words as its vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from models.architectures.base import Architecture
from models.architectures.cifg import CIFG, CIFGCell, CIFGConfig
from models.architectures.clstm import CLSTM, CLSTMCell, CLSTMConfig
from models.architectures.hl_mtgru import HLMTGRU, FastAndSlow, HLMTGRUConfig
from models.architectures.leap import LeapLSTM, LeapLSTMConfig
from models.architectures.lstm import LSTM, LSTMConfig
from models.architectures.mode import MODELSTM, MODELSTMConfig
from models.architectures.mtgru import MTGRU, MTGRUCell, MTGRUConfig
from models.architectures.mtlstm import MTLSTM, MemoryGroup, MemoryGroupWithCellGates, MTLSTMConfig
from models.architectures.peephole import PeepholeLSTM
from models.architectures.reading_cell import ReadingCell
from models.architectures.skim import SkimLSTM, SkimLSTMConfig
from models.architectures.skip import SkipLSTM, SkipLSTMConfig
from models.architectures.small_states import SmallStates
from models.golden.cases import Case
from models.golden.plain import layer_weights
from models.plain.gates import Weights, part

_CELL_TO_GATE = {"full": "full", "diag": "diagonal", "none": "none"}
_OUTPUT_GATE_CELL = {"c_t": "new", "c_prev": "previous"}
_MODES = ("argmax", "soft")
_STRATEGIES = {"f2s": "fast_to_slow", "s2f": "slow_to_fast"}


def has_network(case: Case) -> bool:
    """Whether a network reads the case as the plain cell does: not blends under given noise, which are training.

    Raises:
        ValueError: another mode, or a blend without noise.
    """
    mode = case.config.get("mode", _MODES[bool(case.config.get("soft", False))])
    if mode not in _MODES:
        raise ValueError(f"mode: expected one of {', '.join(_MODES)}, found {mode}")
    soft: bool = mode == "soft"
    if soft and not all("gumbel" in sequence for sequence in case.sequences):
        raise ValueError("mode soft: expected gumbel in every sequence, found none")
    return not soft


def load(case: Case) -> Architecture:
    """The network with a case's weights, in its precision, in evaluation mode.

    Raises:
        KeyError: no such model.
    """
    table = case.padded()[0]
    model = _LOADERS[case.model](case, table).to(case.dtype)
    _fill(model.classifier, case.weights["W_y"], case.weights["b_y"])
    return model.eval()


def _lstm(case: Case, table: Tensor) -> LSTM:
    config = LSTMConfig.model_validate(
        {
            "hidden": case.config["h"],
            "cell_to_gate": _CELL_TO_GATE[case.config["v"]],
            "output_gate_cell": _OUTPUT_GATE_CELL[case.config["output_gate_cell"]],
        }
    )
    model = LSTM(config, table, case.config["classes"]).to(case.dtype)
    if isinstance(model.cell, nn.LSTM):
        _fill_cell(model.cell, case.weights)
        return model
    assert isinstance(model.cell, PeepholeLSTM)
    _fill_layer(model.cell, case.weights, "ifco")
    with torch.no_grad():
        model.cell.cell_to_gate.copy_(torch.stack([case.weights[f"V_{gate}"] for gate in "ifo"]))
    return model


def _cifg(case: Case, table: Tensor) -> CIFG:
    model = CIFG(CIFGConfig(hidden=case.config["h"]), table, case.config["classes"]).to(case.dtype)
    assert isinstance(model.cell, CIFGCell)
    _fill_layer(model.cell, case.weights, "foc")
    return model


def _clstm(case: Case, table: Tensor) -> CLSTM:
    sizes = case.config["group_sizes"]
    config = CLSTMConfig(hidden=sum(sizes), groups=len(sizes))
    model = CLSTM(config, table, case.config["classes"]).to(case.dtype)
    assert isinstance(model.cell, CLSTMCell)
    _fill_layer(model.cell, case.weights, "roc")
    return model


def _b_clstm(case: Case, table: Tensor) -> CLSTM:
    sizes = case.config["group_sizes"]
    config = CLSTMConfig(hidden=sum(sizes), groups=len(sizes), bidirectional=True)
    model = CLSTM(config, table, case.config["classes"]).to(case.dtype)
    for cell, direction in ((model.cell, "forward"), (model.backward_cell, "backward")):
        assert isinstance(cell, CLSTMCell)
        _fill_layer(cell, part(case.weights, direction), "roc")
    return model


def _mtlstm(case: Case, table: Tensor) -> MTLSTM:
    sizes = case.config["group_sizes"]
    config = MTLSTMConfig.model_validate(
        {
            "hidden": sum(sizes),
            "groups": len(sizes),
            "strategy": _STRATEGIES[case.config["strategy"]],
            "cell_to_gate": case.config["v"],
        }
    )
    model = MTLSTM(config, table, case.config["classes"]).to(case.dtype)
    units = torch.split(torch.arange(sum(sizes)), sizes)
    for k, group in enumerate(model.groups):
        columns = torch.cat([torch.empty(0, dtype=torch.int64), *(units[j] for j in model.sources(k))])
        w = _pack(case.weights, "W")[_units_of_gates(units[k], sum(sizes), 4)]
        u = _pack(case.weights, "U")[_units_of_gates(units[k], sum(sizes), 4)]
        b = _pack(case.weights, "b")[_units_of_gates(units[k], sum(sizes), 4)]
        joined = torch.cat([w, u[:, columns]], dim=1)
        if isinstance(group, MemoryGroup):
            _fill_packed(group.cell, joined, u[:, units[k]], b)
            continue
        assert isinstance(group, MemoryGroupWithCellGates)
        v = _pack(case.weights, "V", "ifo")[_units_of_gates(units[k], sum(sizes), 3)]
        _fill(group.inputs, joined, b)
        _fill(group.recurrent, u[:, units[k]])
        _fill(group.own_cell, v[:, units[k]])
        if group.source_cells is not None:
            _fill(group.source_cells, v[:, columns])
    return model


def _mtgru(case: Case, table: Tensor) -> MTGRU:
    weights = layer_weights(case.weights)
    config = MTGRUConfig(hidden=len(weights["W_hr"]), bias="b_r" in weights, tau=case.config["tau"])
    model = MTGRU(config, table, len(case.weights["b_y"])).to(case.dtype)
    assert isinstance(model.cell, MTGRUCell)
    _fill_timescale_layer(model.cell, weights, config.tau)
    return model


def _hl_mtgru(case: Case, table: Tensor) -> HLMTGRU:
    sizes = case.config
    config = HLMTGRUConfig(
        hidden=sizes["fast"] + sizes["slow"],
        slow_units=sizes["slow"],
        bias=sizes["bias"],
        tau_fast=sizes["tau_fast"],
        tau_slow=sizes["tau_slow"],
        dropout=0.0,
    )
    model = HLMTGRU(config, table, sizes["classes"]).to(case.dtype)
    assert isinstance(model.cell, FastAndSlow)
    _fill_timescale_layer(model.cell.fast, part(case.weights, "fast"), config.tau_fast)
    _fill_timescale_layer(model.cell.slow, part(case.weights, "slow"), config.tau_slow)
    return model


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
        layout=sizes["layout"],
    )
    model = LeapLSTM(config, table, sizes["classes"]).to(case.dtype)
    _fill_reading_cell(model.cell, part(weights, "lstm"))
    ahead = model.look_ahead
    assert ahead is not None
    assert ahead.reverse is not None
    _fill_cell(ahead.reverse, part(weights, "reverse"))
    for width, conv in zip(config.filter_widths, ahead.filters, strict=True):
        assert isinstance(conv, nn.Conv1d)
        _fill(conv, weights[f"cnn_w_{width}"].transpose(1, 2), weights[f"cnn_b_{width}"])
    if ahead.h_end is not None:
        with torch.no_grad():
            ahead.h_end.copy_(weights["h_end"])
    layers = (model.decide_word, model.decide_state, model.decide_ahead)
    columns = torch.split(weights["W_1"], [sizes["d"], sizes["h"], ahead.size], dim=1)
    for layer, weight, bias in zip(layers, columns, (weights["b_1"], None, None), strict=True):
        assert isinstance(layer, nn.Linear)
        _fill(layer, weight, bias)
    _fill(model.decide, weights["W_2"], weights["b_2"])
    return model


def _skip(case: Case, table: Tensor) -> SkipLSTM:
    model = SkipLSTM(SkipLSTMConfig(hidden=case.config["h"]), table, case.config["classes"]).to(case.dtype)
    _fill_reading_cell(model.cell, case.weights)
    _fill(model.increment, case.weights["W_p"], case.weights["b_p"])
    return model


def _skim(case: Case, table: Tensor) -> SkimLSTM:
    sizes = case.config
    config = SkimLSTMConfig(
        hidden=sizes["large"],
        small_hidden=sizes["small"],
        temperature=sizes.get("temperature", 0.5),
        dropout=0.0,
    )
    model = SkimLSTM(config, table, sizes["classes"]).to(case.dtype)
    _fill_reading_cell(model.large, part(case.weights, "large"))
    _fill_reading_cell(model.small, part(case.weights, "small"))
    word, state = torch.split(case.weights["W_p"], [sizes["d"], sizes["large"]], dim=1)
    _fill(model.decide_word, word, case.weights["b_p"])
    _fill(model.decide_state, state)
    return model


def _mode(case: Case, table: Tensor) -> MODELSTM:
    sizes = case.config
    config = MODELSTMConfig(
        scales=tuple(sizes["scales"]),
        states=sizes["K"],
        state_size=sizes["p"],
        mlp=sizes["mlp"],
        penalty=1.0,
        classifier_decay=0.0,
    )
    model = MODELSTM(config, table, sizes["classes"]).to(case.dtype)
    for n, scale in enumerate(model.scales, start=1):
        assert isinstance(scale, SmallStates)
        small = part(case.weights, f"scale_{n}")
        _fill(scale.project, *(_by_state(_pack(small, letter, "fiog"), sizes["K"]) for letter in "Ub"))
        with torch.no_grad():
            scale.recurrent.copy_(small["W"])
    _fill(model.mlp, case.weights["W_m"], case.weights["b_m"])
    return model


_LOADERS: Mapping[str, Callable[[Case, Tensor], Architecture]] = {
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


def _units_of_gates(units: Tensor, hidden: int, gates: int) -> Tensor:
    """The rows of some units in a matrix that packs several gates."""
    return torch.cat([gate * hidden + units for gate in range(gates)])


def _pack(weights: Weights, letter: str, gates: str = "ifco") -> Tensor:
    """The gates of one matrix or bias in PyTorch's order; absent biases are zeros."""
    zeros = torch.zeros_like(weights["U_o"][:, 0])
    return torch.cat([weights.get(f"{letter}_{gate}", zeros) for gate in gates])


def _by_state(packed: Tensor, states: int) -> Tensor:
    """Rows packed gate by gate -> all gates of the first small state, then of the second, …"""
    gates = packed.view(4, states, -1, *packed.shape[1:])  # (gate, K, p, …)
    return gates.transpose(0, 1).flatten(0, 2)


def _fill_timescale_layer(cell: MTGRUCell, weights: Weights, tau: float) -> None:
    inputs = [weights[f"W_x{gate}"] for gate in "rzu"]
    if "W_vr" in weights:
        inputs = [torch.cat([w, weights[f"W_v{gate}"]], dim=1) for w, gate in zip(inputs, "rzu", strict=True)]
    bias = torch.cat([weights[f"b_{gate}"] for gate in "rzu"]) if "b_r" in weights else None
    _fill(cell.inputs, torch.cat(inputs), bias)
    _fill(cell.recurrent, torch.cat([weights[f"W_h{gate}"] for gate in "rzu"]))
    assert cell.timescale is not None
    with torch.no_grad():
        cell.timescale.fill_(tau)


def _fill_layer(cell: PeepholeLSTM | CIFGCell | CLSTMCell, weights: Weights, gates: str) -> None:
    _fill(cell.inputs, _pack(weights, "W", gates), _pack(weights, "b", gates))
    _fill(cell.recurrent, _pack(weights, "U", gates))


def _fill_reading_cell(cell: ReadingCell, weights: Weights) -> None:
    _fill(cell.project, _pack(weights, "W"), _pack(weights, "b"))
    _fill(cell.recurrent, _pack(weights, "U"))


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
