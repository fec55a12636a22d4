"""The results table's commands: `python -m benchmarks.accuracy list|run|cost|table`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.accuracy.grid import HERE, read_grid, select
from benchmarks.accuracy.results import read_result

cli = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Rows = Annotated[list[str] | None, typer.Argument(help="Rows as SET/MODEL, patterns allowed; none: all.")]
Runs = Annotated[Path, typer.Option(help="Folder of the run folders.")]
RUNS = Path("runs/accuracy")
GUIDE = HERE.parents[1] / "docs" / "choosing.md"


@cli.command("list")
def list_rows(rows: Rows = None) -> None:
    """Name the rows and how many of their trainings have a result."""
    for row in select(read_grid(), tuple(rows or ())):
        typer.echo(f"{row.name:28} {len(read_result(row).units)} of {len(row.units)}")


@cli.command()
def run(
    rows: Rows = None,
    root: Annotated[Path, typer.Option(help="Folder that holds data/ and embeddings/.")] = Path(),
    runs: Runs = RUNS,
    only: Annotated[int | None, typer.Option(help="The one seed or fold to train.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Processor threads of a training.")] = 1,
) -> None:
    """Train, and measure on the test split, what has no result yet; resumes what was stopped."""
    from benchmarks.accuracy.train import train_rows
    from models.commands import RunOptions

    chosen = list(select(read_grid(), tuple(rows or ())))
    with _told_in_a_line():
        train_rows(chosen, only, root, runs, RunOptions(root, device, threads))


@cli.command()
def cost(
    rows: Rows = None,
    runs: Runs = RUNS,
    again: Annotated[bool, typer.Option("--again", help="Also where the cost is known.")] = False,
) -> None:
    """Export each row's first run, serve it and measure what a document costs; wants a quiet machine."""
    from benchmarks.accuracy.cost import measure_rows

    with _told_in_a_line():
        measure_rows(list(select(read_grid(), tuple(rows or ()))), runs, again)


@cli.command()
def table() -> None:
    """Write RESULTS.md, its plots and docs/choosing.md from the result files."""
    from benchmarks.accuracy.choosing import write_guide
    from benchmarks.accuracy.claims import judge, read_claims
    from benchmarks.accuracy.plots import draw_plots
    from benchmarks.accuracy.table import write_table

    grid = read_grid()
    results = {name: read_result(row) for name, row in grid.items()}
    verdicts = [judge(claim, results) for claim in read_claims()]
    plots = draw_plots(grid, results, HERE / "plots")
    (HERE / "RESULTS.md").write_text(write_table(grid, results, verdicts, plots), encoding="utf-8")
    GUIDE.write_text(write_guide(grid, results), encoding="utf-8")


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    """End with the message of what a person can mend: a wrong --root, a damaged run, a full disk."""
    from models.errors import ReadtraceTrainingError

    try:
        yield
    except (ReadtraceTrainingError, OSError) as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    cli()
