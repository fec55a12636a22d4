"""What lowering an architecture gives, and the pieces that all lowerings share.

Layout inside the graphs: `(length, rows, features)`, because ONNX's LSTM wants time first; the word ids are
transposed before the lookup, so no matrix of features is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto
from torch import Tensor, nn

from app.manifest import GroupSpec, HalfSpec, PassSpec, TensorSpec, TraceSpec, WindowSpec
from export.graph import Dimension, Graph
from models.text.storage import StoredVectors

ROWS, LENGTH = "rows", "length"
BUCKETS = (8, 16, 24, 32, 48, 64, 96, 128)  # words of a segment
CAUSAL = TraceSpec(causal=True, meaning="after each word: the answer for the text up to and including it")


# where a pass has its word features from: a table of vectors, or what the encoder's pass wrote
WordFeatures = StoredVectors | TensorSpec


@dataclass(frozen=True)
class Lowered:
    """A trained network as ONNX graphs and as the manifest's words for them."""

    passes: tuple[PassSpec, ...]
    graphs: dict[str, onnx.ModelProto]  # file name -> graph
    trace: TraceSpec
    groups: tuple[GroupSpec, ...] | None
    length_buckets: tuple[int, ...]
    windows: tuple[WindowSpec, ...] | None = None
    halves: tuple[HalfSpec, HalfSpec] | None = None
    longest_document: int = 100_000  # tokens; longer documents are refused or cut, as the caller asks


def array(tensor: Tensor | nn.Module) -> NDArray[np.float32]:
    """A weight as float32 (PyTorch types the weights of its layers as tensor or module)."""
    assert isinstance(tensor, Tensor)
    return tensor.detach().cpu().numpy().astype(np.float32)


def pass_inputs(graph: Graph) -> tuple[str, str]:
    """Declare `token_ids` and `lengths`, which every pass takes."""
    return graph.input("token_ids", "int64", [ROWS, LENGTH]), graph.input("lengths", "int64", [ROWS])


def state_input(graph: Graph, state: TensorSpec) -> str:
    """Declare a state's input, `[rows, …]`."""
    return graph.input(state.name, state.dtype, [ROWS, *state.shape])


def state_output(graph: Graph, state: TensorSpec, value: str) -> None:
    """Declare a state's output, `[rows, …]`."""
    graph.output(f"{state.name}_next", value, state.dtype, [ROWS, *state.shape])


def step_output(graph: Graph, step: TensorSpec, value: str) -> None:
    """Declare a per-word output, `[rows, length, …]`."""
    shape: list[Dimension] = [ROWS, LENGTH, *step.shape]
    graph.output(step.name, value, step.dtype, shape)


def result_output(graph: Graph, result: TensorSpec, value: str) -> None:
    """Declare an output of one value per document, `[rows, …]`."""
    graph.output(result.name, value, result.dtype, [ROWS, *result.shape])


def answer_steps(classes: int) -> tuple[TensorSpec, TensorSpec]:
    """The step outputs that every model has."""
    return TensorSpec(name="logits", shape=(classes,)), TensorSpec(name="probabilities", shape=(classes,))


def answer_outputs(graph: Graph, logits: str, classes: int) -> None:
    """Declare `logits` and `probabilities` from logits `[rows, length, classes]`."""
    logits_step, probabilities_step = answer_steps(classes)
    step_output(graph, logits_step, logits)
    step_output(graph, probabilities_step, graph.op("Softmax", logits, axis=-1))


@dataclass(frozen=True)
class LSTMWeights:
    """What ONNX's LSTM takes, its gates in the order i, o, f, g."""

    w: NDArray[np.float32]  # (1, 4 hidden, input)
    r: NDArray[np.float32]  # (1, 4 hidden, hidden)
    b: NDArray[np.float32]  # (1, 8 hidden)
    p: NDArray[np.float32] | None = None  # (1, 3 hidden): peepholes of i, o, f


def lstm_weights(cell: nn.LSTM) -> LSTMWeights:
    """The weights of a one-layer LSTM of PyTorch."""
    bias = np.concatenate([ifgo_to_iofg(cell.bias_ih_l0), ifgo_to_iofg(cell.bias_hh_l0)])
    return LSTMWeights(
        ifgo_to_iofg(cell.weight_ih_l0)[None], ifgo_to_iofg(cell.weight_hh_l0)[None], bias[None]
    )


def ifgo_to_iofg(packed: Tensor | nn.Module) -> NDArray[np.float32]:
    """Gates from PyTorch's order to ONNX's."""
    i, f, g, o = np.split(array(packed), 4)
    return np.concatenate([i, o, f, g])


def lstm(
    graph: Graph,
    weights: LSTMWeights,
    name: str,
    x: str,
    states: tuple[str, str],
    lengths: str = "",
    direction: str = "forward",
    **attributes: int,
) -> tuple[str, str, str]:
    """ONNX's LSTM.

    Args:
        graph: the graph to add to.
        weights: its weights.
        name: prefix of their names.
        x: `[length, rows, features]`.
        states: h and c before the first word, `[rows, hidden]`.
        lengths: int64 `[rows]` where padding must not be read, else "".
        direction: forward, or reverse from the last real word.
        attributes: more of the operator's.

    Returns:
        h at every word `[length, rows, hidden]`, and h and c in the end `[rows, hidden]`.
    """
    first, last = graph.integers(0), graph.integers(1)
    initial = [graph.op("Unsqueeze", state, first) for state in states]
    constants = [
        graph.constant(f"{name}.{part}", value)
        for part, value in (("w", weights.w), ("r", weights.r), ("b", weights.b))
    ]
    peepholes = [] if weights.p is None else [graph.constant(f"{name}.p", weights.p)]
    inputs = [x, *constants, int32_lengths(graph, lengths), *initial, *peepholes]
    hidden_size = weights.r.shape[-1]
    y, h, c = graph.ops("LSTM", inputs, 3, hidden_size=hidden_size, direction=direction, **attributes)
    return graph.op("Squeeze", y, last), graph.op("Squeeze", h, first), graph.op("Squeeze", c, first)


def int32_lengths(graph: Graph, lengths: str) -> str:
    """`lengths` as ONNX's recurrent operators want them; "" stays."""
    return graph.op("Cast", lengths, to=TensorProto.INT32) if lengths else ""


def padded_length(graph: Graph, token_ids: str) -> str:
    """The length that a segment was padded to, as a scalar."""
    return graph.op("Squeeze", graph.op("Shape", token_ids, start=1, end=2))


def ones_like(graph: Graph, values: str) -> str:
    """Ones in the shape of a float32 array; a state that says that there was something before."""
    return graph.op("Add", graph.op("Mul", values, graph.scalar(0.0)), graph.scalar(1.0))


def linear(
    graph: Graph, x: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32] | None
) -> str:
    """x W' + b over the last axis, W as PyTorch stores it, `(out, in)`."""
    product = graph.op("MatMul", x, graph.constant(f"{name}.w", np.ascontiguousarray(weight.T)))
    return product if bias is None else graph.op("Add", product, graph.constant(f"{name}.b", bias))


def lookup(graph: Graph, embedding: StoredVectors, token_ids: str) -> str:
    """Word vectors: int64 `[…]` -> float32 `[…, embedding]`."""
    rows = graph.op("Gather", graph.constant("embedding", embedding.table), token_ids, axis=0)
    if embedding.table.dtype != np.float32:
        rows = graph.op("Cast", rows, to=TensorProto.FLOAT)
    if embedding.scale is None:
        return rows
    return graph.op(
        "Mul", rows, graph.op("Gather", graph.constant("scale", embedding.scale), token_ids, axis=0)
    )


def embed(graph: Graph, source: WordFeatures, token_ids: str) -> str:
    """Word features with time first: `[rows, length]` -> `[length, rows, embedding]`; declares those of a pass."""
    if isinstance(source, TensorSpec):
        return graph.op(
            "Transpose", graph.input(source.name, "float32", [ROWS, LENGTH, *source.shape]), perm=[1, 0, 2]
        )
    return lookup(graph, source, graph.op("Transpose", token_ids, perm=[1, 0]))


def reads(source: WordFeatures) -> tuple[str, ...]:
    """What a pass reads of earlier ones for its word features."""
    return (source.name,) if isinstance(source, TensorSpec) else ()
