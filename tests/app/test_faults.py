"""Over TCP, from a real server: what fails fails alone, what overloads is refused, and afterwards all is as before."""

from __future__ import annotations

import json
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.manifest import TOKENIZER
from app.text.tokens import load_tokenizer, tokenize
from benchmarks.shipped import newest
from tests.app.test_lifecycle import metric, reload, until
from tests.app.tiny import FATAL, VOID, write_all, write_fragile
from tests.service import Server, running_server
from tests.wire import connect, post

GOOD = [f"good film {'bad ' * (number % 20)}end" for number in range(63)]
CALLERS = 40
ODD_TEXTS = (
    "שלום good עולם, مرحبا film",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 good \U0001f1e9\U0001f1ea film \u2764\ufe0f",
    "\u202egood\u202c film e\u0301 İstanbul ß",
)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose only model cannot read two of its words."""
    root = tmp_path_factory.mktemp("fragile")
    write_fragile(root)
    with running_server(root) as server:
        yield server


def alone(client: httpx.Client) -> list[list[float]]:
    """What the good documents are answered when nothing else is asked."""
    answers = (client.post("/classify", json={"input": text, "explain": "none"}) for text in GOOD)
    return [answer.json()["data"][0]["probs"] for answer in answers]


@pytest.mark.parametrize(("word", "slug"), [(FATAL, "reading-failed"), (VOID, "not-a-number")])
@pytest.mark.parametrize("place", [0, 40, 63])
def test_poison_in_a_request_fails_alone(fragile: Server, word: str, slug: str, place: int) -> None:
    texts = [*GOOD[:place], f"a {word} film", *GOOD[place:]]
    with fragile.client() as client:
        response = client.post("/classify", json={"input": texts, "explain": "none"})
        assert response.status_code == 200
        data = response.json()["data"]
        assert data[place]["error"]["type"] == f"/problems/{slug}"
        assert word not in data[place]["error"]["detail"]
        assert [one["probs"] for one in data[:place] + data[place + 1 :]] == alone(client)


@pytest.mark.parametrize(("word", "slug"), [(FATAL, "reading-failed"), (VOID, "not-a-number")])
def test_poison_of_one_client_fails_no_other(fragile: Server, word: str, slug: str) -> None:
    texts = [*GOOD[:31], f"a {word} film", *GOOD[31:]]
    with fragile.client() as client, ThreadPoolExecutor(len(texts)) as callers:
        expected = alone(client)
        fields = {"explain": "none", "model": "fragile"}
        answers = list(
            callers.map(lambda text: client.post("/classify", json={"input": text, **fields}), texts)
        )
    failed = answers.pop(31)
    assert (failed.status_code, failed.json()["type"]) == (500, f"/problems/{slug}")
    assert [answer.json()["data"][0]["probs"] for answer in answers] == expected


def test_clients_that_vanish_take_nobody_with_them(server: Server) -> None:
    """Long documents of clients that leave share their runs with those of clients that stay."""
    patient = {"deadline_ms": 120_000, "explain": "none"}  # a busy machine is no reason for a refusal here
    long = json.dumps({"input": ["good bad film " * 3000] * 4, **patient}).encode()
    with server.client() as client, ThreadPoolExecutor(4) as callers:
        stayed = [callers.submit(client.post, "/classify", content=long, timeout=120) for _ in range(4)]
        leaving = [connect(server) for _ in range(8)]
        for connection in leaving:
            connection.sendall(post(long))
        until(lambda: metric(client, "queue_documents") > 16)
        before = metric(client, "disconnects_total")
        for connection in leaving:
            connection.close()
        answers = [one.result(120) for one in stayed]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len({json.dumps(answer.json()["data"]) for answer in answers}) == 1
        until(lambda: metric(client, "queue_documents") == 0)
        assert metric(client, "disconnects_total") > before


def test_overload_is_refused_and_over_when_it_ends(bundles: Path) -> None:
    """Ten times the work that fits into the deadline, by clients that heed no ``Retry-After``."""
    body: dict[str, object] = {"input": ["good bad film , " * 10] * 64, "model": "reviews", "explain": "none"}
    with running_server(bundles) as server, server.client() as client:
        took = min(timed(client, body) for _ in range(3))
        deadline_ms = round(1000 * max(0.5, 8 * took))
        statuses: Counter[int] = Counter()
        end = time.monotonic() + 3

        def ask_on(_: int) -> None:
            while time.monotonic() < end:
                answer = client.post("/classify", json=body | {"deadline_ms": deadline_ms})
                statuses[answer.status_code] += 1
                assert answer.status_code != 503 or int(answer.headers["retry-after"]) >= 1

        with ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(ask_on, range(CALLERS)))
        assert set(statuses) <= {200, 503, 504}
        assert statuses[200] > 0
        assert statuses[503] > 0
        until(lambda: metric(client, "queue_documents") == 0, deadline_ms / 1000 + 1)
        answer = client.post("/classify", json={"input": "good film", "deadline_ms": deadline_ms})
        assert answer.status_code == 200


def timed(client: httpx.Client, body: dict[str, object]) -> float:
    started = time.monotonic()
    assert client.post("/classify", json=body).status_code == 200
    return time.monotonic() - started


def test_service_that_can_write_no_file_serves_and_reloads(tmp_path: Path) -> None:
    """As on a full disk or a read-only file system: no file may grow by a byte."""
    root = write_all(tmp_path)
    with no_file_can_be_written(), running_server(root) as server, server.client() as client:
        assert client.post("/classify", json={"input": "good film"}).status_code == 200
        reload(server, client)
        for path in ("/", "/docs", "/v1/models", "/health/ready"):
            assert client.get(path).status_code == 200, path
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0


@contextmanager
def no_file_can_be_written() -> Iterator[None]:
    """For the processes that are started meanwhile; pipes and sockets are no files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["ag-news", "imdb", "sst2"])
def test_offsets_of_shipped_tokenizers_slice_the_callers_own_text(name: str) -> None:
    tokenizer = load_tokenizer((newest(name) / TOKENIZER).read_bytes())
    for text in ODD_TEXTS:
        cut = tokenize(tokenizer, text, 1000, "error")
        starts, ends = cut.offsets[:, 0], cut.offsets[:, 1]
        assert "".join(cut.tokens).replace(" ", "") in text.replace(" ", "")
        assert all(starts < ends)
        assert all(starts[1:] >= ends[:-1])
        assert {"good", "film"} <= set(cut.tokens)
