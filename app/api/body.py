"""Reads a request's body: never more bytes than the limit, nor more values than a request may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import Gauge
from starlette.requests import Request

from app.errors import BodiesFull, BodyTooLarge, InvalidRequest

MOST_VALUES = 65_536  # of all lists and objects of a body: far more than the documents of any request
# Matches from any quote on, also where the end is missing, so that no byte is looked at twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)


_FREE_BYTES = 64 * 1024  # of a body: so that ordinary requests are read whoever sends large ones slowly


class BodyRoom:
    """What the bodies of all requests may hold together, from their first byte until they are parsed.

    Belongs to one event loop. The first 64 KiB of each count for nothing: what those hold, connections bound.
    """

    def __init__(self, most_bytes: int, gauge: Gauge) -> None:
        self._most_bytes = most_bytes
        self._gauge = gauge
        self._held_bytes = 0

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Room for a body; call what is given with the bytes that it has so far.

        Raises:
            BodiesFull: by the call, where there is no room for so many.
        """
        counted = 0

        def hold(size: int) -> None:
            nonlocal counted
            more = max(0, size - _FREE_BYTES) - counted
            if self._held_bytes + more > self._most_bytes:
                raise BodiesFull(f"Expected at most {self._most_bytes} bytes of large bodies at once.", 1)
            counted += more
            self._change(more)

        try:
            yield hold
        finally:
            self._change(-counted)

    def _change(self, by: int) -> None:
        if by:
            self._held_bytes += by
            self._gauge.set(self._held_bytes)


async def read_body(request: Request, most_bytes: int, hold: Callable[[int], None]) -> bytes:
    """The whole body, declared or streamed.

    Args:
        request: the request.
        most_bytes: of the body.
        hold: called with the bytes of the body so far, before they are kept; may refuse them.

    Raises:
        BodyTooLarge: it has more than ``most_bytes``; what follows is not read.
        BodiesFull: what ``hold`` raises; likewise.
        starlette.requests.ClientDisconnect: the client left before its end.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes:
            raise _too_large(most_bytes)
        hold(size)
        chunks.append(chunk)
    return b"".join(chunks)


def check_values(body: bytes) -> None:
    """Refuse JSON with more values than any request has, before any of them is made.

    What follows notes an error for every wrong value, of which 8 MiB hold four million: half a minute in which nothing
    else runs, and gigabytes.

    Raises:
        InvalidRequest: there are too many.
    """
    if len(body) <= MOST_VALUES or _values(body) <= MOST_VALUES:  # with those that only a text seems to have
        return
    # At least so many, as none begins with an escaped quote. Half of them at most are names of values.
    strings = (body.count(b'"') - body.count(b'\\"')) // 2
    values = (strings + 1) // 2 if strings > 2 * MOST_VALUES else _values(_STRING.sub(b"", body))
    if values > MOST_VALUES:
        raise InvalidRequest(f"Expected at most {MOST_VALUES} values in the body, got at least {values}.")


def _values(json: bytes) -> int:
    """Each value but the whole follows one of these."""
    return sum(map(json.count, (b",", b"[", b"{")))


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"Expected at most {most_bytes} bytes. Send the documents in parts.")
