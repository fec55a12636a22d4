"""train, evaluate and export: they need the `train` extra, so PyTorch is imported when one is called."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.commands.options import USER_ERROR, raise_exit

_NEEDED = ("torch", "onnx", "sklearn", "safetensors")

Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="Folder at which the recipe's relative paths start; else the current one, or the run's own.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Threads = Annotated[int, typer.Option(min=1, help="CPU threads.")]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave bad rows out, and count them.")]
TextColumn = Annotated[str | None, typer.Option(help="Column that holds the text.")]
LabelColumn = Annotated[str | None, typer.Option(help="Column that holds the label.")]


def register(cli: typer.Typer) -> None:
    """Add the training commands to the command line."""
    for command in (train, evaluate, export):
        cli.command()(command)


def train(
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    train: Annotated[
        list[Path] | None, typer.Option(help="Labelled file: JSON Lines, CSV, TSV, Parquet.")
    ] = None,
    dev: Annotated[
        list[Path] | None, typer.Option(help="Labelled dev file; else a share of --train.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A recipe that ships, or a TOML file.")] = None,
    architecture: Annotated[str | None, typer.Option(help="One of those in docs/training.md.")] = None,
    labels: Annotated[str | None, typer.Option(help="Class names in order, with commas; else found.")] = None,
    polarity: Annotated[str | None, typer.Option(help="Sentiment per class, -1 to 1, with commas.")] = None,
    vectors: Annotated[
        list[Path] | None, typer.Option(help="Word vectors: text, .npz, .safetensors.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Pretrained encoder in place of vectors: a folder, or package:NAME/FOLDER."),
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
    seed: Annotated[int | None, typer.Option()] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting: training.batch_size=64")
    ] = None,
    root: Root = None,
    device: Device = "auto",
    threads: Threads = 1,
    skip_bad_rows: SkipBadRows = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
) -> None:
    """Train a classifier on labelled documents."""
    _require_train_extra()
    overrides: dict[str, object] = {
        "data.train": _absolute(train),
        "data.dev": _absolute(dev),
        "data.labels": [label.strip() for label in labels.split(",")] if labels else None,
        "data.polarity": polarity.split(",") if polarity else None,
        "data.text_column": text_column,
        "data.label_column": label_column,
        "vectors.files": _absolute(vectors),
        "encoder.folder": str(Path(encoder).absolute()) if encoder and Path(encoder).exists() else encoder,
        "model.architecture": architecture,
        "training.epochs": epochs,
        "training.seed": seed,
    }
    with _user_errors("; with --resume it goes on from the last checkpoint, if there is one"):
        from models import commands
        from models.config import load_config

        options = commands.RunOptions(root, device, threads, skip_bad_rows)
        asked = recipe or settings or any(value is not None for value in overrides.values())
        if resume and not asked:
            commands.resume(out, options, _console())
            return
        config = load_config(recipe, overrides, settings or [])
        if resume:
            commands.resume(out, options, _console(), config)
        else:
            commands.train(config, out, options, _console())


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run folder written by `readtrace train`.")],
    data: Annotated[Path, typer.Argument(help="Labelled file.")],
    name: Annotated[
        str | None, typer.Option(help="The split's name in card and report, such as test.")
    ] = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    device: Device = "auto",
    threads: Threads = 1,
    skip_bad_rows: SkipBadRows = False,
) -> None:
    """Measure a trained run on a labelled file."""
    _require_train_extra()
    with _user_errors():
        from models import commands
        from models.data.rows import Columns

        given = text_column or label_column
        columns = Columns(text_column or "text", label_column or "label") if given else None
        options = commands.RunOptions(device=device, threads=threads, skip_bad_rows=skip_bad_rows)
        commands.evaluate_file(run, data, columns, name, options, _console())


def export(
    run: Annotated[Path, typer.Argument(help="Run folder written by `readtrace train`.")],
    name: Annotated[str, typer.Option(help="The model's name in requests.")],
    bundles: Annotated[Path, typer.Option(help="Folder that takes NAME/VERSION/.")] = Path("bundles"),
    version: Annotated[str, typer.Option(help="Numbers with dots.")] = "1",
    documents: Annotated[
        Path | None,
        typer.Option(help="Real texts for the proof; else the dev file's, or the training file's."),
    ] = None,
    golden: Annotated[
        Path | None,
        typer.Option(help="Texts that the bundle holds to check itself; else some of the proof's."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="JSON of other models' measures, for the card.")
    ] = None,
    root: Root = None,
) -> None:
    """Export a trained run to an ONNX bundle, with proof that both give the same answers."""
    _require_train_extra()
    with _user_errors():
        from export.command import ExportOptions, export_run

        export_run(run, ExportOptions(name, version, bundles, documents, golden, compare, root), _console())


def _console() -> Console:
    """Class names and paths are no markup; in a file or pipe, a line is a line."""
    console = Console(markup=False)
    console.soft_wrap = not console.is_terminal
    return console


def _absolute(paths: list[Path] | None) -> list[str] | None:
    """Files named on the command line are relative to the current folder, not to --root."""
    return [str(path.absolute()) for path in paths] if paths else None


def _require_train_extra() -> None:
    missing = [module for module in _NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        how = "in the checkout, pip install -c constraints.txt -e '.[cpu,train]'"
        typer.echo(f"this command needs {', '.join(missing)}: {how}", err=True)
        raise typer.Exit(USER_ERROR)


@contextmanager
def _user_errors(after_stop: str = "") -> Iterator[None]:
    """End with a message and exit code 2 where the user, not the program, can help.

    Args:
        after_stop: what Ctrl+C leaves behind.
    """
    from models.errors import ReadtraceTrainingError  # imports nothing that takes time

    try:
        yield
    except ReadtraceTrainingError as error:
        typer.secho(f"readtrace: {error}", fg="red", err=True)
        raise typer.Exit(USER_ERROR) from None
    except OSError as error:
        raise_exit(error)
    except KeyboardInterrupt:
        typer.secho(f"readtrace: stopped{after_stop}", err=True)
        raise typer.Exit(130) from None
