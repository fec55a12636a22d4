"""What a row's model costs when served: exported to a bundle, loaded by the service, fed with the set's dev documents.

Processor time of the whole process is counted, tokenizing, queue and reading together, so that what else the machine
does matters by the shared caches alone. HTTP is left out: it costs every model the same (benchmarks/serving).
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from app.reading.read_request import Wanted
from app.service import Service
from app.settings import read_settings
from benchmarks.accuracy.grid import Row
from benchmarks.accuracy.results import Cost, changed_result, read_result
from benchmarks.accuracy.train import run_folder
from export.command import ExportOptions, export_run
from models.data.documents import load_rows
from models.data.rows import Columns
from models.training.run_folder import RunFolder

_DOCUMENTS = 512
_AT_ONCE = 64  # documents of one request
_ROUNDS = 3  # the cheapest round counts: what disturbs only ever adds
_PATIENCE_SECONDS = 600.0


def measure_rows(rows: Sequence[Row], runs: Path, again: bool) -> None:
    """Measure every row whose first run is at hand and whose cost is not known, or all of those again."""
    console = Console(stderr=True)
    for row in rows:
        unit = row.units[0]
        run = run_folder(runs, row, unit)
        result = read_result(row)
        if str(unit) not in result.units or (result.cost and not again):
            continue
        if not run.exists():
            console.print(
                f"{row.name}: no run in {run}, so nothing is measured", style="yellow", markup=False
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            bundle = export_run(run, ExportOptions("model", bundles=Path(folder)), console)
            megabytes = sum(path.stat().st_size for path in bundle.iterdir()) / 1e6
            texts = _texts(run)
            seconds = asyncio.run(_seconds(Path(folder), texts))
        cost = Cost(
            date=datetime.now(UTC).date().isoformat(),
            unit=str(unit),
            documents=len(texts),
            cpu_microseconds=round(seconds / len(texts) * 1e6, 1),
            bundle_megabytes=round(megabytes, 2),
        )
        with changed_result(row) as changed:
            changed.cost = cost
        console.print(f"{row.name}: {cost.cpu_microseconds:,.0f} µs a document", highlight=False)


def _texts(run: Path) -> list[str]:
    data = RunFolder(run).record().config.data
    rows = load_rows([Path(name) for name in data.dev], Columns(data.text_column, data.label_column), None)
    return [row.text for _, row in rows[:_DOCUMENTS]]


async def _seconds(bundles: Path, texts: Sequence[str]) -> float:
    """Processor seconds that the cheapest round took."""
    service = Service.load(read_settings(bundles=bundles, device="cpu", worker_threads=1, log_level="error"))
    service.start()
    model = service.registry.find(None)
    rounds = []
    for _ in range(1 + _ROUNDS):  # the first warms up
        started = time.process_time()
        for start in range(0, len(texts), _AT_ONCE):
            await service.classify(model, texts[start : start + _AT_ONCE], Wanted(), _PATIENCE_SECONDS)
        rounds.append(time.process_time() - started)
    await service.stop()
    return min(rounds[1:])
