"""Structured logs: one chain for our events and for those of the libraries, as JSON or for the console."""

from __future__ import annotations

import atexit
import functools
import json
import logging
import sys
import traceback
from types import TracebackType
from typing import TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from app.log_writer import LogWriter
from app.settings import Settings

_STANDARD_ERROR = 2
_UNWANTED = ("uvicorn.access",)  # the service writes its own access log, with the request id


def configure_logs(settings: Settings) -> None:
    """Send every event to standard error in the format of the settings."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = _render_json if settings.log_format == "json" else _console()
    writer = cast(TextIO, _writer())
    # Ours go straight to the stream: the standard library's way would be a quarter of a short request's time.
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=structlog.WriteLoggerFactory(writer),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(writer)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_add_source, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _UNWANTED:
        logging.getLogger(name).disabled = True


@functools.cache
def _writer() -> LogWriter:
    writer = LogWriter(_STANDARD_ERROR)
    atexit.register(writer.drain)
    return writer


def drain_logs() -> None:
    """Wait a moment for what was logged to be written; no longer than a second, however often it is called."""
    _writer().drain()


def lost_events() -> int:
    """Events of the log that could not be written, or for which its reader was too slow."""
    return _writer().lost


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose events carry its name as ``source``."""
    logger: FilteringBoundLogger = structlog.get_logger(source=name)
    return logger


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    try:
        return orjson.dumps(event, default=repr).decode()
    except TypeError:  # half of a surrogate pair, as in a file's name that is no UTF-8: here it is escaped
        return json.dumps(event, default=repr)


def _console() -> Processor:
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _add_source(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event["source"] = event["_record"].name
    return event


def where(trace: TracebackType | None) -> list[str]:
    """The places of a traceback, innermost last; no messages and values, which may hold a caller's text."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
