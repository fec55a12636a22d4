"""Mixed load with faults for as long as wanted: `python -m benchmarks.reliability.soak --minutes 30`.

Clients that ask for one document, for eight, for long ones with explanations; that leave; that send poison, broken
bodies, what is no HTTP; bursts beyond any deadline; a new version of a model every 20 seconds. Every answer is
compared with the first one for the same text. Memory, open files and threads are sampled every 5 seconds; their
growth is that of the least-squares line after the first sixth of the run. Writes `soak.json` and `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx

from app.bundle import MANIFEST, read_manifest
from app.machine import cpu_name
from benchmarks.reliability.ledger import Ledger, slope
from benchmarks.reliability.process import Served, Usage, free_port, served
from benchmarks.reliability.results import HERE, write_page
from benchmarks.reliability.traffic import (
    Client,
    Traffic,
    broken,
    burst,
    demanding,
    evil,
    poison,
    steady,
    vanishing,
)
from benchmarks.shipped import newest
from tests.app.tiny import write_fragile

MODELS = ("imdb", "ag-news", "sst2")
SWAPPED = "sst2"
CLIENTS: tuple[tuple[Client, int], ...] = (
    (steady, 6),
    (demanding, 1),
    (burst, 1),
    (poison, 1),
    (broken, 1),
    (vanishing, 2),
    (evil, 3),
)
_SWAP_SECONDS, _SAMPLE_SECONDS = 20, 5
_COUNTERS = (
    "readtrace_disconnects_total",
    "readtrace_engine_restarts_total",
    "readtrace_dropped_documents_total",
    "readtrace_failed_documents_total",
    "readtrace_refused_total",
    "readtrace_refused_connections_total",
    "readtrace_queue_documents",
    "readtrace_queue_tokens",
    "readtrace_in_flight_requests",
    "readtrace_open_connections",
    "readtrace_retiring_models",
)

Sample = tuple[float, Usage]


def soak(minutes: float, bundles: Path) -> dict[str, object]:
    """Serve copies of the bundles under mixed load; the report."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "bundles"
        for name in MODELS:
            shutil.copytree(bundles / name, root / name)
        write_fragile(root)
        port = free_port()
        command = [sys.executable, "-m", "app", "serve", "--bundles", str(root), "--port", str(port)]
        variables = {"READTRACE_LOG_LEVEL": "warning", "OMP_NUM_THREADS": "1"}
        log = Path(temporary) / "log"
        with served(command, port, "/health/ready", log, variables) as server:
            ledger = Ledger("steady")
            traffic = Traffic(server.url, ledger, time.monotonic() + minutes * 60, documents(bundles), MODELS)
            samples, swaps = asyncio.run(_run(traffic, server, root))
            counters = _counters(server)
            server.signal(signal.SIGTERM)
            ended = server.process.wait(60)
        errors = logged_errors(log)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "command": f"python -m benchmarks.reliability.soak --minutes {minutes:g}",
        "minutes": minutes,
        "requests": {kind: dict(counts) for kind, counts in ledger.counts.items()},
        "examples": ledger.examples,
        "swaps": swaps,
        "by_minute": ledger.minutes(),
        "growth": growth(samples, minutes * 10),
        "samples": [
            [round(second), round(usage.rss_mib, 1), usage.descriptors, usage.threads]
            for second, usage in samples
        ],
        "counters": counters,
        "logged_errors": errors,
        "exit_code": ended,
    }


def logged_errors(log: Path) -> dict[str, int]:
    """How often the service logged each error: what it had not expected is among them."""
    found: Counter[str] = Counter()
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            told = json.loads(line)
            if told["level"] in ("error", "critical"):
                found[f"{told['source']}: {told['event']}"[:100]] += 1
        except (ValueError, LookupError, TypeError):
            found[f"no event: {line}"[:100]] += 1
    return dict(found.most_common(20))


def documents(bundles: Path) -> list[str]:
    """Two hundred texts of the bundles' own golden words, from one word to some hundred."""
    words = [
        word
        for name in MODELS
        for one in read_manifest(newest(name, bundles)).golden
        for word in one.text.split()
    ]
    dice = random.Random(0)
    lengths = [min(400, max(1, round(dice.lognormvariate(3.5, 0.9)))) for _ in range(200)]
    return [" ".join(dice.choices(words, k=length)) for length in lengths]


def growth(samples: Sequence[Sample], after: float) -> dict[str, float]:
    """What changed from `after` seconds on: mean, growth per minute of the least-squares line."""
    late = [sample for sample in samples if sample[0] >= after]
    seconds = [second for second, _ in late]
    columns = {
        "rss_mib": [usage.rss_mib for _, usage in late],
        "descriptors": [float(usage.descriptors) for _, usage in late],
        "threads": [float(usage.threads) for _, usage in late],
    }
    told: dict[str, float] = {"after_seconds": after}
    for name, values in columns.items():
        told[f"{name}_mean"] = round(sum(values) / max(1, len(values)), 2)
        told[f"{name}_per_minute"] = round(slope(seconds, values), 4)
    return told


async def _run(traffic: Traffic, server: Served, root: Path) -> tuple[list[Sample], int]:
    clients = [
        client(traffic, random.Random(f"{client.__name__} {number}"))
        for client, count in CLIENTS
        for number in range(count)
    ]
    samples: list[Sample] = []
    sampler = asyncio.create_task(_sample(traffic, server, samples))
    swapper = asyncio.create_task(_swap(traffic, server, root))
    await asyncio.gather(*clients)
    await sampler
    return samples, await swapper


async def _sample(traffic: Traffic, server: Served, samples: list[Sample]) -> None:
    while not traffic.over and server.alive:
        samples.append((traffic.ledger.elapsed, server.usage()))
        print(f"{samples[-1][0]:6.0f} s  {samples[-1][1]}  {_told(traffic.ledger)}", flush=True)
        await asyncio.sleep(min(_SAMPLE_SECONDS, max(0, traffic.end - time.monotonic())))


def _told(ledger: Ledger) -> str:
    return ", ".join(f"{kind} {dict(counts)}" for kind, counts in ledger.counts.items())


async def _swap(traffic: Traffic, server: Served, root: Path) -> int:
    """Put a new version in the place of the one before, as a careful deployment does, and tell the server."""
    version = 1
    while traffic.end - time.monotonic() > _SWAP_SECONDS:
        await asyncio.sleep(_SWAP_SECONDS)
        version += 1
        before, partial = root / SWAPPED / str(version - 1), root / SWAPPED / ".partial"
        shutil.copytree(before, partial)
        manifest = json.loads((partial / MANIFEST).read_bytes())
        (partial / MANIFEST).write_text(json.dumps(manifest | {"version": str(version)}))
        partial.rename(root / SWAPPED / str(version))
        before.rename(root / SWAPPED / ".gone")
        shutil.rmtree(root / SWAPPED / ".gone")
        server.signal(signal.SIGHUP)
    return version - 1


def _counters(server: Served) -> dict[str, float]:
    """The service's own figures once it is idle."""
    lines: list[str] = []
    for _ in range(100):
        lines = httpx.get(f"{server.url}/metrics", timeout=60).text.splitlines()
        if "readtrace_queue_documents 0.0" in lines and "readtrace_in_flight_requests 1.0" in lines:
            break
        time.sleep(0.1)
    found = (line.rsplit(" ", 1) for line in lines if line.startswith(_COUNTERS))
    return {series: float(value) for series, value in found if float(value)}


def main() -> None:
    """Run, write, and end with 1 where a request was lost or answered wrongly."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--json", type=Path, default=HERE / "soak.json")
    options = parser.parse_args()
    report = soak(options.minutes, options.bundles)
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json.parent == HERE:
        write_page()
    requests = report["requests"]
    assert isinstance(requests, dict)
    bad = sum(counts.get(outcome, 0) for counts in requests.values() for outcome in ("lost", "wrong"))
    print(json.dumps({name: value for name, value in report.items() if name != "samples"}, indent=1))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
