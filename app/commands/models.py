"""``readtrace models``: what a folder of bundles holds."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.bundle import BundleError, find_bundles, printable, read_manifest
from app.commands.options import USER_ERROR, Bundles, user_errors
from app.errors import StartError
from app.settings import read_settings


def models(bundles: Bundles = None) -> None:
    """List the bundles of a folder: their files are checked, nothing is run. Exit code 2 when one is bad."""
    table = Table("model", "version", "architecture", "labels", "longest document", "state")
    refused = 0
    with user_errors():
        settings = read_settings(bundles=bundles)
        try:
            folders = find_bundles(settings.bundles)
        except BundleError as error:
            raise StartError(str(error)) from error
        for folder in folders:
            try:
                found = read_manifest(folder, settings.bundles)
            except BundleError as error:
                refused += 1
                refusal = (
                    printable(folder.parent.name),
                    printable(folder.name),
                    "",
                    "",
                    "",
                    f"refused: {error}",
                )
                table.add_row(*map(Text, refusal))
                continue
            labels = ", ".join(found.labels)
            longest = f"{found.longest_document} tokens"
            served = (found.name, found.version, found.architecture, labels, longest, "good")
            table.add_row(*map(Text, served))  # class names are no markup
    Console().print(table)
    if refused:
        raise typer.Exit(USER_ERROR)
