"""``readtrace bench``: documents per second of a model, by pass, length bucket and rows."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from app.bundle import BundleError, find_bundles
from app.commands.options import Bundles, DeviceOption, user_errors
from app.engine.calibration import ROW_COUNTS, Measurement, measure
from app.engine.golden import check_golden
from app.engine.model import Model, open_model
from app.errors import StartError
from app.machine import cpu_name, usable_cpus
from app.settings import read_settings

_REPEATS = 5  # the best of them: others on the machine can only slow a run down


def bench(
    bundles: Bundles = None,
    device: DeviceOption = None,
    model: Annotated[str | None, typer.Option(help="Only models of this name.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the figures to this file.")] = None,
) -> None:
    """Measure full runs on one thread. A document of up to BUCKET words takes one run of every pass."""
    with user_errors():
        settings = read_settings(bundles=bundles, device=device)
        try:
            opened = [open_model(folder, settings) for folder in find_bundles(settings.bundles)]
            chosen = [one for one in opened if model in (None, one.manifest.name)]
            if not chosen:
                raise StartError(f"no model {model!r}; found {', '.join(one.id for one in opened)}")
            figures = [_measure_model(one) for one in chosen]
        except BundleError as error:
            raise StartError(str(error)) from error
        for found in figures:
            Console().print(_table(found))
        if json is not None:
            json.write_bytes(
                orjson.dumps(_report(figures), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            )


def _measure_model(model: Model) -> dict[str, Any]:
    check_golden(model)
    runs = [
        _figures(measure(model, reading, bucket, rows, _REPEATS))
        for reading in model.manifest.passes
        for bucket in model.manifest.length_buckets
        for rows in ROW_COUNTS
    ]
    return {"model": model.id, "provider": model.provider, "runs": runs}


def _figures(found: Measurement) -> dict[str, Any]:
    return {
        "reading": found.reading,
        "bucket": found.bucket,
        "rows": found.rows,
        "seconds": found.seconds,
        "documents_per_second": found.rows / found.seconds,
        "tokens_per_second": found.tokens_per_second,
    }


def _table(found: dict[str, Any]) -> Table:
    title = f"{found['model']} on {found['provider']}, one thread: documents per second by rows"
    table = Table("pass", "bucket", title=title)
    for rows in ROW_COUNTS:
        table.add_column(str(rows), justify="right", no_wrap=True)
    lines: dict[tuple[str, int], list[str]] = {}
    for run in found["runs"]:
        speed = f"{run['documents_per_second']:,.0f}"
        lines.setdefault((run["reading"], run["bucket"]), []).append(speed)
    for (reading, bucket), speeds in lines.items():
        table.add_row(reading, str(bucket), *speeds)
    return table


def _report(figures: list[dict[str, Any]]) -> dict[str, Any]:
    import onnxruntime

    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": cpu_name(),
        "usable_cpus": usable_cpus(),
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime_device": onnxruntime.get_device(),
        "repeats": _REPEATS,
        "models": figures,
    }
