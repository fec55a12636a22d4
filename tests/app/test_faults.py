"""Over TCP, from a real server: what fails fails alone, what overloads is refused, and afterwards all is as before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.app.test_lifecycle import metric, until
from tests.app.tiny import FATAL, VOID, write_fragile
from tests.service import Server, running_server
from tests.wire import connect, post

GOOD = [f"good film {'bad ' * (number % 20)}end" for number in range(63)]


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
    long = json.dumps({"input": ["good bad film " * 3000] * 4, "explain": "none"}).encode()
    with server.client() as client, ThreadPoolExecutor(4) as callers:
        stayed = [callers.submit(client.post, "/classify", content=long) for _ in range(4)]
        leaving = [connect(server) for _ in range(8)]
        for connection in leaving:
            connection.sendall(post(long))
        until(lambda: metric(client, "queue_documents") > 16)
        before = metric(client, "disconnects_total")
        for connection in leaving:
            connection.close()
        answers = [one.result(60) for one in stayed]
        assert [answer.status_code for answer in answers] == [200] * 4
        assert len({json.dumps(answer.json()["data"]) for answer in answers}) == 1
        until(lambda: metric(client, "queue_documents") == 0)
        assert metric(client, "disconnects_total") > before
