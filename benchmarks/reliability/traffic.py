"""The clients of the soak: each asks until the time is over, and notes what became of its requests."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from benchmarks.reliability.ledger import Ledger, refusal
from tests.app.tiny import FATAL, VOID

PATIENCE_SECONDS = 60  # twice the service's own limit: who waits longer was forgotten
GOOD = [f"good film {'bad ' * (number % 20)}end" for number in range(63)]
_BURST_CLIENTS, _BURST_DOCUMENTS = 40, 16
_BROKEN: tuple[tuple[bytes, tuple[int, ...]], ...] = (
    (b'{"input": "good', (422,)),
    (b'{"input": "good \xff\xfe"}', (422,)),
    (b'{"input": "\\ud83d"}', (422,)),
    (b'{"input": ""}', (422,)),
    (b'{"input": ["", " "]}', (422,)),
    (b'{"input": "a", "model": "nobody"}', (404,)),
    (b'{"input": "a", "deadline_ms": NaN}', (422,)),
    (b"[" * 100_000, (422,)),
    (json.dumps({"input": ["a"] * 300}).encode(), (413,)),
    (json.dumps({"input": "word " * 100_000}).encode(), (422,)),
    (b" " * (9 * 2**20), (413,)),
)
_EVIL = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /classify HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /classify HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000,
)


@dataclass
class Traffic:
    """Shared by all clients of a run."""

    url: str
    ledger: Ledger
    end: float  # by time.monotonic
    documents: Sequence[str]
    models: Sequence[str]
    seen: dict[tuple[str, str], object] = field(default_factory=dict)  # first answer, by model and text

    @property
    def over(self) -> bool:
        """Whether no further request is made."""
        return time.monotonic() >= self.end

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def same_as_before(self, model: str, texts: Sequence[str], data: Sequence[dict[str, object]]) -> bool:
        """Whether every text has the very numbers that it had the first time, in whatever company."""
        return len(texts) == len(data) and all(
            self.seen.setdefault((model, text), one.get("probs")) == one.get("probs") is not None
            for text, one in zip(texts, data, strict=True)
        )


Client = Callable[[Traffic, random.Random], Awaitable[None]]


async def steady(traffic: Traffic, dice: random.Random) -> None:
    """One to eight documents at a time, with a moment's thought, over one connection."""
    async with _client(traffic) as client:
        while not traffic.over:
            texts = dice.choices(traffic.documents, k=dice.choice((1, 1, 1, 1, 2, 8)))
            await _ask(traffic, client, "steady", dice.choice(traffic.models), texts, dice)
            await asyncio.sleep(dice.expovariate(20))


async def demanding(traffic: Traffic, dice: random.Random) -> None:
    """Explained answers of long texts, some with a deadline that is hard to keep."""
    async with _client(traffic) as client:
        while not traffic.over:
            texts = [" ".join(dice.choices(traffic.documents, k=50)) for _ in range(4)]
            fields = {"explain": "steps"} | ({"deadline_ms": 5} if dice.random() < 0.3 else {})
            await _ask(traffic, client, "demanding", dice.choice(traffic.models), texts, dice, **fields)
            await asyncio.sleep(dice.expovariate(2))


async def burst(traffic: Traffic, dice: random.Random) -> None:
    """Every 45 seconds, 10 seconds of forty clients that heed no `Retry-After`: more than can be kept by a deadline."""
    requests = [
        [" ".join(dice.choices(traffic.documents, k=4)) for _ in range(_BURST_DOCUMENTS)] for _ in range(20)
    ]
    async with _client(traffic) as client:

        async def ask_until(end: float, own: random.Random) -> None:
            while time.monotonic() < end:
                texts = own.choice(requests)
                await _ask(traffic, client, "burst", traffic.models[0], texts, own, deadline_ms=1000)
                await asyncio.sleep(0.02)

        while not traffic.over:
            await asyncio.sleep(min(35, max(1, (traffic.end - time.monotonic()) / 3)))
            end = min(traffic.end, time.monotonic() + 10)
            seeds = [dice.random() for _ in range(_BURST_CLIENTS)]
            await asyncio.gather(*(ask_until(end, random.Random(seed)) for seed in seeds))


async def poison(traffic: Traffic, dice: random.Random) -> None:
    """Sixty-three good documents and one that cannot be read: 63 answers and one problem."""
    async with _client(traffic) as client:
        while not traffic.over:
            place, word = dice.randrange(64), dice.choice((FATAL, VOID))
            texts = [*GOOD[:place], f"a {word} film", *GOOD[place:]]
            started = time.monotonic()
            try:
                response = await client.post(
                    "/classify", json={"input": texts, "model": "fragile", "explain": "none"}
                )
            except httpx.TransportError as error:
                traffic.ledger.note("poison", "lost", example=repr(error))
                continue
            if (outcome := refusal(response)) is None:
                data = response.json()["data"] if response.status_code == 200 else [{}] * 64
                wanted = "/problems/reading-failed" if word == FATAL else "/problems/not-a-number"
                problem = data.pop(place).get("error", {}).get("type")
                good = problem == wanted and traffic.same_as_before("fragile", GOOD, data)
                outcome = "answered" if good else "wrong"
            traffic.ledger.note("poison", outcome, time.monotonic() - started, f"{response.status_code}")
            await asyncio.sleep(dice.expovariate(1))


async def broken(traffic: Traffic, dice: random.Random) -> None:
    """Bodies that are wrong: each gets the problem that it deserves."""
    async with _client(traffic) as client:
        while not traffic.over:
            body, statuses = dice.choice(_BROKEN)
            try:
                response = await client.post("/classify", content=body)
            except httpx.WriteError:  # refused, and closed, before the body was sent
                traffic.ledger.note("broken", "problem")
                continue
            except httpx.TransportError as error:
                traffic.ledger.note("broken", "lost", example=f"{body[:40]!r}: {error!r}")
                continue
            right = response.status_code in statuses
            outcome = refusal(response) or ("problem" if right else "wrong")
            traffic.ledger.note("broken", outcome, example=f"{body[:40]!r}: {response.status_code}")
            await asyncio.sleep(dice.expovariate(2))


async def vanishing(traffic: Traffic, dice: random.Random) -> None:
    """Clients that leave: in the head, in the body, while long documents wait or are read, as one is answered."""
    long = [" ".join(dice.choices(traffic.documents, k=20)) for _ in range(8)]
    requests = []
    for texts in (long, traffic.documents[0]):
        body = json.dumps({"input": texts, "model": traffic.models[-1]}).encode()
        requests.append(
            b"POST /classify HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
    while not traffic.over:
        whole = dice.choice(requests)
        with suppress(ConnectionError):
            _, writer = await asyncio.open_connection(*traffic.address)
            writer.write(whole[: int(len(whole) * dice.choice((0.0001, 0.5, 1, 1, 1)))])
            await writer.drain()
            await asyncio.sleep(dice.random() * 0.05)
            if dice.random() < 0.5:
                writer.transport.abort()
            writer.close()
        traffic.ledger.note("vanishing", "left")
        await asyncio.sleep(dice.expovariate(4))


async def evil(traffic: Traffic, dice: random.Random) -> None:
    """What is no HTTP, and what drips byte by byte: told off, and the connection closed."""
    while not traffic.over:
        try:
            reader, writer = await asyncio.open_connection(*traffic.address)
            with suppress(ConnectionError):
                if dice.random() < 0.3:
                    await _drip(traffic, writer)
                else:
                    writer.write(dice.choice(_EVIL))
                    await writer.drain()
            answer = await asyncio.wait_for(reader.read(100), PATIENCE_SECONDS)
            told = answer.startswith(b"HTTP/1.1 4") or answer == b""
            traffic.ledger.note("evil", "problem" if told else "wrong", example=repr(answer[:40]))
            writer.close()
        except ConnectionError:
            traffic.ledger.note("evil", "problem")
        except TimeoutError:
            traffic.ledger.note("evil", "lost", example="the connection was not closed")
        await asyncio.sleep(dice.expovariate(1))


async def _drip(traffic: Traffic, writer: asyncio.StreamWriter) -> None:
    for byte in b"POST /classify HTTP/1.1\r\nx: " + b"y" * 1000:
        if traffic.over:
            with suppress(OSError):  # the server may have closed just now
                writer.write_eof()
            return
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.5)


async def _ask(
    traffic: Traffic,
    client: httpx.AsyncClient,
    kind: str,
    model: str,
    texts: list[str],
    dice: random.Random,
    **fields: object,
) -> None:
    body = {"input": texts, "model": model, "explain": dice.choice(("none", "summary"))} | fields
    started = time.monotonic()
    try:
        response = await client.post("/classify", json=body)
    except httpx.TransportError as error:
        traffic.ledger.note(kind, "lost", example=repr(error))
        return
    seconds = time.monotonic() - started
    outcome = refusal(response)
    example = f"{response.status_code} {response.text[:200]}"
    if outcome is None and response.status_code == 200:
        data = response.json()["data"]
        if any(one.get("error", {}).get("status") == 504 for one in data):
            outcome = "expired"
        else:
            outcome = "answered" if traffic.same_as_before(model, texts, data) else "wrong"
    traffic.ledger.note(kind, outcome or "wrong", seconds, example)


def _client(traffic: Traffic) -> httpx.AsyncClient:
    # A connection that was idle for as long as the server keeps it may be closed while the next request is on its way.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=2)
    return httpx.AsyncClient(base_url=traffic.url, timeout=PATIENCE_SECONDS, limits=limits, verify=False)
