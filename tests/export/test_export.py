from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from app.bundle import CARD, MANIFEST, read_manifest
from app.manifest import Manifest
from export import command
from export.card import CardError, read_comparisons
from export.command import ExportOptions, export_run
from export.lowering.base import Lowered
from export.lowering.registry import lower
from export.proof import ProofError
from models.architectures.base import Architecture
from models.commands import evaluate_file
from models.errors import ConfigError, DataError, RunError
from models.text.storage import StoredVectors
from models.training.run_folder import WEIGHTS, RunFolder
from tests.models.tiny_run import OPTIONS, tiny_run, write_documents

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("data") / "train.csv")


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Two runs, evaluated."""
    root = tmp_path_factory.mktemp("runs")
    test = write_documents(root / "test.csv", count=60, seed=5)
    made = {name: tiny_run(data, root / name, name, "training.epochs=2") for name in ("lstm", "leap")}
    for folder in made.values():
        evaluate_file(folder.path, test, None, None, OPTIONS, QUIET)
    return made


def export(run: RunFolder, bundles: Path, **options: object) -> tuple[Path, Manifest]:
    folder = export_run(run.path, ExportOptions("tiny", bundles=bundles, **options), QUIET)  # type: ignore[arg-type]
    return folder, read_manifest(folder)


def test_bundle_is_where_it_was_asked_for(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    folder, manifest = export(runs["lstm"], tmp_path / "bundles", version="1.2")
    assert folder == tmp_path / "bundles" / "tiny" / "1.2"
    assert (manifest.name, manifest.version) == ("tiny", "1.2")
    assert len(manifest.golden) == 8


def test_one_golden_document_is_longer_than_a_segment(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\nshort,x\n" + "long good " * 100 + ",x\n", encoding="utf-8")
    _, manifest = export(runs["lstm"], tmp_path / "bundles", documents=texts)
    assert max(len(document.text.split()) for document in manifest.golden) == 200


def test_two_exports_are_the_same(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    one, _ = export(runs["leap"], tmp_path / "one")
    two, _ = export(runs["leap"], tmp_path / "two")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


def test_card_tells_data_measures_and_comparisons(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    compare = tmp_path / "compare.json"
    entry = {
        "name": "TF-IDF | words",
        "dev_accuracy": None,
        "test_accuracy": 0.5,
        "source": "own measurement",
    }
    compare.write_text(json.dumps([entry]), encoding="utf-8")
    folder, manifest = export(runs["leap"], tmp_path / "bundles", compare=compare)
    card = (folder / CARD).read_text(encoding="utf-8")
    measures = manifest.training.metrics["test"]
    assert f"| test | 60 | {measures['accuracy']:.4f} |" in card
    assert f"{measures['skip_rate']:.4f} |" in card
    assert f"| **tiny** (this model) |  | {measures['accuracy']:.4f} | this bundle |" in card
    assert r"| TF-IDF \| words |  | 0.5000 | own measurement |" in card
    assert "270 training and 30 dev documents" in card
    assert "decisions equal" in card


def test_bundle_tells_files_and_not_where_they_lay(data: Path, tmp_path: Path) -> None:
    run = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    folder, _ = export(run, tmp_path / "bundles")
    (path,) = run.record().config.data.train
    assert Path(path).is_absolute()
    told = "".join((folder / name).read_text(encoding="utf-8") for name in (CARD, MANIFEST))
    assert Path(path).name in told
    assert str(Path(path).parent) not in told


def test_card_of_a_run_that_was_not_evaluated_says_so(data: Path, tmp_path: Path) -> None:
    run = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    folder, manifest = export(run, tmp_path / "bundles")
    assert manifest.training.metrics == {}
    card = (folder / CARD).read_text(encoding="utf-8")
    assert "None: `readtrace evaluate` was not run before the export." in card


@pytest.mark.parametrize(
    "content", [None, "{", "3", '["x"]', '[{"name": "x"}]', '[{"name": "x", "score": 1}]']
)
def test_malformed_comparisons_are_told(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "compare.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(CardError, match="expected a JSON list of name, dev_accuracy, test_accuracy, source"):
        read_comparisons(path)
    with pytest.raises(CardError) as raised:
        read_comparisons(path)
    assert "pydantic" not in str(raised.value)


@pytest.mark.parametrize("field", ["name", "dev_accuracy", "test_accuracy", "source"])
def test_comparison_of_a_wrong_type_is_told(tmp_path: Path, field: str) -> None:
    entry = {"name": "x", "dev_accuracy": 0.5, "test_accuracy": 0.5, "source": "y"} | {field: ["0.5"]}
    path = tmp_path / "compare.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    with pytest.raises(CardError, match="expected a JSON list of name, dev_accuracy, test_accuracy, source"):
        read_comparisons(path)


def test_existing_bundle_is_refused(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    folder, _ = export(runs["lstm"], tmp_path)
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(ConfigError, match="exists already: choose another --version, or remove it"):
        export(runs["lstm"], tmp_path)
    assert (folder / MANIFEST).read_bytes() == before
    assert export(runs["lstm"], tmp_path, version="2")[1].version == "2"


@pytest.mark.parametrize(("option", "value"), [("name", "No Name"), ("version", "new"), ("name", "../up")])
def test_bad_name_or_version_is_refused_before_the_work(
    runs: dict[str, RunFolder], tmp_path: Path, option: str, value: str
) -> None:
    options = replace(ExportOptions("tiny", bundles=tmp_path / "bundles"), **{option: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"--{option}: String should match pattern"):
        export_run(runs["lstm"].path, options, QUIET)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write_card", "file_sha256"])
def test_interrupted_export_leaves_nothing(
    runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(runs["lstm"], tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_bundle_that_another_export_wrote_meanwhile_is_kept(
    runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_card_late(*given: object) -> str:
        (tmp_path / "tiny" / "1").mkdir()
        (tmp_path / "tiny" / "1" / MANIFEST).touch()
        return "card"

    monkeypatch.setattr(command, "write_card", write_card_late)
    with pytest.raises(ConfigError, match="exists already: choose another --version, or remove it"):
        export(runs["lstm"], tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [MANIFEST]


def test_interrupted_copy_leaves_no_bundle(
    runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder appears whole, in one rename, or not at all."""

    def interrupt(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(runs["lstm"], tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_failed_proof_writes_nothing(
    runs: dict[str, RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lower_another(model: Architecture, stored: StoredVectors) -> Lowered:
        other = runs["lstm"].model()
        other.classifier.weight.data.mul_(2)
        return lower(other, stored)

    monkeypatch.setattr(command, "lower", lower_another)
    with pytest.raises(ProofError, match="probabilities differ by"):
        export(runs["lstm"], tmp_path / "bundles")
    assert not (tmp_path / "bundles").exists()


def test_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="expected a run folder written by `readtrace train`"):
        export_run(tmp_path, ExportOptions("tiny", bundles=tmp_path / "bundles"), QUIET)


def test_run_without_weights_is_told(data: Path, tmp_path: Path) -> None:
    run = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    (run.path / WEIGHTS).unlink()
    with pytest.raises(RunError, match="the run has not finished its first evaluation"):
        export(run, tmp_path / "bundles")


def test_version_that_is_another_written_otherwise_is_refused(
    runs: dict[str, RunFolder], tmp_path: Path
) -> None:
    (tmp_path / "bundles" / "tiny" / "1").mkdir(parents=True)
    for version in ("01", "1"):
        options = ExportOptions("tiny", version, bundles=tmp_path / "bundles")
        with pytest.raises(ConfigError, match="tiny/1 exists already"):
            export_run(runs["lstm"].path, options, Console(quiet=True))


def test_texts_in_another_column_are_told_with_what_the_run_has(
    runs: dict[str, RunFolder], tmp_path: Path
) -> None:
    (tmp_path / "texts.jsonl").write_text('{"message": "good film"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a field 'text', found message \(as in the training file\)"):
        export(runs["lstm"], tmp_path / "bundles", documents=tmp_path / "texts.jsonl")
    assert not (tmp_path / "bundles" / "tiny").exists()


def test_training_that_has_not_ended_is_told(
    runs: dict[str, RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(Path(shutil.copytree(runs["lstm"].path, tmp_path / "run")))
    state = run.load_checkpoint()
    assert state is not None
    assert isinstance(state["position"], dict)
    options = ExportOptions("tiny", bundles=tmp_path / "bundles")
    terminal = Console(width=400)  # no path is folded
    export_run(run.path, options, terminal)
    assert "has not ended" not in capsys.readouterr().out
    state["position"]["finished"] = False
    run.save_checkpoint(state)
    export_run(run.path, replace(options, version="2"), terminal)
    assert "has not ended; these are its best weights so far" in capsys.readouterr().out


def test_missing_documents_are_told(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file or directory"):
        export(runs["lstm"], tmp_path / "bundles", documents=tmp_path / "texts.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(RunError, match="expected documents with at least one word, found none"):
        export(runs["lstm"], tmp_path / "bundles", documents=tmp_path / "empty.jsonl")


def test_relative_files_of_a_run_are_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_documents(tmp_path / "train.csv")
    monkeypatch.chdir(tmp_path)
    run = tiny_run(Path("train.csv"), tmp_path / "run", "lstm", "training.epochs=1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    bundle, _ = export(run, tmp_path / "bundles")
    assert bundle.is_dir()


def test_texts_of_the_users_own_need_no_labels(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "good"}\n{"text": "bad"}\n', encoding="utf-8")
    _, manifest = export(runs["lstm"], tmp_path / "bundles", golden=texts)
    assert {document.text for document in manifest.golden} == {"good", "bad"}
    texts.write_text('{"text": "good"}\n{"txt": "bad"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2: expected a field 'text', found txt"):
        export(runs["lstm"], tmp_path / "bundles", golden=texts, version="2")


def test_documents_without_a_word_are_left_out(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text,label\n<br />,x\ngood,x\n", encoding="utf-8")
    _, manifest = export(runs["lstm"], tmp_path / "bundles", documents=texts)
    assert [document.text for document in manifest.golden] == ["good"]
