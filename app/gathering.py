"""Wakes the engine once for all requests of a moment, so that they share its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LONGEST_SECONDS = 0.005  # that the engine waits for further requests


class Gathering:
    """Waits while every turn of the event loop brings another request; belongs to that loop.

    An engine thread that is woken by the first of several requests takes it alone, and the interpreter's lock
    with it, while the others are parsed: many runs of one row in place of few of many. A lone request waits for two
    turns of the loop, tens of microseconds.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._gathers = False
        self._came = False
        self._until_seconds = 0.0

    def submitted(self) -> None:
        """A request was queued."""
        self._came = True
        if not self._gathers:
            self._gathers = True
            loop = asyncio.get_running_loop()
            self._until_seconds = loop.time() + _LONGEST_SECONDS
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._came and loop.time() < self._until_seconds:
            self._came = False
            loop.call_soon(self._turn, loop)
        else:
            self._gathers = False
            self._wake()
