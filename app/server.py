"""Runs the application under uvicorn and drains it when told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
from functools import partial
from types import FrameType

import uvicorn

from app.api.application import create_app
from app.connection import BoundedConnection, is_readable
from app.errors import EngineLostError, ReloadFailed, StartError
from app.logs import get_logger
from app.observability.tracing import open_tracing
from app.service import Service

_ACCEPT_SECONDS = 1.0  # for those who wait to be accepted; it takes milliseconds
_SWITCH_SECONDS = 0.0005  # a request's way has many short steps; the usual 5 ms before each would add up
_WRITE_SECONDS = 5  # after the drain, for answers that are still being written

_log = get_logger("readtrace.server")


class DrainingServer(uvicorn.Server):
    """At the first signal readiness goes off and accepted requests are answered; liveness stays green.

    uvicorn itself would close its listening sockets at once, so that no probe could be answered any more.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain_task: asyncio.Task[None] | None = None
        self._reload_task: asyncio.Task[None] | None = None  # kept, or it might be collected while it runs
        service.on_failure = self._stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and say where."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGHUP, self._begin_reload)
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                _log.info("listening", address=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept who waits for it, since closing the listening socket would reset them; then close and end.

        Who comes later cannot connect, and so knows that nothing was read.
        """
        listening = sockets or []
        for one in listening:
            one.listen(0)  # the system lets no more come, or there might be no end of accepting
        until = time.monotonic() + _ACCEPT_SECONDS
        while any(is_readable(one.fileno()) for one in listening) and time.monotonic() < until:
            await asyncio.sleep(0)  # the loop accepts
        for server in self.servers:
            server.close()
        await asyncio.sleep(0)  # the last ones become connections
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; a second signal stops at once."""
        if self._service.draining or self._loop is None:
            self.force_exit = sig == signal.SIGINT
            self.should_exit = True
            return
        self._service.draining = True
        self._loop.call_soon_threadsafe(self._begin_drain)

    def _stop(self) -> None:
        self.should_exit = True

    def _begin_reload(self) -> None:
        self._reload_task = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        self._service.reload_keys()
        with contextlib.suppress(ReloadFailed):  # it is in the log, and nobody waits for an answer
            await self._service.reloader.reload()

    def _begin_drain(self) -> None:
        self._drain_task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        _log.info("draining", drain_seconds=self._service.settings.drain_seconds)
        await self._service.drain()
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Take the address without listening yet, so that nobody connects while the models load.

    Raises:
        StartError: it cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise StartError(f"{host}:{port}: {error.strerror}; choose another with --port or --host") from error
    return bound


def serve(service: Service, bound: socket.socket) -> None:
    """Serve until a signal, and until every accepted request was answered or ``drain_seconds`` are over.

    Raises:
        EngineLostError: the engine failed too often to go on.
    """
    config = uvicorn.Config(
        create_app(service, open_tracing(service.settings.traces_endpoint)),
        loop="uvloop",
        http=partial(  # type: ignore[arg-type]
            BoundedConnection, settings=service.settings, metrics=service.metrics, lag=service.lag
        ),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_WRITE_SECONDS,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    DrainingServer(config, service).run([bound])
    if service.failure is not None:
        raise EngineLostError(service.failure)
