"""Structured logs: one chain for our events and for those of the libraries, as JSON or for the console."""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType

import structlog

from app.settings import Settings

_UNWANTED = ("uvicorn.access",)  # the service writes its own access log, with the request id


def configure_logs(settings: Settings) -> None:
    """Send every log record to standard error in the format of the settings."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in _UNWANTED:
        logging.getLogger(name).disabled = True


def where(trace: TracebackType | None) -> list[str]:
    """The places of a traceback, innermost last; no messages and values, which may hold a caller's text."""
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
