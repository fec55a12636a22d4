"""The training commands as a person calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli
from tests.models.tiny_run import write_documents

TINY = ("--epochs", "1", "--set", "model.hidden=4", "--set", "model.embedding_size=4")


def readtrace(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "train.csv", count=60)


def test_class_names_and_paths_are_no_markup(data: Path, tmp_path: Path) -> None:
    data.write_text(data.read_text(encoding="utf-8").replace("positive", "[/x]"), encoding="utf-8")
    run = tmp_path / "[bold]" / "run"
    told = readtrace("train", "--train", data, "--out", run, *TINY)
    assert (told.exit_code, told.exception) == (0, None)
    assert f"the run is in {run}\n" in told.output
    told = readtrace("evaluate", run, data)
    assert (told.exit_code, told.exception) == (0, None)
    assert "│ [/x] " in told.output


def test_resume_takes_the_same_command_or_no_options(data: Path, tmp_path: Path) -> None:
    begun = ("train", "--train", data, "--out", tmp_path / "run", *TINY)
    assert readtrace(*begun).exit_code == 0
    assert readtrace(*begun, "--resume").exit_code == 0
    assert readtrace("train", "--out", tmp_path / "run", "--resume").exit_code == 0
    told = readtrace(*begun, "--seed", "2", "--resume")
    assert told.exit_code == 2
    assert (
        "expects the options that the run began with, or none of them: training.seed was 1, is 2"
        in told.output
    )


def test_class_names_may_stand_apart(data: Path, tmp_path: Path) -> None:
    told = readtrace(
        "train", "--train", data, "--out", tmp_path / "run", "--labels", "negative, positive", *TINY
    )
    assert "training documents: 'negative'" in told.output


@pytest.mark.parametrize("command", ["train", "export"])
def test_what_goes_on_after_a_stop_is_told_where_something_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("models.commands.resume", stop)
    monkeypatch.setattr("export.command.export_run", stop)
    given = ("--out", tmp_path, "--resume") if command == "train" else (tmp_path, "--name", "x")
    told = readtrace(command, *given)
    assert told.exit_code == 130
    assert "readtrace: stopped" in told.output
    assert ("with --resume it goes on" in told.output) == (command == "train")
