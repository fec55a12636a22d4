from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from app.bundle import BundleError
from app.engine.graph_guard import SCHEMA, check_graph
from app.engine.loading import load_catalogue
from app.errors import StartError
from app.settings import read_settings
from tests.app.tiny import rewrite_manifest, write_reviews

Change = Callable[[onnx.ModelProto], object]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return (write_reviews(tmp_path_factory.mktemp("graph")) / "read.onnx").read_bytes()


def changed(graph: bytes, change: Change) -> bytes:
    model = onnx.load_model_from_string(graph)
    change(model)
    serialized: bytes = model.SerializeToString()
    return serialized


def external(tensor: TensorProto) -> TensorProto:
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor


def nested(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node in a branch of a branch."""
    for _ in range(2):
        node = helper.make_node("If", ["c"], ["o"], then_branch=helper.make_graph([node], "branch", [], []))
    return node


def add_external_constant(model: onnx.ModelProto) -> None:
    value = external(helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0]))
    model.graph.node.append(nested(helper.make_node("Constant", [], ["constant"], value=value)))


def add_external_sparse(model: onnx.ModelProto) -> None:
    sparse = model.graph.sparse_initializer.add()
    sparse.indices.CopyFrom(external(TensorProto()))


def add_function(model: onnx.ModelProto) -> None:
    body = helper.make_node("Call", [], ["y"], domain="elsewhere")
    imports = [helper.make_opsetid("", 20)]
    model.functions.append(helper.make_function("mine", "F", [], ["y"], [body], imports))


def test_the_fields_are_those_of_onnx() -> None:
    named = {"Training": "TrainingInfo", "Entry": "StringStringEntry"}
    for message, fields in SCHEMA.items():
        described = getattr(onnx, f"{named.get(message, message)}Proto").DESCRIPTOR.fields_by_name
        for name, (number, kind) in fields.items():
            assert described[name].number == number
            assert described[name].is_repeated == kind.startswith("*")


def test_shipped_kind_of_graph_passes(graph: bytes) -> None:
    check_graph(graph)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: external(model.graph.initializer[0]),
        lambda model: model.graph.initializer[0].external_data.add(key="location", value="../weights"),
        add_external_constant,
        add_external_sparse,
    ],
)
def test_external_data_is_refused_wherever_it_is(graph: bytes, change: Change) -> None:
    with pytest.raises(BundleError, match="external data is refused"):
        check_graph(changed(graph, change))


@pytest.mark.parametrize(
    ("change", "domain"),
    [
        (lambda model: setattr(model.graph.node[0], "domain", "com.microsoft"), "com.microsoft"),
        (
            lambda model: model.graph.node.append(nested(helper.make_node("X", [], ["x"], domain="mine"))),
            "mine",
        ),
        (add_function, "elsewhere"),
    ],
)
def test_operators_of_other_domains_are_refused_wherever_they_are(
    graph: bytes, change: Change, domain: str
) -> None:
    with pytest.raises(BundleError, match=f"operators of the domain '{domain}' are refused"):
        check_graph(changed(graph, change))


def test_functions_of_the_graph_itself_may_be_called(graph: bytes) -> None:
    def define_and_call(model: onnx.ModelProto) -> None:
        add_function(model)
        model.functions[0].node[0].domain = ""
        model.graph.node.append(helper.make_node("F", [], ["f"], domain="mine"))

    check_graph(changed(graph, define_and_call))


@pytest.mark.parametrize("content", [b"", b"no graph", b"ORTM" * 4, b"\x3a\xff\xff\xff\x7f"])
def test_what_is_no_graph_is_refused(content: bytes) -> None:
    with pytest.raises(BundleError, match="not an ONNX graph"):
        check_graph(content)


def test_refusal_names_the_file(tmp_path: Path, graph: bytes) -> None:
    folder = write_reviews(tmp_path)
    (folder / "read.onnx").write_bytes(changed(graph, lambda model: external(model.graph.initializer[0])))
    rewrite_manifest(folder)
    with pytest.raises(StartError, match=r"reviews/1/read\.onnx: external data is refused"):
        load_catalogue(read_settings(bundles=tmp_path))
