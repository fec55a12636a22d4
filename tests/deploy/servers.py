"""A real Prometheus that scrapes the service."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.queries import ALERTS, PROMETHEUS

START_SECONDS = 60.0
STOP_SECONDS = 20.0
SCRAPE_INTERVAL = "250ms"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Poll until ``condition`` holds; fail with ``what`` when the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:g} s still not: {what}"
        time.sleep(0.1)


def answers(url: str) -> bool:
    """Whether a GET succeeds now."""
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.TransportError:
        return False


@contextmanager
def running(command: Sequence[object], log: Path, ready: str) -> Iterator[None]:
    """Run a server until the block ends; ``ready`` is the address that answers once it serves."""
    with log.open("wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT)
    try:

        def ready_or_dead() -> bool:
            assert process.poll() is None, f"{command[0]} ended:\n{log.read_text()}"
            return answers(ready)

        wait_until(ready_or_dead, f"{ready} answers")
        yield
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[str]:
    """Run Prometheus with the shipped configuration, hastened, on one target; yield its URL."""
    program = shutil.which("prometheus")
    assert program, "prometheus is missing: `apt-get install --no-install-recommends prometheus` brings it"
    configuration = yaml.safe_load(PROMETHEUS.read_text(encoding="utf-8"))
    configuration["global"] = {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": "1s"}
    configuration["rule_files"] = [str(ALERTS)]
    (job,) = configuration["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with running(command, folder / "prometheus.log", f"http://{address}/-/ready"):
        yield f"http://{address}"


def query(prometheus_url: str, expression: str) -> list[dict[str, Any]]:
    """The instant vector of an expression; an expression that Prometheus refuses fails the test."""
    answer = httpx.post(f"{prometheus_url}/api/v1/query", data={"query": expression}, timeout=10)
    assert answer.is_success, f"{expression}: {answer.text}"
    result: list[dict[str, Any]] = json.loads(answer.text)["data"]["result"]
    return result
