"""``readtrace keys``: make, list and remove API keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.commands.options import user_errors
from app.errors import StartError
from app.keys import Key, make_key, read_keys, write_keys
from app.settings import read_settings

keys = typer.Typer(name="keys", help="Make, list and remove API keys (docs/keys.md).", no_args_is_help=True)

File = Annotated[Path | None, typer.Option("--file", help="The file of keys.  [READTRACE_KEYS]")]
Name = Annotated[str, typer.Argument(help="Who uses the key.")]
_RELOAD = "A running service takes the change over at SIGHUP."


@keys.command()
def new(
    name: Name,
    scope: Annotated[
        list[str] | None, typer.Option(help="classify or admin; may be given twice.  \\[default: classify]")
    ] = None,
    quota: Annotated[int | None, typer.Option(help="Tokens a minute; without it there is no limit.")] = None,
    file: File = None,
) -> None:
    """Print a new key, once; the file keeps only its hash."""
    with user_errors():
        path = _path(file)
        known = read_keys(path) if path.exists() else ()
        if any(key.name == name for key in known):
            raise StartError(f"{path}: there is a key {name!r} already; `readtrace keys remove {name}` first")
        text, key = make_key(name, scope or ["classify"], quota)
        write_keys(path, (*known, key))
    typer.echo(text)
    typer.echo(f"Keep it: it is shown only now. {_RELOAD}", err=True)


@keys.command(name="list")
def list_keys(file: File = None) -> None:
    """Tell whose keys there are."""
    with user_errors():
        table = Table("name", "id", "scopes", "tokens a minute")
        for key in read_keys(_path(file)):
            quota = "no limit" if key.tokens_per_minute is None else str(key.tokens_per_minute)
            table.add_row(Text(key.name), key.id, ", ".join(key.scopes), quota)
    Console().print(table)


@keys.command()
def remove(name: Name, file: File = None) -> None:
    """Make a key useless."""
    with user_errors():
        path = _path(file)
        known = read_keys(path)
        kept: tuple[Key, ...] = tuple(key for key in known if key.name != name)
        if len(kept) == len(known):
            names = ", ".join(key.name for key in known) or "none"
            raise StartError(f"{path}: no key {name!r}; found {names}")
        write_keys(path, kept)
    typer.echo(_RELOAD, err=True)


def _path(given: Path | None) -> Path:
    path = given or read_settings().keys
    if path is None:
        raise StartError("name the file of keys with --file or READTRACE_KEYS")
    return path
