"""``readtrace serve``."""

from __future__ import annotations

import os
import signal
from typing import Annotated

import typer

from app.background import is_work_left
from app.commands.options import Bundles, DeviceOption, user_errors
from app.logs import configure_logs, drain_logs
from app.server import bind
from app.server import serve as serve_http
from app.service import Service
from app.settings import read_settings


def serve(
    bundles: Bundles = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    device: DeviceOption = None,
    default_model: Annotated[str | None, typer.Option(help="Model of requests that name none.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console.")] = None,
) -> None:
    """Serve bundles over HTTP. Options win over READTRACE_* variables (docs/settings.md)."""
    with user_errors():
        settings = read_settings(
            bundles=bundles,
            host=host,
            port=port,
            device=device,
            default_model=default_model,
            log_format=log_format,
        )
        configure_logs(settings)
        # Until the server takes it: it would end the process, and what is being loaded is new anyway.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with bind(settings.host, settings.port) as bound:
            serve_http(Service.load(settings), bound)
    if (
        is_work_left()
    ):  # a load that does not stop: the interpreter would end under it, which aborts the process
        drain_logs()
        os._exit(0)
