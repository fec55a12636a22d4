"""Structured logs: one chain for our events and for those of the libraries, as JSON or for the console."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import traceback
from types import TracebackType
from typing import TextIO, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from app.settings import Settings

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
    # Ours go straight to the stream: the standard library's way would be a quarter of a short request's time.
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Forgiving(sys.stderr))),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_add_source, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _UNWANTED:
        logging.getLogger(name).disabled = True


class _Forgiving:
    """Standard error whose disk may be full and whose reader may be gone: an event is lost, not a request."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


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
