"""A server in a process of its own, and what it takes from the machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

_START_SECONDS = 120  # on a busy machine
_STOP_SECONDS = 30
_LOG_TOLD = 2000  # characters


@dataclass(frozen=True)
class Usage:
    """What a process and its children hold."""

    rss_mib: float
    descriptors: int
    threads: int


class Served:
    """A running server, with the processes that it started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def alive(self) -> bool:
        """Whether the server's first process runs."""
        return self.process.poll() is None

    def usage(self) -> Usage:
        """Memory, open files and threads of the server and all its descendants, now."""
        found = [_usage(pid) for pid in _tree(self.process.pid)]
        return Usage(
            sum(one.rss_mib for one in found),
            sum(one.descriptors for one in found),
            sum(one.threads for one in found),
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process, as an orchestrator does."""
        self.process.send_signal(number)


@contextmanager
def served(
    command: Sequence[str], port: int, ready: str, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """Start a server in a session of its own and wait until the path `ready` answers 200.

    Raises:
        RuntimeError: it ends, or does not answer in time.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | (variables or {}),
        )
    server = Served(process, port)
    try:
        _wait(server, ready, log)
        yield server
    finally:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            process.terminate()
            process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):  # what the server left behind
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """A port that nobody listens on now, nor on the two after it, which MLServer takes as well."""
    while True:
        with ExitStack() as stack, suppress(OSError, OverflowError):
            first = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port: int = first.getsockname()[1]
            for beside in (port + 1, port + 2):
                stack.enter_context(socket.create_server(("127.0.0.1", beside)))
            return port


def _wait(server: Served, ready: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        if not server.alive:
            said = log.read_text(encoding="utf-8", errors="replace")[-_LOG_TOLD:]
            raise RuntimeError(f"the server ended with {server.process.returncode}, and said last:\n{said}")
        with suppress(httpx.TransportError):
            if httpx.get(server.url + ready, timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"{server.url}{ready} did not answer 200 within {_START_SECONDS} s; see {log}")


def _tree(pid: int) -> list[int]:
    found = [pid]
    with suppress(FileNotFoundError):
        for task in (Path("/proc") / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    return found


def _usage(pid: int) -> Usage:
    process = Path("/proc") / str(pid)
    try:
        pages = int((process / "statm").read_text().split()[1])
        descriptors = len(list((process / "fd").iterdir()))
        threads = len(list((process / "task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):  # it ended just now
        return Usage(0, 0, 0)
    return Usage(pages * os.sysconf("SC_PAGESIZE") / 2**20, descriptors, threads)
