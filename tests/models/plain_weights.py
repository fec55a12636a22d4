"""The weights of a network as the plain cells take them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.architectures.bag_of_words import BagOfWords
from models.architectures.characters import CharacterCNN
from models.architectures.cifg import CIFGCell
from models.architectures.clstm import CLSTMCell
from models.architectures.convolutional_lstm import ConvolutionalLSTM
from models.architectures.hl_mtgru import FastAndSlow
from models.architectures.jump import LSTMJump
from models.architectures.leap import LeapLSTM
from models.architectures.mode import MODELSTM
from models.architectures.mtgru import MTGRUCell
from models.architectures.mtlstm import MTLSTM, MemoryGroup, MemoryGroupWithCellGates
from models.architectures.peephole import PeepholeLSTM
from models.architectures.reading_cell import ReadingCell
from models.architectures.recurrent import Recurrent
from models.architectures.self_attentive import SelfAttentiveLSTM
from models.architectures.skim import SkimLSTM
from models.architectures.skip import SkipLSTM
from models.architectures.small_states import SmallStates
from models.architectures.text_cnn import TextCNN
from models.architectures.windows import WindowModel
from models.plain.gates import Weights

_PACKED = "ifco"  # the order of the gates in packed matrices; c is the candidate, there called g


def recurrent_weights(model: Recurrent) -> Weights:
    """For the plain cell of the same layer, or `models.plain.bidirectional` with it."""
    cell = _layer(model.cell)
    if model.backward_cell is None:
        return cell | _classifier(model.classifier)
    backward = _layer(model.backward_cell)
    return _named("forward", cell) | _named("backward", backward) | _classifier(model.classifier)


def convolutional_lstm_weights(model: ConvolutionalLSTM) -> Weights:
    """For `models.plain.convolutional_lstm`."""
    return _layer(model.cell) | _filters(1, model.filters) | _classifier(model.classifier)


def bag_of_words_weights(model: BagOfWords) -> Weights:
    """For `models.plain.bag_of_words`."""
    return _classifier(model.classifier)


def mtlstm_weights(model: MTLSTM) -> Weights:
    """For `models.plain.mtlstm`: each group's matrices widened to all units, zeros where it does not listen."""
    groups = [_group(model, k) for k in range(len(model.sizes))]
    return {name: torch.cat([rows[name] for rows in groups]) for name in groups[0]} | _classifier(
        model.classifier
    )


def leap_weights(model: LeapLSTM) -> Weights:
    """For `models.plain.leap`: columns of zeros in W_1 for what the decision does without."""
    config, width, units = model.config, model.embedding.embedding_dim, model.config.decision_hidden
    state, ahead = model.decide_state, model.decide_ahead
    bias = model.decide_word.bias.detach()
    word = (
        model.decide_word.weight if isinstance(model.decide_word, nn.Linear) else bias.new_zeros(units, width)
    )
    parts = (
        word.detach(),
        bias.new_zeros(units, config.hidden) if state is None else state.weight.detach(),
        _ahead(model, bias.new_zeros(units, 0) if ahead is None else ahead.weight.detach()),
    )
    features = len(parts[2][0])
    h_end = None if model.look_ahead is None else model.look_ahead.h_end
    mlp = {} if model.mlp is None else {"W_m": model.mlp.weight.detach(), "b_m": model.mlp.bias.detach()}
    return {
        **_named("lstm", _reading_cell(model.cell)),
        **_look_ahead(model),
        "h_end": bias.new_zeros(features) if h_end is None else _ahead(model, h_end.detach()),
        "W_1": torch.cat(parts, dim=1),
        "b_1": bias,
        "W_2": model.decide.weight.detach(),
        "b_2": model.decide.bias.detach(),
        **mlp,
        **_classifier(model.classifier),
    }


def _look_ahead(model: LeapLSTM) -> dict[str, Tensor]:
    """The reversed LSTM and the filters, zeros for those that are left out."""
    config, ahead, width = model.config, model.look_ahead, model.embedding.embedding_dim
    zeros = model.decide.weight.new_zeros
    hidden, filters = config.reverse_hidden, config.filters
    weights = {
        f"reverse.{letter}_{gate}": zeros(hidden, size)
        for letter, size in (("W", width), ("U", hidden))
        for gate in _PACKED
    }
    weights |= {f"cnn_w_{words}": zeros(filters, words, width) for words in config.filter_widths}
    weights |= {f"cnn_b_{words}": zeros(filters) for words in config.filter_widths}
    if ahead is None:
        return weights
    if ahead.reverse is not None:
        weights |= _named("reverse", _cell(ahead.reverse))
    for words, conv in zip(ahead.widths, ahead.filters, strict=True):
        weights |= _filters(words, conv)
    return weights


def _ahead(model: LeapLSTM, values: Tensor) -> Tensor:
    """Values per feature of the following text, zeros put in for the features left out: `(…, features)`."""
    config = model.config
    reverse, windows = config.reverse_hidden, config.filters * len(config.filter_widths)
    missing = {"reverse_lstm": (reverse, 0), "cnn": (0, windows), "following_text": (reverse, windows)}
    return functional.pad(values, missing.get(config.without, (0, 0)))


def skip_weights(model: SkipLSTM) -> Weights:
    """For `models.plain.skip`."""
    initial = {} if model.initial is None else dict(zip(("h_0", "c_0"), model.initial.detach(), strict=True))
    increment = {"W_p": model.increment.weight.detach(), "b_p": model.increment.bias.detach()}
    return _reading_cell(model.cell) | increment | initial | _classifier(model.classifier)


def jump_weights(model: LSTMJump) -> Weights:
    """For `models.plain.jump`."""
    jump = {"W_j": model.jump.weight.detach(), "b_j": model.jump.bias.detach()}
    return _reading_cell(model.cell) | jump | _classifier(model.classifier)


def skim_weights(model: SkimLSTM) -> Weights:
    """For `models.plain.skim`."""
    parts = (model.decide_word, model.decide_state)
    return {
        **_named("large", _reading_cell(model.large)),
        **_named("small", _reading_cell(model.small)),
        "W_p": torch.cat([layer.weight.detach() for layer in parts], dim=1),
        "b_p": model.decide_word.bias.detach(),
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


def self_attentive_weights(model: SelfAttentiveLSTM) -> Weights:
    """For `models.plain.self_attentive`."""
    directions = _named("forward", _cell(model.cell)) | _named("backward", _cell(model.backward_cell))
    scores = {"W_s1": model.score.weight.detach(), "W_s2": model.score_hops.weight.detach()}
    return directions | scores | _pooled_classifier(model)


def character_weights(cnn: CharacterCNN) -> Weights:
    """For `models.plain.characters`."""
    filters = _filters(1, cnn.filters)
    return {"E": cnn.symbols.weight.detach(), "F": filters["cnn_w_1"], "b": filters["cnn_b_1"]}


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


def _layer(cell: nn.Module) -> dict[str, Tensor]:
    if isinstance(cell, nn.LSTM):
        return _cell(cell)
    if isinstance(cell, nn.RNN):
        w, u, b = _packed(cell)
        return {"W_h": w.detach(), "U_h": u.detach(), "b_h": b.detach()}
    if isinstance(cell, MTGRUCell | FastAndSlow):
        return _timescale_layers(cell)
    if isinstance(cell, CIFGCell):
        return _packed_layer(cell, "foc")
    if isinstance(cell, CLSTMCell):
        return _packed_layer(cell, "roc")
    assert isinstance(cell, PeepholeLSTM)
    v_i, v_f, v_o = cell.cell_to_gate.detach()
    return _packed_layer(cell, _PACKED) | {"V_i": v_i, "V_f": v_f, "V_o": v_o}


def _timescale_layers(cell: MTGRUCell | FastAndSlow) -> dict[str, Tensor]:
    if isinstance(cell, MTGRUCell):
        return _timescale_layer(cell)
    slow = _timescale_layer(cell.slow, cell.sizes[0])
    return _named("fast", _timescale_layer(cell.fast)) | _named("slow", slow)


def _timescale_layer(cell: MTGRUCell, heard: int = 0) -> dict[str, Tensor]:
    """By the paper's names, V apart from W where the layer reads [x; v]; and its τ as `tau`."""
    w = cell.inputs.weight.detach()
    width = w.shape[1] - heard
    matrices = {"x": w[:, :width], "h": cell.recurrent.weight.detach()} | (
        {"v": w[:, width:]} if heard else {}
    )
    found = {
        f"W_{letter}{gate}": block
        for letter, packed in matrices.items()
        for gate, block in zip("rzu", packed.chunk(3), strict=True)
    }
    found["tau"] = torch.ones(()) if cell.pace is None else 1 / cell.pace.detach()
    return found if cell.inputs.bias is None else found | _split("b", cell.inputs.bias, "rzu")


def _packed_layer(cell: PeepholeLSTM | CIFGCell | CLSTMCell, gates: str) -> dict[str, Tensor]:
    w, u, b = cell.inputs.weight, cell.recurrent.weight, cell.inputs.bias
    return _split("W", w, gates) | _split("U", u, gates) | _split("b", b, gates)


def _named(name: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of one part of a model."""
    return {f"{name}.{key}": weight for key, weight in weights.items()}


def _cell(cell: nn.LSTM) -> dict[str, Tensor]:
    w, u, b = _packed(cell)
    return _split("W", w) | _split("U", u) | _split("b", b)


def _reading_cell(cell: ReadingCell) -> dict[str, Tensor]:
    w, u, b = cell.project.weight, cell.recurrent.weight, cell.project.bias
    return _split("W", w) | _split("U", u) | _split("b", b)


def _packed(cell: nn.LSTM | nn.RNN) -> tuple[Tensor, Tensor, Tensor]:
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


def _pooled_classifier(model: WindowModel | SelfAttentiveLSTM) -> dict[str, Tensor]:
    layer = {"W_m": model.mlp.weight.detach(), "b_m": model.mlp.bias.detach()}
    return layer | _classifier(model.classifier)


def _classifier(classifier: nn.Linear) -> dict[str, Tensor]:
    return {"W_y": classifier.weight.detach(), "b_y": classifier.bias.detach()}
