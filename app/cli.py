"""The command ``readtrace``."""

from __future__ import annotations

import importlib.util

import typer

from app.commands.serve import serve

cli = typer.Typer(
    name="readtrace",
    help="Train, export and serve document classifiers that show how they read.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cli.command()(serve)
if importlib.util.find_spec("app.commands.training") is not None:
    from app.commands.training import register

    register(cli)


def main() -> None:
    """Run the command line."""
    cli()
