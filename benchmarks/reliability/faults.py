"""The same faults for Readtrace and its peers: `python -m benchmarks.reliability.faults`.

Every contender serves the same bundle with batches of at most 64 texts, one text a request. After each fault a good
request is asked: where that gets no answer the service is hung, or died, and is started anew for the next fault.
Environments of the peers are made under `runs/peers/`. Writes `faults.json` and `RESULTS.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from app.machine import cpu_name
from benchmarks.reliability.contenders import CONTENDERS, Contender, python_of, variables_of
from benchmarks.reliability.process import Served, free_port, served
from benchmarks.reliability.results import HERE, write_page
from benchmarks.reliability.traffic import GOOD
from tests.app.tiny import FATAL, VOID, write_fragile

_PATIENCE_SECONDS = 20
_MEBIBYTE = b" " * 2**20
_LONG = "good bad film " * 1500


Outcome = httpx.Response | httpx.TransportError


@dataclass
class Trial:
    """One contender at one fault."""

    contender: Contender
    server: Served

    def client(self) -> httpx.AsyncClient:
        """A client with all the connections it wants."""
        return httpx.AsyncClient(
            base_url=self.server.url,
            timeout=_PATIENCE_SECONDS,
            limits=httpx.Limits(max_connections=None),
            verify=False,
        )

    async def ask(self, client: httpx.AsyncClient, text: str) -> Outcome:
        """The answer, or why there is none."""
        try:
            return await client.post(self.contender.path, json=self.contender.body(text))
        except httpx.TransportError as error:
            return error

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection for what no client library sends."""
        return await asyncio.open_connection("127.0.0.1", self.server.port)

    def head(self, *headers: str) -> bytes:
        """The head of a request by hand."""
        lines = [
            f"POST {self.contender.path} HTTP/1.1",
            "host: x",
            "content-type: application/json",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode()


Fault = Callable[[Trial], Coroutine[None, None, str]]


async def _beside(trial: Trial, word: str) -> str:
    async with trial.client() as client:
        texts = [*GOOD[:31], f"a {word} film", *GOOD[31:]]
        answers = await asyncio.gather(*(trial.ask(client, text) for text in texts))
    bad = answers.pop(31)
    good = sum(map(_is_good, answers))
    return f"{good} of 63 others answered; the document itself: {_told(bad)}"


async def raising(trial: Trial) -> str:
    """A document on which the graph raises, among 63 good ones at once."""
    return await _beside(trial, FATAL)


async def not_a_number(trial: Trial) -> str:
    """A document that gives NaN, among 63 good ones at once."""
    return await _beside(trial, VOID)


async def broken_json(trial: Trial) -> str:
    """A body that is no JSON."""
    return await _content(trial, b'{"input": "good')


async def broken_utf8(trial: Trial) -> str:
    """A body that is no UTF-8."""
    body = json.dumps(trial.contender.body("good MARK")).encode().replace(b"MARK", b"\xff\xfe")
    return await _content(trial, body)


async def empty_text(trial: Trial) -> str:
    """A text without a word, among 63 good ones at once."""
    async with trial.client() as client:
        answers = await asyncio.gather(*(trial.ask(client, text) for text in ["", *GOOD]))
    good = sum(map(_is_good, answers[1:]))
    return f"{good} of 63 others answered; the text itself: {_told(answers[0])}"


async def endless_body(trial: Trial) -> str:
    """A chunked body that does not end, up to 128 MiB."""
    before = trial.server.usage().rss_mib
    most, sent = before, 0
    reader, writer = await trial.connect()
    answer = asyncio.create_task(reader.read(100))
    writer.write(trial.head("transfer-encoding: chunked"))
    with suppress(ConnectionError, TimeoutError):
        while sent < 128 and not answer.done():
            sent += 1
            writer.write(b"%x\r\n%b\r\n" % (len(_MEBIBYTE), _MEBIBYTE))
            await asyncio.wait_for(writer.drain(), _PATIENCE_SECONDS)
            most = max(most, trial.server.usage().rss_mib)
    await asyncio.wait([answer], timeout=1)
    told = "no answer"
    if answer.done():
        with suppress(ConnectionError):
            told = (answer.result().split() or [b"", b"closed"])[1].decode()
    answer.cancel()
    writer.transport.abort()
    return f"{told} after {sent} MiB; memory grew by {most - before:.0f} MiB"


async def slow_head(trial: Trial) -> str:
    """A client that sends a byte of its head each half second, for 20 seconds."""
    _, writer = await trial.connect()
    started = time.monotonic()
    with suppress(ConnectionError):
        for byte in trial.head("x: " + "y" * 1000):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.5)
            if writer.is_closing() or time.monotonic() - started > _PATIENCE_SECONDS:
                break
    seconds = time.monotonic() - started
    writer.transport.abort()
    return (
        "connection held as long as it drips"
        if seconds > _PATIENCE_SECONDS
        else f"closed after {seconds:.0f} s"
    )


async def vanishing(trial: Trial) -> str:
    """Thirty clients that leave at once after asking, beside 30 that stay."""
    body = json.dumps(trial.contender.body(_LONG)).encode()
    leaving = [await trial.connect() for _ in range(30)]
    async with trial.client() as client:
        staying = [asyncio.create_task(trial.ask(client, _LONG)) for _ in range(30)]
        for _, writer in leaving:
            writer.write(trial.head(f"content-length: {len(body)}") + body)
        await asyncio.sleep(0.05)
        for _, writer in leaving:
            writer.transport.abort()
        answers = await asyncio.gather(*staying)
    return f"{sum(map(_is_good, answers))} of 30 that stayed answered"


async def sigterm(trial: Trial) -> str:
    """SIGTERM when the first of 60 requests is answered."""
    async with trial.client() as client:
        asked = [asyncio.create_task(trial.ask(client, _LONG)) for _ in range(60)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        started = time.monotonic()
        trial.server.signal(signal.SIGTERM)
        answers = await asyncio.gather(*asked)
    counts = Counter(_told(answer) for answer in answers)
    code = None
    while code is None and time.monotonic() - started < _PATIENCE_SECONDS:
        code = trial.server.process.poll()
        await asyncio.sleep(0.05)
    told = ", ".join(f"{count} {what}" for what, count in counts.most_common())
    ended = f"ended with {code}" if code is not None else "did not end"
    return f"{told}; {ended} after {time.monotonic() - started:.1f} s"


FAULTS: tuple[Fault, ...] = (
    raising,
    not_a_number,
    empty_text,
    broken_json,
    broken_utf8,
    endless_body,
    slow_head,
    vanishing,
    sigterm,
)


async def _content(trial: Trial, body: bytes) -> str:
    async with trial.client() as client:
        headers = {"content-type": "application/json"}
        try:
            return _told(await client.post(trial.contender.path, content=body, headers=headers))
        except httpx.TransportError as error:
            return _told(error)


def _is_good(answer: Outcome) -> bool:
    return isinstance(answer, httpx.Response) and answer.status_code == 200


def _told(answer: Outcome) -> str:
    if isinstance(answer, httpx.TimeoutException):
        return f"no answer in {_PATIENCE_SECONDS} s"
    if isinstance(answer, httpx.TransportError):
        return "connection broken"
    if answer.status_code != 200:
        return str(answer.status_code)
    return "200 with NaN" if "nan" in answer.text.lower() else "200"


async def _afterwards(trial: Trial) -> str:
    """Whether a good request is answered: `fine`, `hung` or `died`, and what the health check says of that."""
    if not trial.server.alive:
        return "died"
    async with trial.client() as client:
        answer = await trial.ask(client, "good film")
        if _is_good(answer):
            return "fine"
        with suppress(httpx.TransportError):
            health = (await client.get(trial.contender.health)).status_code
            return f"hung ({_told(answer)}), health says {health}"
    return "hung, health too"


def run(contender: Contender, bundles: Path, environments: Path, logs: Path) -> dict[str, dict[str, str]]:
    """All faults for one contender."""
    python = python_of(contender, environments)
    told: dict[str, dict[str, str]] = {}
    left = list(FAULTS)
    variables = variables_of(contender, python, bundles / "fragile" / "1")
    while left:
        port = free_port()
        log = logs / f"{contender.name}.log"
        with served(
            contender.command(python, bundles, port), port, contender.ready, log, variables
        ) as server:
            trial = Trial(contender, server)
            while left:
                fault = left.pop(0)
                what = asyncio.run(fault(trial))
                after = "-" if fault is sigterm else asyncio.run(_afterwards(trial))
                told[fault.__name__] = {"what": what, "after": after}
                print(f"{contender.name}: {fault.__name__}: {what}; afterwards {after}", flush=True)
                if after not in ("fine", "-"):
                    break
    return told


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=Path, default=Path("runs/peers"))
    parser.add_argument("--only", help="the contender whose name begins so")
    parser.add_argument("--json", type=Path, default=HERE / "faults.json")
    options = parser.parse_args()
    chosen = [one for one in CONTENDERS if one.name.startswith(options.only or "")]
    with tempfile.TemporaryDirectory() as temporary:
        write_fragile(Path(temporary))
        found = {
            one.name: run(one, Path(temporary), options.environments.absolute(), Path(temporary))
            for one in chosen
        }
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "command": "python -m benchmarks.reliability.faults",
        "faults": {fault.__name__: fault.__doc__ for fault in FAULTS},
        "found": found,
    }
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.json.parent == HERE:
        write_page()


if __name__ == "__main__":
    main()
