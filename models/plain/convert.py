"""The weights of a network as the plain cells take them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.architectures.leap import LeapLSTM
from models.architectures.lstm import LSTM
from models.architectures.mode import MODELSTM, SmallStates
from models.architectures.mtlstm import MTLSTM, MemoryGroup, MemoryGroupWithCellGates
from models.architectures.text_cnn import TextCNN
from models.architectures.windows import WindowModel
from models.plain.gates import Weights

_PACKED = "ifco"  # the order of the gates in packed matrices; c is the candidate, there called g


def lstm_weights(model: LSTM) -> Weights:
    """For `models.plain.lstm`."""
    return _cell(model.cell) | _classifier(model.classifier)


def mtlstm_weights(model: MTLSTM) -> Weights:
    """For `models.plain.mtlstm`: each group's matrices widened to all units, zeros where it does not listen."""
    groups = [_group(model, k) for k in range(len(model.sizes))]
    return {name: torch.cat([rows[name] for rows in groups]) for name in groups[0]} | _classifier(
        model.classifier
    )


def leap_weights(model: LeapLSTM) -> Weights:
    """For `models.plain.leap`."""
    cell = _split("W", model.cell.project.weight) | _split("U", model.cell.recurrent.weight)
    cell |= _split("b", model.cell.project.bias)
    parts = (model.decide_word, model.decide_state, model.decide_ahead)
    filters: dict[str, Tensor] = {}
    for width, conv in zip(model.look_ahead.widths, model.look_ahead.filters, strict=True):
        filters |= _filters(width, conv)
    return {
        **{f"lstm.{name}": weight for name, weight in cell.items()},
        **{f"reverse.{name}": weight for name, weight in _cell(model.look_ahead.reverse).items()},
        **filters,
        "h_end": model.look_ahead.h_end.detach(),
        "W_1": torch.cat([layer.weight.detach() for layer in parts], dim=1),
        "b_1": model.decide_word.bias.detach(),
        "W_2": model.decide.weight.detach(),
        "b_2": model.decide.bias.detach(),
        **_classifier(model.classifier),
    }


def mode_weights(model: MODELSTM) -> Weights:
    """For `models.plain.windows.read_mode`."""
    weights = _pooled_classifier(model)
    for n, scale in enumerate(model.scales, start=1):
        assert isinstance(scale, SmallStates)
        states = len(scale.recurrent)
        weights[f"scale_{n}.W"] = scale.recurrent.detach()
        for letter, packed in (("U", scale.project.weight), ("b", scale.project.bias)):
            gates = packed.detach().view(states, 4, -1, *packed.shape[1:])  # (K, gate, p, …)
            for index, gate in enumerate("fiog"):
                weights[f"scale_{n}.{letter}_{gate}"] = gates[:, index].flatten(0, 1)
    return weights


def text_cnn_weights(model: TextCNN) -> Weights:
    """For `models.plain.windows.read_text_cnn`."""
    weights = _pooled_classifier(model)
    for n, conv in enumerate(model.filters, start=1):
        weights |= _filters(n, conv)
    return weights


def _group(model: MTLSTM, k: int) -> dict[str, Tensor]:
    """The rows of all matrices that belong to group k."""
    group = model.groups[k]
    units = torch.split(torch.arange(sum(model.sizes)), model.sizes)
    listened = torch.cat([units[j] for j in (*model.sources(k), k)])
    if isinstance(group, MemoryGroup):
        joined, own, bias = _packed(group.cell)
    else:
        assert isinstance(group, MemoryGroupWithCellGates)
        joined, own, bias = group.inputs.weight, group.recurrent.weight, group.inputs.bias
    width = model.embedding.embedding_dim
    sources = torch.cat([joined[:, width:], own], dim=1)
    rows = _split("W", joined[:, :width]) | _split("U", _widen(sources, listened, sum(model.sizes)))
    if isinstance(group, MemoryGroupWithCellGates):
        others = [group.source_cells.weight] if group.source_cells is not None else []
        cells = torch.cat([*others, group.own_cell.weight], dim=1)
        rows |= _split("V", _widen(cells, listened, sum(model.sizes)), "ifo")
    return rows | _split("b", bias)


def _widen(block: Tensor, columns: Tensor, width: int) -> Tensor:
    """A block's columns at their places among `width`, zeros elsewhere."""
    wide = block.new_zeros(len(block), width)
    wide[:, columns] = block.detach()
    return wide


def _cell(cell: nn.LSTM) -> dict[str, Tensor]:
    w, u, b = _packed(cell)
    return _split("W", w) | _split("U", u) | _split("b", b)


def _packed(cell: nn.LSTM) -> tuple[Tensor, Tensor, Tensor]:
    """W, U and the one bias that PyTorch's two add up to."""
    w, u, b_w, b_u = cell.all_weights[0]
    return w, u, b_w + b_u


def _split(letter: str, packed: Tensor, gates: str = _PACKED) -> dict[str, Tensor]:
    chunks = packed.detach().chunk(len(gates))
    return {f"{letter}_{gate}": chunk for gate, chunk in zip(gates, chunks, strict=True)}


def _filters(name: int, conv: nn.Module) -> dict[str, Tensor]:
    assert isinstance(conv, nn.Conv1d)
    assert conv.bias is not None
    return {f"cnn_w_{name}": conv.weight.detach().transpose(1, 2), f"cnn_b_{name}": conv.bias.detach()}


def _pooled_classifier(model: WindowModel) -> dict[str, Tensor]:
    layer = {"W_m": model.mlp.weight.detach(), "b_m": model.mlp.bias.detach()}
    return layer | _classifier(model.classifier)


def _classifier(classifier: nn.Linear) -> dict[str, Tensor]:
    return {"W_y": classifier.weight.detach(), "b_y": classifier.bias.detach()}
