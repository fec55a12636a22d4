from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from app.engine.registry import Registry, load_registry
from app.settings import Settings, read_settings
from tests.app.tiny import write_all

_START_SECONDS = 30


@dataclass
class Server:
    """A running ``readtrace serve`` with its log."""

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    url: str = ""

    def client(self, **options: float) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)  # type: ignore[arg-type]


@contextmanager
def running_server(bundles: Path, **variables: str) -> Iterator[Server]:
    """Start ``readtrace serve`` on a free port and wait until it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--bundles", str(bundles), "--port", "0"],
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
            if found := re.search(r'"address":"(http://[^"]+)","event":"listening"', line):
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
        process.wait(30)
        follower.join(5)
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def settings(bundles: Path) -> Settings:
    return read_settings(bundles=bundles)


@pytest.fixture(scope="session")
def registry(bundles: Path) -> Registry:
    return load_registry(read_settings(bundles=bundles))


@pytest.fixture(scope="session")
def server(bundles: Path) -> Iterator[Server]:
    with running_server(bundles) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


Classify = Callable[..., httpx.Response]


@pytest.fixture
def classify(client: httpx.Client) -> Classify:
    """``classify(input, **fields)`` posts a request."""

    def post(texts: object, **fields: object) -> httpx.Response:
        return client.post("/classify", json={"input": texts, **fields})

    return post
