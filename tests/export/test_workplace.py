"""An export that was killed leaves nothing for ever; one that is at work is left alone."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from export.workplace import workplace

_KILLED = """
import os, signal, sys
from pathlib import Path
from export.workplace import workplace
with workplace(Path(sys.argv[1])) as folder:
    (folder / "graph.onnx").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_export_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with workplace(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder != left
    assert not list(tmp_path.iterdir())


def test_exports_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    with workplace(tmp_path) as one, workplace(tmp_path) as other:
        (one / "a").touch()
        (other / "a").touch()
        assert {one, other} == set(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_where_folders_cannot_be_locked_nothing_of_others_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("locks are not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with workplace(tmp_path) as one, workplace(tmp_path) as other:
        assert {one, other} == set(tmp_path.iterdir())
