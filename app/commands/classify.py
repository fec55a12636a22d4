"""``readtrace classify``: a file in, JSON Lines out, through the service's own queue and engine."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app.api.classify import describe
from app.api.schema import ClassifyRequest, Explain
from app.background import in_background
from app.commands.options import Bundles, DeviceOption, user_errors
from app.commands.rows import Row, format_of, open_text, read_rows
from app.engine.registry import LoadedModel
from app.errors import Problem
from app.logs import configure_logs
from app.reading import explain as explanations
from app.reading.answer import Answer
from app.reading.read_request import Wanted
from app.service import Service
from app.settings import read_settings
from app.text.tokens import Truncate

_AHEAD = 512  # rows in the queue at once: enough for full batches of every length, and bounded memory
_ROW_CHARACTERS = 8192  # a text counts as one row for each so many
_UNLIMITED = 2**62  # here the reader is what bounds the queue
_READER_SECONDS = 0.5  # that the end waits for a reader, which may be left behind in a read
_PROGRESS_SECONDS = 1.0
_PATIENCE_SECONDS = 3600.0  # nobody waits for a single row

_Done = tuple[Row, Answer | Problem | None]


def classify(
    file: Annotated[
        Path, typer.Argument(help="A .jsonl, .csv, .tsv or .txt file, also .gz; - for JSON Lines.")
    ],
    model: Annotated[str | None, typer.Option(help="Model that reads: NAME or NAME@VERSION.")] = None,
    column: Annotated[str, typer.Option(help="Column or field of the text.")] = "text",
    explain: Annotated[Explain, typer.Option(help="What to tell about the reading.")] = "none",
    truncate: Annotated[
        Truncate, typer.Option(help="What happens to documents that are too long.")
    ] = "error",
    bundles: Bundles = None,
    device: DeviceOption = None,
) -> None:
    """Classify the rows of a file; writes one JSON object a row, in order, to standard output.

    Rows that fail are written with their line and problem; the exit code is 1 when there was one.
    """
    with user_errors():
        settings = read_settings(
            bundles=bundles,
            device=device,
            log_format="console",
            log_level="warning",
            max_queued_documents=_UNLIMITED,
            max_queued_tokens=_UNLIMITED,
            max_wait_seconds=3600,
        )
        configure_logs(settings)
        format_of(file)  # before the models are loaded
        service = Service.load(settings)
        asked = ClassifyRequest(input="", explain=explain, truncate=truncate)
        # Never closed: where the reader is left behind in a read, closing would wait for it.
        rows = read_rows(open_text(file), file, column)
        failed = asyncio.run(_classify_rows(service, service.registry.find(model), asked, rows))
    if failed:
        raise typer.Exit(1)


async def _classify_rows(
    service: Service, model: LoadedModel, asked: ClassifyRequest, rows: Iterator[Row]
) -> int:
    """Read rows in a thread, keep some in the queue, write answers in order; how many rows failed."""
    service.start()
    progress = _Progress()
    loop = asyncio.get_running_loop()
    read_ahead: deque[Row] = deque()
    groups: asyncio.Queue[asyncio.Task[list[_Done]] | None] = asyncio.Queue()
    room = threading.Semaphore(_AHEAD)
    ended = threading.Event()

    def accept() -> None:
        """Classify together whatever was read since the last time."""
        if group := [read_ahead.popleft() for _ in range(len(read_ahead))]:
            groups.put_nowait(loop.create_task(_classify_group(service, model, asked.truncate, group)))

    def read() -> None:
        for row in rows:
            for _ in range(_weight(row)):
                room.acquire()
            if ended.is_set():
                return
            read_ahead.append(row)
            loop.call_soon_threadsafe(accept)

    # Not the loop's executor: where writing fails, nobody may wait for a reader that waits for input.
    reading = asyncio.wrap_future(in_background(read, "read-rows"))
    reading.add_done_callback(lambda _: groups.put_nowait(None))
    try:
        while (task := await groups.get()) is not None:
            for row, answer in await task:
                _write(row, answer, asked)
                progress.count(isinstance(answer, Answer))
                room.release(_weight(row))
            if groups.empty():
                sys.stdout.buffer.flush()
        progress.finish()
    finally:
        ended.set()
        room.release(_AHEAD)
        await service.stop()
        await _end(reading, groups)
    await reading  # raises what reading the file raised
    return progress.failed


async def _end(
    reading: asyncio.Future[None], groups: asyncio.Queue[asyncio.Task[list[_Done]] | None]
) -> None:
    """Wait for what is left where an error came first, and look at its errors, or the end would tell of them."""
    left: list[asyncio.Future[Any]] = [reading]
    while not groups.empty():
        if task := groups.get_nowait():
            left.append(task)
    done, _ = await asyncio.wait(left, timeout=_READER_SECONDS)
    for one in done:
        if not one.cancelled():
            one.exception()


def _weight(row: Row) -> int:
    """Long texts count as several rows, so that the texts in memory are bounded too."""
    return min(_AHEAD, 1 + len(row.text or "") // _ROW_CHARACTERS)


async def _classify_group(
    service: Service, model: LoadedModel, truncate: Truncate, rows: Sequence[Row]
) -> list[_Done]:
    texts = [row.text for row in rows if row.text is not None]
    answers = iter(await service.classify(model, texts, Wanted(truncate), _PATIENCE_SECONDS))
    return [(row, None if row.text is None else next(answers)) for row in rows]


def _write(row: Row, answer: Answer | Problem | None, asked: ClassifyRequest) -> None:
    found: dict[str, object] = {"line": row.line}
    if isinstance(answer, Answer):
        found |= describe(answer, asked)
        if asked.explain == "none" and answer.model.manifest.skips:
            found["skip_rate"] = explanations.skip_rate(answer)
    else:
        found["error"] = row.problem if answer is None else answer.body()
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    sys.stdout.buffer.write(orjson.dumps(found, option=option))


class _Progress:
    """Rows done, failed and per second, on standard error."""

    def __init__(self) -> None:
        self.rows = 0
        self.failed = 0
        self._started = time.monotonic()
        self._shown = self._started

    def count(self, answered: bool) -> None:
        self.rows += 1
        self.failed += not answered
        if time.monotonic() - self._shown >= _PROGRESS_SECONDS:
            self._shown = time.monotonic()
            self._show("\r")

    def finish(self) -> None:
        sys.stdout.buffer.flush()
        self._show("\n")

    def _show(self, end: str) -> None:
        seconds = max(time.monotonic() - self._started, 1e-9)
        line = f"{self.rows} rows, {self.failed} failed, {self.rows / seconds:.0f} rows/s"
        sys.stderr.write(f"{line}{end}")
        sys.stderr.flush()
