"""One client's connection: how many there may be, and how long each may keep the service waiting.

uvicorn bounds neither the head of a request, nor the time in which it must arrive, nor that in which an
answer must be taken. This protocol adds these bounds; requests that arrive in one piece cost no timer.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any, Literal

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.api.middleware import SECURITY_HEADERS
from app.api.problems import MEDIA_TYPE
from app.errors import (
    BadHttp,
    HeadTooLarge,
    NetworkBusy,
    Problem,
    RequestTimeout,
    ShuttingDown,
    TooManyConnections,
)
from app.lag import WAITED, LoopLag, waited_seconds
from app.observability.metrics import STALLED, Metrics
from app.settings import Settings

_LAST_SECONDS = 1.0  # once the server ends, for requests that are on their way

_LINGER_SECONDS = 2.0  # for a client that still sends: closed at once it would lose the answer with the rest
_MOST_HEAD_BYTES = 64 * 1024  # generous: proxies allow 8 to 32 KiB
_MOST_UNWANTED_BYTES = 256 * 1024  # so that a small request that is refused keeps its connection
_LEAST_TAKEN_BYTES = (
    64 * 1024
)  # of an answer within the time-out for writing, or who drips would hold it for ever
_UPGRADE = {b"connection", b"upgrade", b"http2-settings"}

_Phase = Literal["head", "body"]


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's protocol with bounds; what is refused here never reaches the application."""

    def __init__(self, *args: Any, settings: Settings, metrics: Metrics, lag: LoopLag, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settings = settings
        self._lag = lag
        self._metrics = metrics
        self._phase: _Phase | None = None  # what of a request arrives now
        self._unbroken_bytes = 0  # received since the last end of a head or piece of a body
        self._watched: _Phase | None = None
        self._receive_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._leaving = False
        self._ending = False  # the whole server is
        self._unwanted_bytes = 0  # of a body that was answered before its end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and refuse it where there are too many."""
        super().connection_made(transport)
        self._transport = transport
        self.transport = _Transport(self, transport)  # type: ignore[assignment]
        self._metrics.open_connections.inc()
        most = self._settings.max_connections
        if len(self.connections) > most:
            self._refuse(TooManyConnections(f"{most} connections are open already.", 1))
        else:
            self._watch("head")

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection out."""
        self._leaving = True
        self._metrics.open_connections.dec()
        self._watch(None)
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; refuse what is no HTTP, too long or too slow."""
        if self._leaving:
            return
        self._unset_keepalive_if_required()
        unread: bytes | None = data
        while unread is not None and not self._leaving:
            self._unbroken_bytes += len(unread)
            unread = self._parse(unread)
        if self._leaving:  # refused, or answered before its body was read to the end
            return
        if self._unbroken_bytes > _MOST_HEAD_BYTES and self._phase is not None:
            self._refuse(HeadTooLarge(f"Expected at most {_MOST_HEAD_BYTES} bytes."))
            return
        self._watch(self._expected())

    def _parse(self, data: bytes) -> bytes | None:
        """Parse; what is to be parsed anew, where a request offered to go on in another protocol."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(BadHttp(f"Expected a request of HTTP/1.1: {error}."))
        return None

    def on_message_begin(self) -> None:
        """A head begins."""
        self._phase = "head"
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head is complete; the application is called."""
        self._phase = "body"
        self._unbroken_bytes = 0
        if self.parser.should_upgrade():
            return  # read again without
        self._unwanted_bytes = 0
        waited = waited_seconds(self._transport)
        self.scope["state"][WAITED] = waited
        if self._lag.sheds(waited) and self._may_be_shed():
            self._refuse(NetworkBusy("Requests come faster than they can be looked at.", 1))
            return
        super().on_headers_complete()

    def _may_be_shed(self) -> bool:
        """Whether the request is not a probe's or scraper's, nor sent behind one that is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering and self.parser.get_method() == b"POST"

    def on_body(self, body: bytes) -> None:
        """A piece of a body came."""
        self._unbroken_bytes = 0
        if self._leaving:
            return
        if not self.cycle.response_complete:
            super().on_body(body)
            return
        self._unwanted_bytes += len(body)
        if self._unwanted_bytes > _MOST_UNWANTED_BYTES:
            self._linger()

    def on_message_complete(self) -> None:
        """A request is there from head to end."""
        self._phase = None
        self._unbroken_bytes = 0
        if self._leaving:
            return
        self._watch(None)
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def shutdown(self) -> None:
        """The server ends: close, in a moment where a request has not come or only half.

        A client that keeps its connection may have sent one just now; the application refuses it.
        """
        if self._leaving or self._transport.is_closing():
            return
        self._ending = True
        expected = self._expected()
        if expected is None:
            super().shutdown()  # it ends with the answer
        else:
            self._watch(None)
            self._watch(expected)

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than it is given."""
        super().pause_writing()
        self._start_write_timer(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client took what waited."""
        super().resume_writing()
        self._stop_write_timer()

    def close(self) -> None:
        """Close after an answer, in such a way that a client that still sends gets it."""
        if self._phase == "body":
            self._linger()
        else:
            self._transport.close()

    def _expected(self) -> _Phase | None:
        """What the client owes now: not the head of the next request while it waits for an answer."""
        if self._phase == "body":
            return "body"
        return "head" if self.cycle is None or self.cycle.response_complete else None

    def _watch(self, phase: _Phase | None) -> None:
        """Give the phase its time; the time of one that goes on runs on."""
        if phase == self._watched:
            return
        self._watched = phase
        if self._receive_timer is not None:
            self._receive_timer.cancel()
            self._receive_timer = None
        if phase is not None:
            seconds = self._patience_seconds(phase)
            self._receive_timer = self.loop.call_later(seconds, self._refuse_late, phase, seconds)

    def _patience_seconds(self, phase: _Phase) -> float:
        if self._ending:
            return _LAST_SECONDS
        settings = self._settings
        return settings.head_timeout_seconds if phase == "head" else settings.body_timeout_seconds

    def _refuse_late(self, phase: _Phase, seconds: float) -> None:
        if phase == "body" and self.cycle.response_complete:
            self._linger()
        elif self._ending and self._phase is None:
            if is_readable(self._fileno()):  # it came this very moment
                self._watch(None)
                self._watch(phase)
            else:
                self.close()
        elif self._ending:
            self._refuse(ShuttingDown("The service stopped before the request was complete.", 1))
        else:
            self._refuse(RequestTimeout(f"Expected the {phase} of the request within {seconds:g} s."))

    def _fileno(self) -> int:
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def _refuse(self, problem: Problem) -> None:
        """Answer in the application's place, or break off where an answer is on its way already."""
        self._metrics.refused_connections_total.labels(problem.slug).inc()
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if answering:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.pipeline or (answering and cycle.response_started):
            self.transport.abort()
        else:
            self.transport.write(_raw(problem))
            self._linger()

    def _linger(self) -> None:
        """Say that the answer is complete and drop what the client still sends, for a moment."""
        if self._leaving or self.transport.is_closing():
            return
        self._leaving = True
        self._watch(None)
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self.transport.write_eof()
        self._receive_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _without_upgrade(self, rest: bytes) -> bytes | None:
        """An offer to go on in another protocol may be ignored; its request counts, with its body."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(BadHttp("This is no proxy."))
            return None
        headers = b"".join(
            b"%b: %b\r\n" % (name, value) for name, value in self.headers if name not in _UPGRADE
        )
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (
            method,
            self.url,
            self.parser.get_http_version().encode(),
            headers,
        )
        self.parser = httptools.HttpRequestParser(self)
        return head + rest

    def _start_write_timer(self, waiting_bytes: int) -> None:
        self._write_timer = self.loop.call_later(
            self._settings.write_timeout_seconds, self._check_written, waiting_bytes
        )

    def _check_written(self, waited_bytes: int) -> None:
        """Leave a client that took hardly anything; one that is slow may go on."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waited_bytes - waiting_bytes >= min(waited_bytes, _LEAST_TAKEN_BYTES):
            self._start_write_timer(waiting_bytes)
        else:
            self._metrics.refused_connections_total.labels(STALLED).inc()
            self.transport.abort()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def is_readable(fileno: int) -> bool:
    """Whether something arrived at a socket that nobody took yet: bytes, an end, or a connection."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return bool(poll.poll(0))


class _Transport:
    """A transport that closes as the connection wants, whoever closes it."""

    def __init__(self, connection: BoundedConnection, transport: asyncio.Transport) -> None:
        self.close = connection.close
        self.abort = transport.abort
        self.write = transport.write
        self.write_eof = transport.write_eof
        self.is_closing = transport.is_closing
        self.get_write_buffer_size = transport.get_write_buffer_size


def _raw(problem: Problem) -> bytes:
    body = orjson.dumps(problem.body())
    headers = {
        **SECURITY_HEADERS,
        **problem.headers,
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return STATUS_LINE[problem.status] + lines.encode() + b"\r\n" + body
