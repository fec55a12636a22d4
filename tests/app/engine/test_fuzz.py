"""Bundles with something wrong in them, the hashes put right or not: each is refused with a reason or serves."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from app.bundle import MANIFEST, file_sha256
from app.engine.golden import read_alone
from app.engine.loading import Serving, load_catalogue, load_registry
from app.engine.registry import Catalogue, LoadedModel
from app.manifest import TOKENIZER
from app.settings import Settings, read_settings
from tests.app.tiny import write_reviews, write_topics

GRAPH = "read.onnx"
FILES = (MANIFEST, TOKENIZER, GRAPH, "card.md")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 3, 2**20, 2**31, float("nan"), float("inf"), -0.5]),
    st.text(max_size=8),
    st.sampled_from(["..", "../topics", "/etc/passwd", "stable", "token_ids", "WordPiece", "", "x" * 300]),
    st.lists(st.integers(-1, 9), max_size=3),
    st.dictionaries(st.text(max_size=4), st.none(), max_size=2),
)
GRAPH_CHANGES = ("op", "domain", "drop", "swap", "input", "attribute", "dims", "external", "type")
fuzz = settings(
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Shelf:
    """A healthy bundle that serves, and another that is damaged and put right again."""

    def __init__(self, root: Path) -> None:
        self.bundle = write_reviews(root / "bundles")
        self.healthy = shutil.copytree(self.bundle, root / "healthy")
        self.settings: Settings = read_settings(
            bundles=root / "bundles", max_run_seconds=1e-9, log_level="error"
        )
        write_topics(root / "bundles")
        registry = load_registry(self.settings)
        self.topics: LoadedModel = registry.find("topics")

    def heal(self) -> None:
        shutil.rmtree(self.bundle)
        shutil.copytree(self.healthy, self.bundle)

    def rehash(self) -> None:
        """Bring the hashes up to date, so that what is behind them is reached."""
        try:
            manifest = json.loads((self.bundle / MANIFEST).read_bytes())
            for name in manifest["sha256"]:
                if (self.bundle / name).is_file():
                    manifest["sha256"][name] = file_sha256(self.bundle / name)
            (self.bundle / MANIFEST).write_text(json.dumps(manifest))
        except (ValueError, LookupError, TypeError, OSError):
            return  # the damage is in the manifest itself

    def load(self) -> Catalogue:
        return load_catalogue(self.settings, Serving([self.topics]))

    def assert_refused_or_serves(self) -> None:
        try:
            catalogue = self.load()
            assert catalogue.loaded["topics@1"] is self.topics
            refused = {bundle.id: bundle.reason for bundle in catalogue.refused}
            assert ("reviews@1" in refused) != ("reviews@1" in catalogue.loaded)
            assert all(refused.values())
            if "reviews@1" in catalogue.loaded:
                for text in ("good film", "dull market score !"):
                    with contextlib.suppress(Exception):  # what the scheduler answers with a problem
                        read_alone(catalogue.find("reviews@1"), text)
        finally:
            self.heal()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("fuzz"))


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON document."""
    yield path
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from places(value, (*path, key))


def changed(tree: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    if not path:
        return None
    tree = copy.deepcopy(tree)
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return tree


def change_json(data: st.DataObject, file: Path) -> None:
    tree = json.loads(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(tree))))
        value = data.draw(VALUES)
        if data.draw(st.booleans()):
            tree = changed(tree, path, lambda parent, key: parent.__setitem__(key, value))  # noqa: B023
        else:
            tree = changed(tree, path, lambda parent, key: parent.__delitem__(key))
    file.write_text(json.dumps(tree))


@fuzz
@given(data=st.data(), file=st.sampled_from([MANIFEST, TOKENIZER]))
def test_changed_json(shelf: Shelf, data: st.DataObject, file: str) -> None:
    change_json(data, shelf.bundle / file)
    shelf.rehash()
    shelf.assert_refused_or_serves()


@fuzz
@given(data=st.data(), file=st.sampled_from(FILES), rehash=st.booleans())
def test_changed_bytes(shelf: Shelf, data: st.DataObject, file: str, rehash: bool) -> None:
    content = bytearray((shelf.bundle / file).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "zero", "empty"]))
    if kind == "flip":
        content[place] ^= data.draw(st.integers(1, 255))
    elif kind == "cut":
        del content[place:]
    elif kind == "insert":
        content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    elif kind == "zero":
        content[place : place + 16] = bytes(16)
    else:
        content.clear()
    (shelf.bundle / file).write_bytes(content)
    if rehash:
        shelf.rehash()
    shelf.assert_refused_or_serves()


def change_graph(data: st.DataObject, graph: onnx.GraphProto) -> None:
    node = data.draw(st.sampled_from(list(graph.node)))
    weight = data.draw(st.sampled_from(list(graph.initializer)))
    kind = data.draw(st.sampled_from(GRAPH_CHANGES))
    if kind == "op":
        node.op_type = data.draw(st.sampled_from(["Identity", "Loop", "LSTM", "Nothing", "MatMul", "Cast"]))
    elif kind == "domain":
        node.domain = data.draw(st.sampled_from(["com.microsoft", "ai.onnx.ml", "custom", "ai.onnx"]))
    elif kind == "drop":
        graph.node.remove(node)
    elif kind == "swap":
        graph.node.reverse()
    elif kind == "input" and node.input:
        node.input[0] = data.draw(st.sampled_from(["", "lengths", "token_ids", "unknown", node.output[0]]))
    elif kind == "attribute":
        node.attribute.append(helper.make_attribute("axis", data.draw(st.integers(-9, 9))))
    elif kind == "dims" and weight.dims:
        weight.dims[0] = data.draw(st.sampled_from([0, 1, -1, 2**40]))
    elif kind == "external":
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="../../../../etc/passwd")
    elif kind == "type":
        weight.data_type = data.draw(st.integers(0, 30))


@fuzz
@given(data=st.data())
def test_changed_graph(shelf: Shelf, data: st.DataObject) -> None:
    model = onnx.load(shelf.bundle / GRAPH)
    for _ in range(data.draw(st.integers(1, 2))):
        change_graph(data, model.graph)
    (shelf.bundle / GRAPH).write_bytes(model.SerializeToString())
    shelf.rehash()
    shelf.assert_refused_or_serves()


@fuzz
@given(file=st.sampled_from(FILES), kind=st.sampled_from(["missing", "folder", "link", "twice"]))
def test_changed_folder(shelf: Shelf, file: str, kind: str) -> None:
    path = shelf.bundle / file
    if kind == "twice":
        shutil.copy(path, path.with_name(f"copy-of-{file}"))
    else:
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(shelf.healthy / file)
    try:
        catalogue = shelf.load()
        assert "reviews@1" not in catalogue.loaded
        assert [one.id for one in catalogue.refused] == ["reviews@1"]
    finally:
        shelf.heal()
