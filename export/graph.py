"""A small builder of ONNX graphs: operators in, names out; constants named and stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
IR_VERSION = 10  # the newest that the oldest supported ONNX Runtime reads
_TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}

Dimension = int | str


class Graph:
    """Collects nodes and constants; a body of a loop is a `Graph` of its own with a name prefix."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: str, shape: Sequence[Dimension] | None) -> str:
        """Declare an input; `shape` names its dynamic axes."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def output(self, name: str, value: str, dtype: str, shape: Sequence[Dimension] | None) -> None:
        """Give a value out under a name of its own."""
        self._nodes.append(helper.make_node("Identity", [value], [name], name=f"{self.name}/{name}"))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """A weight; scalars stay scalars.

        Raises:
            ValueError: another one has that name.
        """
        full = f"{self.name}/{name}"
        found = numpy_helper.from_array(np.asarray(value), full)
        known = self._constants.setdefault(full, found)
        if known is not found and known != found:
            raise ValueError(f"{full}: expected a name of its own, found another constant of that name")
        return full

    def integers(self, *values: int) -> str:
        """A one-dimensional int64 constant, such as axes or a shape."""
        return self.constant(f"integers_{'_'.join(map(str, values))}", np.array(values, dtype=np.int64))

    def scalar(self, value: float | int | bool) -> str:
        """A float32, int64 or bool scalar constant."""
        dtype = {bool: np.bool_, int: np.int64, float: np.float32}[type(value)]
        return self.constant(f"{np.dtype(dtype).name}_{value}", np.array(value, dtype=dtype))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return that output's name."""
        return self.ops(kind, inputs, 1, **attributes)[0]

    def ops(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        base = f"{self.name}/{kind}_{len(self._nodes)}"
        names = [f"{base}.{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, name=base, **attributes))
        return names

    def slice(self, value: str, start: int, end: int | None = None, *, axis: int, step: int = 1) -> str:
        """`value[start:end:step]` along one axis."""
        last = np.iinfo(np.int64).max if end is None else end
        return self.op(
            "Slice",
            value,
            self.integers(start),
            self.integers(int(last)),
            self.integers(axis),
            self.integers(step),
        )

    def body(self) -> onnx.GraphProto:
        """The graph itself, for a loop's body or a model."""
        return helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, initializer=list(self._constants.values())
        )

    def model(self) -> onnx.ModelProto:
        """The finished model, inferred and checked.

        Raises:
            onnx.checker.ValidationError: a node or a type is not what ONNX allows.
        """
        model = helper.make_model(
            self.body(),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="readtrace",
        )
        onnx.checker.check_model(model, full_check=True)
        return model
