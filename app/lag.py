"""How long requests wait where nobody sees them, in the sockets, and whether the event loop keeps up with them."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from collections.abc import Callable

_LATE_SECONDS = 0.25  # far beyond what a busy loop takes for all that is there at a moment
_PATIENCE_SECONDS = 1.0  # a stall, or a burst that ends, is no overload

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
    """Whether requests wait for the event loop, all the time and for too long.

    Where they come faster than they can be refused, their clients leave while they wait, and all that is
    done for them is in vain. The loop can only catch up by doing less for each.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._late_since: float | None = None
        self._observed = 0.0  # when the last request was looked at

    @property
    def lasts(self) -> bool:
        """Whether requests came all the time for a while, and every one had waited."""
        return self._late_since is not None and self._observed - self._late_since > _PATIENCE_SECONDS

    def observe(self, waited: float) -> None:
        """A request had waited for so many seconds when it was looked at."""
        now, before = self._clock(), self._observed
        self._observed = now
        if waited < _LATE_SECONDS:
            self._late_since = None
        elif self._late_since is None or now - before > _PATIENCE_SECONDS:
            self._late_since = now
