"""Work in a thread of its own that the end of the process does not wait for, as it would for an executor's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


class _Background(threading.Thread):
    """Told from the threads of others by its type."""


def in_background(work: Callable[[], _T], name: str) -> Future[_T]:
    """Begin the work; what it returns or raises is the future's. It cannot be taken back."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def settle() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # whoever waits must learn of it, whatever it is
            future.set_exception(error)

    _Background(target=settle, name=name, daemon=True).start()
    return future


def is_work_left() -> bool:
    """Whether something still runs in the background."""
    return any(isinstance(thread, _Background) for thread in threading.enumerate())
