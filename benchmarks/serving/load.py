"""Readtrace beside a plain FastAPI service on the same bundle: `python -m benchmarks.serving.load --root DATA`.

Both run as a process of their own on one processor, the load on another. A closed loop: every connection sends
its next document when it has the answer. The services take turns, several rounds each; reported are the medians of
documents per second, of the 50th and 99th percentile, and of the ratio of the rates within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import uvloop

from app.machine import cpu_name
from benchmarks.shipped import described, newest

_PORTS = {"readtrace": 8701, "readtrace, traces": 8701, "plain FastAPI": 8702}
_EXPLAIN = {"readtrace": "none", "readtrace, traces": "steps", "plain FastAPI": "none"}
_SETS = {"sst2": "sst2", "imdb": "imdb"}  # models with one pass, which the plain service can serve


@dataclass(frozen=True)
class Round:
    """One service under load for some seconds."""

    documents_per_second: float
    p50_ms: float
    p99_ms: float


def bodies(root: Path, model: str, explain: str) -> list[bytes]:
    """Whole HTTP requests of the model's test documents."""
    with gzip.open(root / "data" / _SETS[model] / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file][:1000]
    requests = []
    for text in texts:
        body = json.dumps({"input": text, "model": model, "explain": explain}).encode()
        head = f"POST /classify HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        requests.append(head.encode() + b"\r\n\r\n" + body)
    return requests


async def _connection(port: int, requests: Iterator[bytes], end: float, seconds: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        started = time.perf_counter()
        writer.write(next(requests))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seconds.append(time.perf_counter() - started)
    writer.close()


async def load(port: int, requests: list[bytes], connections: int, duration: float) -> Round:
    """Keep every connection busy for `duration` seconds."""
    seconds: list[float] = []
    source = iter(requests * 1000)
    start = time.perf_counter()
    end = start + duration
    await asyncio.gather(*(_connection(port, source, end, seconds) for _ in range(connections)))
    elapsed = time.perf_counter() - start
    seconds.sort()
    return Round(
        len(seconds) / elapsed, seconds[len(seconds) // 2] * 1e3, seconds[int(len(seconds) * 0.99)] * 1e3
    )


@contextmanager
def services(bundles: Path, model: str) -> Iterator[None]:
    """Both services on processor 0."""
    readtrace = [
        sys.executable,
        "-m",
        "app",
        "serve",
        "--bundles",
        str(bundles),
        "--port",
        str(_PORTS["readtrace"]),
    ]
    plain = [sys.executable, "-m", "uvicorn", "benchmarks.serving.plain:app", "--no-access-log"]
    plain += ["--port", str(_PORTS["plain FastAPI"])]
    variables = os.environ | {
        "READTRACE_BUNDLE": str(newest(model, bundles)),
        "READTRACE_LOG_LEVEL": "warning",
        "READTRACE_WORKER_THREADS": "1",
    }
    processes = [
        subprocess.Popen(["taskset", "-c", "0", *command], env=variables, stderr=subprocess.DEVNULL)
        for command in (readtrace, plain)
    ]
    try:
        for path, port in (("health/ready", _PORTS["readtrace"]), ("docs", _PORTS["plain FastAPI"])):
            _wait(f"http://127.0.0.1:{port}/{path}")
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")


def measure(root: Path, bundles: Path, model: str, connections: int, rounds: int) -> list[dict[str, object]]:
    """All services in turn on one model's documents."""
    found: dict[str, list[Round]] = {name: [] for name in _PORTS}
    with services(bundles, model):
        for _ in range(rounds):
            for name, port in _PORTS.items():
                requests = bodies(root, model, _EXPLAIN[name])
                found[name].append(uvloop.run(load(port, requests, connections, 3)))
    base = found["plain FastAPI"]
    rows: list[dict[str, object]] = []
    for name, results in found.items():
        middle = Round(
            *(statistics.median(asdict(result)[field] for result in results) for field in asdict(results[0]))
        )
        ratios = [
            own.documents_per_second / other.documents_per_second
            for own, other in zip(results, base, strict=True)
        ]
        numbers = {field: round(value, 2) for field, value in asdict(middle).items()}
        rows.append(
            {
                "model": described(newest(model, bundles)),
                "connections": connections,
                "service": name,
                **numbers,
                "over_plain": round(statistics.median(ratios), 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure both models at few and many connections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="folder that holds data/")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    rows = [
        row
        for model in _SETS
        for connections in (1, 32)
        for row in measure(options.root, options.bundles, model, connections, options.rounds)
    ]
    if options.json:
        report = {
            "date": datetime.now(UTC).date().isoformat(),
            "cpu": cpu_name(),
            "command": "python -m benchmarks.serving.load",
            "results": rows,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
