"""What the commands share: options that override settings, and how user errors end."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.errors import EngineLostError, Problem, StartError
from app.logs import drain_logs
from app.settings import Device

USER_ERROR = 2  # exit code
ENGINE_LOST = 1  # likewise: an orchestrator's next process may fare better
# A full disk, a place that cannot be written or read, a reader of our output that left.
_OF_THE_PLACE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.EPIPE),
}

Bundles = Annotated[
    Path | None, typer.Option(help="Folder of bundles, or one bundle.  [READTRACE_BUNDLES; default: bundles]")
]
DeviceOption = Annotated[Device | None, typer.Option(help="Where to run.  [READTRACE_DEVICE; default: auto]")]


@contextmanager
def user_errors() -> Iterator[None]:
    """End with a message: exit code 2 where the user, not the program, can help, 1 where the engine is lost."""
    try:
        yield
    except StartError as error:
        _tell(str(error))
        raise typer.Exit(USER_ERROR) from None
    except OSError as error:
        raise_exit(error)
    except EngineLostError as error:
        _tell(str(error))
        raise typer.Exit(ENGINE_LOST) from None
    except Problem as problem:
        _tell(f"{problem.title}: {problem.detail}")
        raise typer.Exit(USER_ERROR) from None


def raise_exit(error: OSError) -> NoReturn:
    """End with a message and exit code 2 where it is the place, such as a full disk; else raise it again."""
    if error.errno not in _OF_THE_PLACE:
        raise error
    where = error.filename or "output"
    _tell(f"{where}: {error.strerror}")
    raise typer.Exit(USER_ERROR) from None


def _tell(message: str) -> None:
    drain_logs()  # what led to it stands before it
    typer.secho(f"readtrace: {message}", fg="red", err=True)
