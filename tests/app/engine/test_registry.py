from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import onnx
import pytest
from pydantic import ValidationError

import app.engine.loading
from app.bundle import MANIFEST, bundle_bytes, file_sha256, read_manifest
from app.engine.loading import load_registry
from app.engine.model import Model, open_model
from app.engine.registry import Registry
from app.errors import StartError, UnknownModel
from app.manifest import TOKENIZER, PassSpec, TensorSpec
from app.settings import Settings, read_settings
from tests.app.tiny import rewrite_manifest, write_all, write_phrases, write_reviews, write_topics


def load(root: Path, **overrides: object) -> Registry:
    return load_registry(read_settings(bundles=root, **overrides))


def refusal(root: Path) -> str:
    """The reason for the one refused bundle; the other one must serve."""
    registry = load(root)
    assert list(registry.loaded) == ["topics@1"]
    (refused,) = registry.refused
    assert (refused.name, refused.version) == ("reviews", "1")
    return refused.reason


def test_name_means_the_newest_version_and_name_at_version_exactly_that(tmp_path: Path) -> None:
    for version in ("1.9", "1.10", "1.2"):
        write_reviews(tmp_path, version=version)
    registry = load(tmp_path)
    assert registry.find("reviews").id == "reviews@1.10"
    assert registry.find("reviews@1.9").id == "reviews@1.9"


def test_unknown_model_lists_what_there_is(registry: Registry) -> None:
    with pytest.raises(UnknownModel, match=r"Expected one of reviews, topics .* got 'review'"):
        registry.find("review")


def test_default_is_the_first_name_or_the_one_set(bundles: Path) -> None:
    assert load(bundles).find(None).id == "reviews@1"
    assert load(bundles, default_model="topics").find(None).id == "topics@1"


def test_unknown_default_stops_the_start(bundles: Path) -> None:
    with pytest.raises(StartError, match="default_model: Expected one of reviews, topics"):
        load(bundles, default_model="news")


def test_changed_file_refuses_its_bundle_and_the_other_serves(tmp_path: Path) -> None:
    write_all(tmp_path)
    with (tmp_path / "reviews" / "1" / TOKENIZER).open("a") as file:
        file.write(" ")
    assert "sha256" in refusal(tmp_path)


def test_broken_manifest_is_refused(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "reviews" / "1" / MANIFEST).write_text("{}")
    assert "Field required" in refusal(tmp_path)


def test_graph_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    (folder / "read.onnx").write_bytes(b"no graph")
    rewrite_manifest(folder)
    assert refusal(tmp_path) == "reviews/1/read.onnx: not an ONNX graph"


def test_graph_that_cannot_run_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    graph = onnx.load(folder / "read.onnx")
    graph.graph.node[0].op_type = "Nothing"
    (folder / "read.onnx").write_bytes(graph.SerializeToString())
    rewrite_manifest(folder)
    assert re.search(r"read\.onnx: ONNX Runtime does not load it", refusal(tmp_path))


def test_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    (folder / TOKENIZER).write_text("{}")
    rewrite_manifest(folder)
    assert "not a tokenizer" in refusal(tmp_path)


def test_other_signature_is_refused_with_both(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    steps = [TensorSpec(name=name, shape=(2,)) for name in ("logits", "probabilities")]
    wrong = PassSpec(name="read", graph="read.onnx", steps=tuple(steps))
    rewrite_manifest(folder, passes=[wrong.model_dump(mode="json")])
    assert re.search(r"expected inputs lengths: .* found c: .*h: ", refusal(tmp_path))


def test_wrong_golden_answer_is_refused_with_the_difference(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    rewrite_manifest(folder, golden=[{"text": "good", "probabilities": [0.0, 1.0]}])
    assert re.search(r"golden document 0 differs by \d\.\d+e-\d+; expected at most", refusal(tmp_path))


def test_other_skipped_words_are_refused(tmp_path: Path) -> None:
    folder = write_topics(tmp_path)
    found = load(tmp_path).find("topics").manifest.golden[0]
    assert found.skipped is not None
    flipped = found.model_copy(update={"skipped": tuple(not skipped for skipped in found.skipped)})
    rewrite_manifest(folder, golden=[flipped.model_dump(mode="json")])
    with pytest.raises(StartError, match="golden document 0 skips other words than expected"):
        load(tmp_path)


def test_golden_document_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    rewrite_manifest(folder, golden=[{"text": " ", "probabilities": [0.0, 1.0]}])
    assert "Expected at least one word, got none." in refusal(tmp_path)


def test_folder_without_bundles_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="readtrace export"):
        load(tmp_path)


def test_cuda_asked_and_cpu_got_stops_the_start_unless_allowed(bundles: Path) -> None:
    with pytest.raises(StartError, match="device=cuda was asked for"):
        load(bundles, device="cuda")
    allowed = load(bundles, device="cuda", allow_cpu_fallback=True)
    assert allowed.find("reviews").provider == "CPUExecutionProvider"


@pytest.mark.parametrize("shape", [(), (2, 3), (2,)])
def test_attention_without_its_results_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    folder = write_reviews(tmp_path)
    (reading,) = read_manifest(folder).passes
    score = TensorSpec(name="attention_score", shape=shape)
    passes = [reading.model_copy(update={"steps": (*reading.steps, score)}).model_dump(mode="json")]
    with pytest.raises(ValidationError, match=r"must have the shape \(hops,\), found .*None, None"):
        rewrite_manifest(folder, passes=passes)


def test_windows_without_their_results_are_refused(tmp_path: Path) -> None:
    folder = write_phrases(tmp_path)
    with pytest.raises(ValidationError, match=r"the result last_word must be \[\('int64', \(9,\)\)\], found"):
        rewrite_manifest(folder, windows=[{"words": 2, "features": 9}])
    with pytest.raises(ValidationError, match=r"the result last_word must be \[\], found"):
        rewrite_manifest(folder, windows=None)


def test_stable_is_the_version_in_its_file_and_latest_the_highest(tmp_path: Path) -> None:
    for version in ("1", "2", "3"):
        write_reviews(tmp_path, version=version)
    (tmp_path / "reviews" / "stable").write_text("2\n")
    registry = load(tmp_path)
    found = {name: registry.find(name).id for name in ("reviews", "reviews@stable", "reviews@latest")}
    assert found == {"reviews": "reviews@2", "reviews@stable": "reviews@2", "reviews@latest": "reviews@3"}
    assert registry.find(None).id == "reviews@2"
    assert registry.catalogue.aliases(registry.find("reviews@3")) == ["reviews@latest"]


def test_stable_is_nobody_where_none_was_chosen(bundles: Path) -> None:
    with pytest.raises(UnknownModel, match="got 'reviews@stable'"):
        load(bundles).find("reviews@stable")


@pytest.mark.parametrize(
    ("content", "reason"),
    [("2", "version 2 is not served"), ("newest", "expected a version such as 2 or 1.10, found 'newest'")],
)
def test_bad_choice_of_stable_takes_the_name_and_leaves_the_versions(
    tmp_path: Path, content: str, reason: str
) -> None:
    write_all(tmp_path)
    (tmp_path / "topics" / "stable").write_text(content)
    registry = load(tmp_path)
    for name in ("topics", "topics@stable"):
        with pytest.raises(UnknownModel, match=f"topics@stable was refused: topics/stable: {reason}"):
            registry.find(name)
    assert registry.find("topics@1") is registry.find("topics@latest")


def test_links_and_other_names_below_the_folder_are_refused(tmp_path: Path) -> None:
    elsewhere = write_reviews(tmp_path / "elsewhere")
    root = tmp_path / "bundles"
    write_topics(root)
    (root / "linked-name").symlink_to(elsewhere.parent)
    (root / "linked-version").mkdir()
    (root / "linked-version" / "1").symlink_to(elsewhere)
    shutil.copytree(elsewhere, root / "linked-file" / "1")
    (root / "linked-file" / "1" / TOKENIZER).unlink()
    (root / "linked-file" / "1" / TOKENIZER).symlink_to(elsewhere / TOKENIZER)
    rewrite_manifest(root / "linked-file" / "1", name="linked-file")
    shutil.copytree(elsewhere, root / "other-name" / "1")
    registry = load(root)
    assert list(registry.loaded) == ["topics@1"]
    assert {bundle.name: bundle.reason for bundle in registry.refused} == {
        "linked-name": "linked-name: expected a folder, found a link",
        "linked-version": "linked-version/1: expected a folder, found a link",
        "linked-file": f"linked-file/1/{TOKENIZER}: expected a plain file, found a link",
        "other-name": "other-name/1: the manifest is of reviews/1",
    }


@pytest.mark.parametrize("name", ["../reviews/1/read.onnx", "/etc/passwd", "..", "a/b", ".hidden", "a\\b"])
def test_file_names_cannot_leave_the_bundle(tmp_path: Path, name: str) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest["sha256"][name] = manifest["sha256"]["read.onnx"]
    manifest["passes"][0]["graph"] = name
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert "String should match pattern" in refusal(tmp_path)


def test_file_beyond_its_limit_is_refused_unread(tmp_path: Path) -> None:
    folder = write_all(tmp_path) / "reviews" / "1"
    with (folder / "read.onnx").open("ab") as file:
        file.truncate(2**31)  # a hole: it takes no room
    assert re.search(r"read\.onnx: expected at most 2147483647 bytes, found 2147483648", refusal(tmp_path))


@pytest.mark.parametrize(
    ("kind", "reason"), [("link", "a plain file, found a link"), ("pipe", "a plain file")]
)
def test_file_that_is_swapped_as_it_is_opened_is_refused(tmp_path: Path, kind: str, reason: str) -> None:
    file = write_all(tmp_path / "bundles") / "reviews" / "1" / TOKENIZER
    swaps = [file]

    def swap(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or arguments[0] not in (file, str(file)) or not swaps:
            return
        swaps.clear()
        file.rename(tmp_path / "elsewhere")
        if kind == "link":
            file.symlink_to(tmp_path / "elsewhere")
        else:
            os.mkfifo(file)

    sys.addaudithook(swap)  # told before a file is opened; it stays, and does nothing a second time
    assert refusal(tmp_path / "bundles") == f"reviews/1/{TOKENIZER}: expected {reason}"


def test_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_all(tmp_path) / "reviews" / "1" / TOKENIZER
    look = os.fstat

    def grow(descriptor: int) -> os.stat_result:
        found = look(descriptor)
        if os.path.samestat(found, file.stat()):
            with file.open("ab") as grown:
                grown.write(b" ")
        return found

    with monkeypatch.context() as growing:
        growing.setattr(os, "fstat", grow)
        assert refusal(tmp_path) == f"reviews/1/{TOKENIZER}: grew while it was read"


def test_hash_of_a_manifest_is_of_the_bytes_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is bound to it, so it must not be another manifest's that is put there meanwhile."""
    manifest = write_reviews(tmp_path) / MANIFEST

    def put_another(folder: Path, settings: Settings) -> Model:
        manifest.write_bytes(manifest.read_bytes() + b" ")
        return open_model(folder, settings)

    monkeypatch.setattr(app.engine.loading, "open_model", put_another)
    loaded = load(tmp_path).find("reviews")
    assert loaded.manifest_sha256 == file_sha256(manifest)


def test_bundle_beyond_the_memory_limit_is_refused_with_both_figures(tmp_path: Path) -> None:
    write_all(tmp_path)
    reviews, topics = (bundle_bytes(tmp_path / name / "1") for name in ("reviews", "topics"))
    registry = load(tmp_path, max_models_bytes=reviews + topics - 1)
    assert list(registry.loaded) == ["reviews@1"]
    assert registry.refused[0].reason == (
        f"topics/1: has {topics} bytes beside {reviews} of the models that are loaded; "
        f"setting max_models_bytes allows {reviews + topics - 1}"
    )
    assert len(load(tmp_path, max_models_bytes=reviews + topics).loaded) == 2


def test_halves_without_their_logits_are_refused(tmp_path: Path) -> None:
    folder = write_reviews(tmp_path)
    with pytest.raises(ValidationError, match=r"the step half_logits must be \(2, 2\), found None"):
        rewrite_manifest(folder, halves=[{"units": 4, "tau": 1.0}, {"units": 4, "tau": 1.2}])


def test_document_longer_than_a_pass_that_reads_it_whole_is_refused(tmp_path: Path) -> None:
    folder = write_reviews(tmp_path)
    (reading,) = read_manifest(folder).passes
    whole = [reading.model_copy(update={"whole": True}).model_dump(mode="json")]
    with pytest.raises(
        ValidationError, match="a pass that reads documents whole takes at most the largest bucket, 16"
    ):
        rewrite_manifest(folder, passes=whole)
    short = read_manifest(folder).golden[0].model_dump(mode="json", exclude_none=True)
    rewrite_manifest(folder, passes=whole, longest_document=16, golden=[short])
    assert load(tmp_path).find("reviews").manifest.passes[0].whole
