"""The command ``readtrace``."""

from __future__ import annotations

import typer

from app.commands.bench import bench
from app.commands.classify import classify
from app.commands.doctor import doctor
from app.commands.keys import keys
from app.commands.models import models
from app.commands.serve import serve
from app.commands.training import register as register_training

cli = typer.Typer(
    name="readtrace",
    help="Train, export and serve document classifiers that show how they read.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (serve, classify, models, bench, doctor):
    cli.command()(command)
cli.add_typer(keys)
register_training(cli)


def main() -> None:
    """Run the command line."""
    cli()
