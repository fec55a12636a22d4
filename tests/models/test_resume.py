"""A run that is killed, damaged or already there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from models.commands import resume, train
from models.errors import DataError, RunError
from models.preparation import prepare
from models.training.run_folder import CHECKPOINT, CONFIG, METRICS, WEIGHTS, RunFolder
from tests.models.tiny_run import OPTIONS, tiny_config, tiny_run, write_documents

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_documents(tmp_path_factory.mktemp("data") / "train.csv")


def wait_for_second_epoch(folder: RunFolder, process: subprocess.Popen[bytes]) -> None:
    """Return when a checkpoint from within the second epoch is seen."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the training ended before it could be killed"
        state = folder.load_checkpoint()
        position = state["position"] if state else None
        if isinstance(position, dict) and position["epoch"] == 2 and position["batch"] > 0:
            return
        time.sleep(0.01)
    raise AssertionError("no checkpoint within the second epoch")


def test_killed_run_goes_on_to_the_result_of_an_unbroken_one(data: Path, tmp_path: Path) -> None:
    """Of Leap-LSTM, which also draws noise; `tests/test_stages.py` interrupts every architecture."""
    unbroken = tiny_run(data, tmp_path / "unbroken", "leap")
    killed = RunFolder(tmp_path / "killed")
    command = [sys.executable, "-m", "tests.models.tiny_run", str(data), str(killed.path), "leap"]
    with subprocess.Popen(command) as process:
        wait_for_second_epoch(killed, process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert (killed.path / METRICS).read_bytes().count(b"\n") == 1

    resume(killed.path, OPTIONS, QUIET)
    assert (killed.path / METRICS).read_bytes() == (unbroken.path / METRICS).read_bytes()
    expected = load_file(unbroken.path / WEIGHTS)
    found = load_file(killed.path / WEIGHTS)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name


def test_run_killed_before_its_first_checkpoint_starts_over(data: Path, tmp_path: Path) -> None:
    unbroken = tiny_run(data, tmp_path / "unbroken", "lstm", "training.epochs=1")
    early = RunFolder(tmp_path / "early")
    prepared = prepare(tiny_config(data, "lstm", "training.epochs=1"), Path(), None, QUIET)
    early.create(prepared.record, prepared.tokenizer)
    resume(early.path, OPTIONS, QUIET)
    assert (early.path / METRICS).read_bytes() == (unbroken.path / METRICS).read_bytes()


def test_finished_run_resumes_to_itself(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    before = (folder.path / METRICS).read_bytes()
    resume(folder.path, OPTIONS, QUIET)
    assert (folder.path / METRICS).read_bytes() == before


def test_resume_refuses_changed_data(tmp_path: Path) -> None:
    changing = write_documents(tmp_path / "train.csv")
    folder = tiny_run(changing, tmp_path / "run", "lstm", "training.epochs=1")
    write_documents(changing, count=200)
    with pytest.raises(
        RunError, match="data has changed since the run began: train_documents was 270, is 180"
    ):
        resume(folder.path, OPTIONS, QUIET)


def test_resume_refuses_other_labels_of_the_same_texts(tmp_path: Path) -> None:
    changing = write_documents(tmp_path / "train.csv")
    folder = tiny_run(changing, tmp_path / "run", "lstm", "training.epochs=1")
    text = changing.read_text(encoding="utf-8")
    swapped = text.replace("negative", "?").replace("positive", "negative").replace("?", "positive")
    changing.write_text(swapped, encoding="utf-8")
    with pytest.raises(
        RunError, match=r"data has changed since the run began: train_sha256 was .*; dev_sha256"
    ):
        resume(folder.path, OPTIONS, QUIET)


def test_run_keeps_where_its_files_lie_and_whether_bad_rows_are_skipped(tmp_path: Path) -> None:
    began, moved = tmp_path / "began", tmp_path / "moved"
    began.mkdir()
    with write_documents(began / "train.csv").open("a", encoding="utf-8") as file:
        file.write("a text without a label,\n")
    run = tmp_path / "run"
    config = tiny_config(Path("train.csv"), "lstm", "training.epochs=1")
    train(config, run, replace(OPTIONS, root=began, skip_bad_rows=True), QUIET)
    resume(run, OPTIONS, QUIET)
    began.rename(moved)
    with pytest.raises(DataError, match=r"began/train\.csv"):
        resume(run, OPTIONS, QUIET)
    resume(run, replace(OPTIONS, root=moved), QUIET)


def test_run_that_began_when_less_of_it_was_kept_goes_on(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    older = folder.record().model_dump_json(exclude={"train_sha256", "dev_sha256", "root", "skip_bad_rows"})
    (folder.path / CONFIG).write_text(older, encoding="utf-8")
    resume(folder.path, OPTIONS, QUIET)


def test_resume_takes_the_options_that_the_run_began_with_and_no_others(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "f2s", "training.epochs=1", "model.groups=auto")
    resume(folder.path, OPTIONS, QUIET, tiny_config(data, "f2s", "training.epochs=1", "model.groups=auto"))
    for settings, message in (
        (["training.epochs=2", "model.groups=auto"], "training.epochs was 1, is 2$"),
        (["training.epochs=1", "model.groups=1"], "model.groups was 2, is 1$"),
    ):
        with pytest.raises(
            RunError, match=f"--resume expects the options that .* or none of them: {message}"
        ):
            resume(folder.path, OPTIONS, QUIET, tiny_config(data, "f2s", *settings))
    with pytest.raises(
        RunError, match=r"model\.architecture was mtlstm, is lstm; .*model\.groups was 2, is None"
    ):
        resume(folder.path, OPTIONS, QUIET, tiny_config(data, "lstm", "training.epochs=1"))


@pytest.mark.parametrize("damage", ["cut", "foreign"])
def test_resume_refuses_a_damaged_checkpoint(data: Path, tmp_path: Path, damage: str) -> None:
    folder = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    path = folder.path / CHECKPOINT
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    else:
        torch.save({"model": {}}, path)
    message = {"cut": "expected a checkpoint, found a damaged file", "foreign": "is not one of this run"}
    with pytest.raises(RunError, match=message[damage]):
        resume(folder.path, OPTIONS, QUIET)


def test_run_is_never_written_over(data: Path, tmp_path: Path) -> None:
    tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    with pytest.raises(RunError, match="holds a run already: go on with --resume, or choose another --out"):
        tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")


def test_resume_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run to go on with: begin one without --resume"):
        resume(tmp_path, OPTIONS, QUIET)


def test_two_trainings_do_not_write_one_folder(data: Path, tmp_path: Path) -> None:
    folder = tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
    with (
        folder.claimed(),
        pytest.raises(RunError, match="run: another training is writing here; wait for its end"),
    ):
        resume(folder.path, OPTIONS, QUIET)
    resume(folder.path, OPTIONS, QUIET)


def test_two_new_trainings_do_not_write_one_folder(data: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").claimed(), pytest.raises(RunError, match="another training is writing"):
        tiny_run(data, tmp_path / "run", "lstm", "training.epochs=1")
