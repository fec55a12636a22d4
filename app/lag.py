"""How long requests wait where nobody sees them, in the sockets, and whether the event loop keeps up with them."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from app.errors import QueueFull, WaitTooLong

WAITED = "waited_seconds"  # of a request's state: how long it was there before anybody looked at it
_LATE_SECONDS = 0.25  # far beyond what a busy loop takes for all that is there at a moment
_PATIENCE_SECONDS = 1.0  # a stall, or a burst that ends, is no overload
_AGAIN_LATE_SECONDS = 0.1  # while an overload is fresh in memory
_MEMORY_SECONDS = 5.0
_FULL_SECONDS = 0.03  # a few times what a refusal takes

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LAST_RECEIVED = struct.Struct("@52xI")  # Linux's struct tcp_info up to tcpi_last_data_recv, in ms


def waited_seconds(transport: asyncio.Transport) -> float:
    """Since the last bytes of a connection arrived at this machine; 0 where the system does not tell."""
    if not sys.platform.startswith("linux"):
        return 0.0
    connection = transport.get_extra_info("socket")
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_RECEIVED.size)
        (milliseconds,) = _LAST_RECEIVED.unpack(told)
    except (OSError, struct.error, AttributeError):  # closed meanwhile; no TCP; an older kernel
        return 0.0
    return float(milliseconds) / 1000


class LoopLag:
    """Whether requests wait for the event loop, all the time and for too long; then some are refused unread.

    Where they come faster than they can be refused, their clients leave while they wait, and all that is
    done for them is in vain. The loop can only catch up by doing less for each. An overload is told from a
    burst by its length. Until it is some seconds past, only those requests are looked at that hardly waited,
    or the next second of patience would let all wait again; and after one for which there was no room none is
    for a moment, or looking at them would take half of the processor from those that are read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._late_since: float | None = None
        self._observed = 0.0  # when the last request was looked at
        self._remembered_until = 0.0
        self._full_until = 0.0

    def sheds(self, waited: float) -> bool:
        """Whether a request that had waited for so many seconds is refused unread; asked once for each."""
        now, before = self._clock(), self._observed
        self._observed = now
        if waited < _LATE_SECONDS:
            self._late_since = None
        elif self._late_since is None or now - before > _PATIENCE_SECONDS:
            self._late_since = now
        lasts = self._late_since is not None and now - self._late_since > _PATIENCE_SECONDS
        remembered = now < self._remembered_until
        if lasts or (remembered and (waited >= _AGAIN_LATE_SECONDS or now < self._full_until)):
            self._remembered_until = now + _MEMORY_SECONDS
            return True
        return False

    def judge(
        self, let_in: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call what lets a request in or refuses it, as there is room; whatever it raises is raised."""
        try:
            found = let_in(*args, **kwargs)
        except (QueueFull, WaitTooLong):
            self._full_until = self._clock() + _FULL_SECONDS
            raise
        self._full_until = 0.0
        return found
