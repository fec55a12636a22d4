"""What the commands share: options that override settings, and how user errors end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from app.errors import Problem, StartError
from app.settings import Device

USER_ERROR = 2  # exit code

Bundles = Annotated[
    Path | None, typer.Option(help="Folder of bundles, or one bundle.  [READTRACE_BUNDLES; default: bundles]")
]
DeviceOption = Annotated[Device | None, typer.Option(help="Where to run.  [READTRACE_DEVICE; default: auto]")]


@contextmanager
def user_errors() -> Iterator[None]:
    """End with a message and exit code 2 where the user, not the program, can help."""
    try:
        yield
    except StartError as error:
        typer.secho(f"readtrace: {error}", fg="red", err=True)
        raise typer.Exit(USER_ERROR) from None
    except Problem as problem:
        typer.secho(f"readtrace: {problem.title}: {problem.detail}", fg="red", err=True)
        raise typer.Exit(USER_ERROR) from None
