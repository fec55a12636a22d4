"""``readtrace`` with an engine that loses its threads: ``python -m tests.app.lost_threads died|stuck serve …``.

Models are loaded, proved and calibrated as ever; whatever a request then asks the engine to run ends or holds its
thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import NoReturn

from app.cli import main
from app.engine.registry import Registry


def _die(*_: object) -> NoReturn:
    raise SystemExit


def _hang(*_: object) -> NoReturn:
    """As a run does that is told to stop and goes on."""
    threading.Event().wait()
    raise AssertionError


_WAYS: Mapping[str, object] = {"died": _die, "stuck": _hang}

if __name__ == "__main__":
    setattr(Registry, "run", _WAYS[sys.argv.pop(1)])  # noqa: B010 - mypy takes no assignment to a method
    main()
