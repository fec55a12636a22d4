from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from models.architectures.lstm import LSTMConfig
from models.architectures.registry import build
from models.config import RunConfig
from models.errors import RunError
from models.text.storage import store_vectors
from models.text.tokenizer import TokenizerConfig, build_tokenizer
from models.training.run_folder import CHECKPOINT, CONFIG, METRICS, WEIGHTS, RunFolder, RunRecord

RECORD = RunRecord(
    config=RunConfig(model=LSTMConfig(hidden=4)),
    labels=("a", "b"),
    embedding_shape=(5, 3),
    train_documents=9,
    dev_documents=1,
    mean_length=2.5,
    coverage=(),
)
TOKENIZER = build_tokenizer(["x y z"], TokenizerConfig())


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "new")
    made.create(RECORD, TOKENIZER)
    return made


def files(folder: RunFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()}


def test_record_and_tokenizer_are_kept(folder: RunFolder) -> None:
    assert folder.record() == RECORD
    assert folder.tokenizer().to_str() == TOKENIZER.to_str()


@pytest.mark.parametrize("name", [WEIGHTS, METRICS, CHECKPOINT])
def test_folder_with_a_part_of_a_run_is_not_free(tmp_path: Path, name: str) -> None:
    """A run killed before its first checkpoint would else go on from that of another."""
    (tmp_path / name).touch()
    with pytest.raises(RunError, match=f"holds {name} of another run: choose another --out"):
        RunFolder(tmp_path).require_free()


def test_full_disk_leaves_the_old_file_whole(folder: RunFolder) -> None:
    folder.write_metrics([{"epoch": 1}])

    def fail_half_way(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunError, match=r"cannot be written: .*No space left on device"):
        folder._write(METRICS, fail_half_way)
    assert (folder.path / METRICS).read_text(encoding="utf-8") == '{"epoch": 1}\n'
    assert files(folder) == {CONFIG, "tokenizer.json", METRICS}


def test_drawing_that_fails_for_want_of_space_is_told(folder: RunFolder) -> None:
    def draw(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(RunError, match=r"curves\.png: cannot be written"):
        folder.write_curves(draw)


def test_checkpoint_comes_back(folder: RunFolder) -> None:
    assert folder.load_checkpoint() is None
    folder.save_checkpoint({"model": {"w": torch.ones(2)}, "position": {"epoch": 3}})
    state = folder.load_checkpoint()
    assert state is not None
    assert state["position"] == {"epoch": 3}


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut"])
def test_damaged_checkpoint_is_told(folder: RunFolder, content: bytes) -> None:
    (folder.path / CHECKPOINT).write_bytes(content)
    with pytest.raises(RunError, match="expected a checkpoint, found a damaged file"):
        folder.load_checkpoint()
    assert not folder.unfinished()


def test_weights_come_back_with_word_vectors_as_a_bundle_stores_them(folder: RunFolder) -> None:
    model = build(RECORD.config.model, torch.randn(5, 3), 2)
    folder.save_weights(model.state_dict())
    read = folder.model()
    assert not read.training
    assert torch.equal(read.classifier.weight, model.classifier.weight)
    stored = store_vectors(model.embedding.weight.detach().numpy(), "int8").vectors
    assert torch.equal(read.embedding.weight, torch.from_numpy(stored))


def test_missing_weights_are_told(folder: RunFolder) -> None:
    with pytest.raises(RunError, match="the run has not finished its first evaluation"):
        folder.model()


def test_weights_of_another_network_are_told(folder: RunFolder) -> None:
    folder.save_weights(build(LSTMConfig(hidden=5), torch.zeros(5, 3), 2).state_dict())
    with pytest.raises(RunError, match="expected the weights of this run"):
        folder.model()


@pytest.mark.parametrize("content", [b"", b"no weights"])
def test_damaged_weights_are_told(folder: RunFolder, content: bytes) -> None:
    (folder.path / WEIGHTS).write_bytes(content)
    with pytest.raises(RunError, match="expected the weights of this run"):
        folder.model()


@pytest.mark.parametrize("content", ["{}", "no json", '{"labels": 3}'])
def test_damaged_configuration_is_told(folder: RunFolder, content: str) -> None:
    (folder.path / CONFIG).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=CONFIG) as raised:
        folder.record()
    assert "pydantic" not in str(raised.value)
    assert "setting ''" not in str(raised.value)


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_missing_or_damaged_tokenizer_is_told(folder: RunFolder, content: bytes | None) -> None:
    path = folder.path / "tokenizer.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RunError, match=r"tokenizer\.json: expected the tokenizer of this run"):
        folder.tokenizer()


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot be made: .*file is no folder"):
        RunFolder(tmp_path / "file" / "run").create(RECORD, TOKENIZER)


def test_folder_that_could_not_be_made_later_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"run: cannot be made: .*file is no folder"):
        RunFolder(tmp_path / "file" / "run").require_free()
    RunFolder(tmp_path / "new" / "run").require_free()
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(RunError, match=r"run: cannot be written: .* is not yours to write, or read-only"):
        RunFolder(tmp_path / "new" / "run").require_free()


def test_run_without_a_checkpoint_has_not_ended(folder: RunFolder) -> None:
    assert folder.unfinished()
    folder.save_checkpoint({"position": {"finished": True}})
    assert not folder.unfinished()


def test_damaged_evaluation_is_told(folder: RunFolder) -> None:
    folder.write_evaluation("dev", '{"accuracy": 0.5}')
    assert list(folder.evaluations()) == [("dev", {"accuracy": 0.5})]
    (folder.path / "evaluation-test.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"evaluation-test\.json: expected the report of an evaluation"):
        list(folder.evaluations())


def test_evaluation_of_earlier_weights_goes_with_them(folder: RunFolder) -> None:
    weights = build(RECORD.config.model, torch.randn(5, 3), 2).state_dict()
    folder.save_weights(weights)
    folder.write_evaluation("test", '{"accuracy": 0.5}')
    folder.save_weights(weights)
    assert list(folder.evaluations()) == []


def test_folder_that_is_a_file_cannot_be_claimed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(RunError, match="cannot be made: Not a directory"),
        RunFolder(tmp_path / "file" / "run").claimed(),
    ):
        raise AssertionError
