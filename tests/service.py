"""A real ``readtrace serve`` in a process of its own, for every test that needs one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

_START_SECONDS = 60  # loading and calibrating bundles on a busy machine
_STOP_SECONDS = 30
_LISTENING = re.compile(r'"address":"(http://[^"]+)","event":"listening"')


@dataclass
class Server:
    """A running service with its log; it listens, so its models are loaded."""

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    url: str = ""

    def client(self, **options: float) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)  # type: ignore[arg-type]


@contextmanager
def running_server(
    bundles: Path, port: int = 0, program: Sequence[str] = ("app",), **variables: str
) -> Iterator[Server]:
    """Start ``readtrace serve`` and wait until it listens; port 0 is a free one, `variables` are settings.

    ``program`` is the module that is ``readtrace``, and what it takes before the command.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *program, "serve", "--bundles", str(bundles), "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {f"READTRACE_{name.upper()}": value for name, value in variables.items()},
    )
    server = Server(process)
    listening = threading.Event()

    def follow() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            server.log.append(line)
            if found := _LISTENING.search(line):
                server.url = found[1]
                listening.set()
        listening.set()

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    try:
        assert listening.wait(_START_SECONDS), "the server did not start in time"
        assert server.url, "".join(server.log)
        yield server
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)
        follower.join(5)
        assert process.stderr is not None
        process.stderr.close()
