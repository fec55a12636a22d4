"""Ten times more long texts than a service can read: `python -m benchmarks.reliability.overload --root DATA`.

Readtrace and its peers serve the shipped `imdb` model, each in turn, on processor 0; the load comes from processor 1.
First a closed loop finds what the service reads a second. Then requests arrive at random moments ten times as often,
each from a client of its own that waits for two seconds and leaves; Readtrace is told of these two seconds. What counts
is the goodput: answers that reach a client that still waits. Writes `overload.json` and `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import json
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from app.machine import cpu_name
from benchmarks.reliability.contenders import CONTENDERS, Contender, python_of, variables_of
from benchmarks.reliability.process import free_port, served
from benchmarks.reliability.results import HERE, write_page
from benchmarks.shipped import described, newest

DEADLINE_SECONDS = 2.0
SHORT_WAIT_SECONDS = 0.3
TIMES = 10
ONSET_SECONDS = 5.0  # an overload is told from a burst by its length, so its beginning is another matter
_REVIEWS_PER_TEXT = 4
_CONNECTIONS = 32
_CAPACITY_SECONDS = 10.0
_PROBES_SECONDS = 0.1


@dataclass
class Tally:
    """What became of the requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    answered_seconds: list[float] = field(default_factory=list)
    settled_seconds: list[float] = field(
        default_factory=list
    )  # of those answered that did not come at the onset
    refused_seconds: list[float] = field(default_factory=list)

    def note(self, outcome: str, seconds: float, asked: float) -> None:
        """Count a request that was asked so many seconds after the first."""
        self.outcomes[outcome] += 1
        if outcome == "answered":
            self.answered_seconds.append(seconds)
            if asked >= ONSET_SECONDS:
                self.settled_seconds.append(seconds)
        elif outcome == "refused":
            self.refused_seconds.append(seconds)


def texts(root: Path) -> list[str]:
    """Reviews of the test split, four after another in a text: about a thousand words."""
    with gzip.open(root / "data" / "imdb" / "test.jsonl.gz", "rt", encoding="utf-8") as file:
        reviews = [json.loads(line)["text"] for line in file][: 400 * _REVIEWS_PER_TEXT]
    starts = range(0, len(reviews), _REVIEWS_PER_TEXT)
    return [" ".join(reviews[start : start + _REVIEWS_PER_TEXT]) for start in starts]


def requests(contender: Contender, documents: list[str]) -> list[bytes]:
    """Whole HTTP requests."""
    told = contender.requirement is None
    deadline = f"x-request-deadline-ms: {DEADLINE_SECONDS * 1e3:.0f}\r\n" if told else ""
    whole = []
    for text in documents:
        body = json.dumps(contender.body(text)).encode()
        head = f"POST {contender.path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{deadline}"
        head += f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        whole.append(head.encode() + body)
    return whole


async def ask(port: int, request: bytes, patience_seconds: float) -> str:
    """One client: what it got, or `given up` where that took longer than it waits."""
    try:
        async with asyncio.timeout(patience_seconds):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                answer = await reader.read()
            finally:
                writer.transport.abort()
    except TimeoutError:
        return "given up"
    except OSError:
        return "connection refused or reset"
    head = answer.partition(b"\r\n\r\n")[0].lower()
    status = head[9:12].decode() or "closed without an answer"
    if status == "200":
        return "answered"
    return "refused" if status == "503" and b"retry-after:" in head else status


async def capacity(port: int, source: Iterator[bytes], seconds: float) -> tuple[float, list[float]]:
    """Texts a second, and the seconds of each, where some clients ask again as soon as they are answered."""
    took: list[float] = []
    end = time.monotonic() + seconds

    async def ask_on() -> None:
        while time.monotonic() < end:
            asked = time.monotonic()
            if await ask(port, next(source), 60) == "answered":
                took.append(time.monotonic() - asked)

    started = time.monotonic()
    await asyncio.gather(*(ask_on() for _ in range(_CONNECTIONS)))
    return len(took) / (time.monotonic() - started), took


async def flood(port: int, source: Iterator[bytes], rate: float, seconds: float) -> Tally:
    """Requests at random moments, so many a second, whether or not those before were answered."""
    tally = Tally()
    dice = random.Random(1)
    clients: set[asyncio.Task[None]] = set()

    async def one() -> None:
        started = time.monotonic()
        outcome = await ask(port, next(source), DEADLINE_SECONDS)
        tally.note(outcome, time.monotonic() - started, started - first)

    first = due = time.monotonic()
    end = first + seconds
    while due < end:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.create_task(one())
        clients.add(task)
        task.add_done_callback(clients.discard)
        due += dice.expovariate(rate)
    await asyncio.gather(*clients)
    return tally


async def recovery(port: int, request: bytes) -> float | None:
    """Seconds after the last client left until a long text is answered; None where it takes a minute."""
    started = time.monotonic()
    while time.monotonic() - started < 60:
        if await ask(port, request, 10) == "answered":
            return time.monotonic() - started
        await asyncio.sleep(_PROBES_SECONDS)
    return None


def quantile(values: list[float], share: float) -> float | None:
    """The value that so large a share of the values does not exceed; None of none."""
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3) if values else None


async def measure(
    contender: Contender,
    port: int,
    documents: list[str],
    seconds: float,
    capacity_seconds: float = _CAPACITY_SECONDS,
) -> dict[str, object]:
    """Capacity, flood, recovery."""
    source = itertools.cycle(requests(contender, documents))
    await capacity(port, source, capacity_seconds)  # everything is warm afterwards, costs are learned
    able, took = await capacity(port, source, capacity_seconds)
    tally = await flood(port, source, TIMES * able, seconds)
    back = await recovery(port, next(source))
    goodput = tally.outcomes["answered"] / seconds
    return {
        "capacity_per_second": round(able, 1),
        "able_p99_seconds": quantile(took, 0.99),
        "goodput_per_second": round(goodput, 1),
        "goodput_of_capacity": round(goodput / able, 2),
        "outcomes": dict(tally.outcomes.most_common()),
        "answered_p50_seconds": quantile(tally.answered_seconds, 0.5),
        "answered_p99_seconds": quantile(tally.answered_seconds, 0.99),
        "settled_p99_seconds": quantile(tally.settled_seconds, 0.99),
        "refused_p50_seconds": quantile(tally.refused_seconds, 0.5),
        "recovered_seconds": None if back is None else round(back, 2),
    }


def run(
    options: argparse.Namespace, contender: Contender, bundles: Path, settings: Mapping[str, str]
) -> dict[str, object]:
    """One contender in a process of its own."""
    python = python_of(contender, options.environments.absolute())
    port = free_port()
    variables = variables_of(contender, python, newest("imdb", bundles))
    variables |= {"READTRACE_LOG_LEVEL": "error", **settings}
    command = ["taskset", "-c", "0", *contender.command(python, bundles, port)]
    with served(command, port, contender.ready, bundles / f"{contender.name}.log", variables):
        return uvloop.run(measure(contender, port, texts(options.root), options.seconds))


def trials() -> Iterator[tuple[str, Contender, Mapping[str, str]]]:
    """What is measured: Readtrace also with its longest wait set for an even latency."""
    for contender in CONTENDERS:
        yield contender.name, contender, {}
        if contender.requirement is None:
            seconds = f"{SHORT_WAIT_SECONDS:g}"
            yield f"{contender.name}, wait ≤ {seconds} s", contender, {"READTRACE_MAX_WAIT_SECONDS": seconds}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="folder that holds data/")
    parser.add_argument("--environments", type=Path, default=Path("runs/peers"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", help="the contender whose name begins so")
    parser.add_argument("--json", type=Path, default=HERE / "overload.json")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    found: dict[str, dict[str, object]] = {}
    for name, contender, settings in trials():
        if name.startswith(options.only or ""):
            with tempfile.TemporaryDirectory() as temporary:
                shutil.copytree("bundles/imdb", Path(temporary) / "imdb")
                found[name] = run(options, contender, Path(temporary), settings)
                print(name, found[name], flush=True)
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_name(),
        "cpus": 2,
        "command": "python -m benchmarks.reliability.overload --root DATA",
        "seconds": options.seconds,
        "deadline_seconds": DEADLINE_SECONDS,
        "times": TIMES,
        "model": described(newest("imdb")),
        "found": found,
    }
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json.parent == HERE:
        write_page()


if __name__ == "__main__":
    main()
