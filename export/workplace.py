"""Where an export writes until its bundle is whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".export-"  # the service passes over names that begin with a dot
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """A folder in ``parent`` for one export, removed at its end; those of exports that were killed are removed now.

    An export holds a lock on its folder while it lives, and one on ``parent`` while folders come and go. Where
    folders cannot be locked, as on some network drives, nobody else's is removed.
    """
    with _opened(parent) as entrance:
        if _lock(entrance):
            for left in parent.glob(f"{_PREFIX}*"):
                _remove_unheld(left)
        made = Path(tempfile.mkdtemp(dir=parent, prefix=_PREFIX))
        held = os.open(made, _FOLDER)
        _lock(held)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(held)


def _remove_unheld(folder: Path) -> None:
    with suppress(OSError), _opened(folder) as opened:
        if _lock(opened, fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    opened = os.open(folder, _FOLDER)
    try:
        yield opened
    finally:
        os.close(opened)


def _lock(opened: int, how: int = 0) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | how)
    except OSError:
        return False
    return True
