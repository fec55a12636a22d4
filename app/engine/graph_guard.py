"""Looks into a graph before ONNX Runtime does: it must be whole in itself and of standard operators only.

ONNX Runtime would read external data from any path that a graph names, and operators of other domains may
do anything. ``onnx`` is not part of the serving install, so the few fields that matter are declared here,
with the numbers of onnx.proto; protobuf skips all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from app.bundle import BundleError

_STANDARD_DOMAINS = {"", "ai.onnx"}
_EXTERNAL = 1  # TensorProto.DataLocation

# Message -> field -> (number, type); a type that is a message's name is that message, "*" means repeated.
SCHEMA: dict[str, dict[str, tuple[int, str]]] = {
    "Model": {"graph": (7, "Graph"), "training_info": (20, "*Training"), "functions": (25, "*Function")},
    "Training": {"initialization": (1, "Graph"), "algorithm": (2, "Graph")},
    "Function": {
        "name": (1, "string"),
        "node": (7, "*Node"),
        "domain": (10, "string"),
        "attribute_proto": (11, "*Attribute"),
    },
    "Graph": {
        "node": (1, "*Node"),
        "initializer": (5, "*Tensor"),
        "sparse_initializer": (15, "*SparseTensor"),
    },
    "Node": {"op_type": (4, "string"), "attribute": (5, "*Attribute"), "domain": (7, "string")},
    "Attribute": {
        "t": (5, "Tensor"),
        "g": (6, "Graph"),
        "tensors": (10, "*Tensor"),
        "graphs": (11, "*Graph"),
        "sparse_tensor": (22, "SparseTensor"),
        "sparse_tensors": (23, "*SparseTensor"),
    },
    "SparseTensor": {"values": (1, "Tensor"), "indices": (2, "Tensor")},
    "Tensor": {"external_data": (13, "*Entry"), "data_location": (14, "int32")},
    "Entry": {"key": (1, "string")},
}
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _FIELD.TYPE_BYTES, "int32": _FIELD.TYPE_INT32}  # bytes: names need not be valid UTF-8


def check_graph(serialized: bytes) -> None:
    """Check the serialised graph of a pass.

    Raises:
        BundleError: it is no graph, reads other files, or has operators that are not ONNX's own.
    """
    model: Any = _MODEL()
    try:
        model.ParseFromString(serialized)
    except DecodeError as error:
        raise BundleError("not an ONNX graph") from error
    if not model.HasField("graph"):
        raise BundleError("not an ONNX graph")
    functions = {(function.domain, function.name) for function in model.functions}
    for message in _walk(model):
        kind = message.DESCRIPTOR.name
        if kind == "Tensor" and (message.data_location == _EXTERNAL or message.external_data):
            raise BundleError("external data is refused: weights must be in the graph itself")
        if kind == "Node" and (message.domain, message.op_type) not in functions:
            domain = message.domain.decode("utf-8", "replace")
            if domain not in _STANDARD_DOMAINS:
                raise BundleError(f"operators of the domain {domain[:64]!r} are refused: expected ONNX's own")


def _walk(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for child in (value,) if isinstance(value, Message) else value:
                yield from _walk(child)


def _model_class() -> type[Message]:
    file = descriptor_pb2.FileDescriptorProto(
        name="readtrace/graph_guard.proto", package="readtrace", syntax="proto2"
    )
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field_name, (number, declared) in fields.items():
            kind = declared.removeprefix("*")
            field = message.field.add(name=field_name, number=number)
            field.label = _FIELD.LABEL_OPTIONAL if kind == declared else _FIELD.LABEL_REPEATED
            field.type = _SCALARS.get(kind, _FIELD.TYPE_MESSAGE)
            if kind in SCHEMA:
                field.type_name = f".readtrace.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    model: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName("readtrace.Model"))
    return model


_MODEL = _model_class()
