"""Events while a document is read, parts of documents and of answers, over a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.keys import make_key, write_keys
from tests.service import Server, running_server
from tests.wire import connect

LONG = "good bad film " * 7000
Event = tuple[str, dict[str, Any]]


def parse(lines: Iterator[str]) -> Iterator[Event]:
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        if field == "data":
            yield name, json.loads(value)


def events(client: httpx.Client, text: object, **fields: object) -> list[Event]:
    with client.stream("POST", "/classify/stream", json={"input": text, **fields}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        return list(parse(response.iter_lines()))


def metric(client: httpx.Client, series: str) -> float:
    found = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{series} ")]
    return float(found[0].rpartition(" ")[2])


def wait_for(client: httpx.Client, series: str, value: float) -> None:
    ends = time.monotonic() + 20
    while metric(client, series) != value:
        assert time.monotonic() < ends, client.get("/metrics").text
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["reviews", "topics"])
@pytest.mark.parametrize("words", [1, 3, 16, 41])
def test_events_are_the_answer_in_parts(client: httpx.Client, name: str, words: int) -> None:
    text = " ".join(("good bad film dull " * 11).split()[:words])
    whole = client.post("/classify", json={"input": text, "model": name}).json()
    *steps, (last, answer) = events(client, text, model=name)
    assert last == "answer"
    assert {event for event, _ in steps} == {"steps"}
    told: dict[str, list[Any]] = {}
    for _, part in steps:
        assert part.pop("first") == len(told.get("tokens", []))
        assert part.pop("causal") == (name == "reviews")
        for field, values in part.items():
            told.setdefault(field, []).extend(values)
    (document,) = answer["data"]
    (expected,) = whole["data"]
    expected_steps = expected.pop("steps")
    expected_steps.pop("causal")
    assert told == expected_steps
    assert ("state" in document) == (name == "reviews")
    document.pop("state", None)
    assert document == expected
    assert answer["usage"] == whole["usage"]
    assert answer["model"] == whole["model"]


def test_long_document_is_told_segment_by_segment(client: httpx.Client) -> None:
    steps = [part for event, part in events(client, "bad " * 41, model="topics") if event == "steps"]
    assert [len(part["tokens"]) for part in steps] == [16, 16, 9]
    steps = [part for event, part in events(client, "bad " * 31, model="reviews") if event == "steps"]
    assert [len(part["tokens"]) for part in steps] == [16, 8, 4, 3]  # so that the tail is short


@pytest.mark.parametrize(
    ("fields", "status", "slug"),
    [
        ({"input": " "}, 422, "empty-document"),
        ({"input": ["good"]}, 422, "invalid-request"),
        ({"input": "good", "model": "none"}, 404, "unknown-model"),
        ({"input": "good", "state": "none"}, 422, "invalid-state"),
    ],
)
def test_what_fails_before_the_first_event_has_its_status(
    client: httpx.Client, fields: dict[str, object], status: int, slug: str
) -> None:
    response = client.post("/classify/stream", json=fields)
    assert (response.status_code, response.json()["type"]) == (status, f"/problems/{slug}")
    assert response.headers["content-type"] == "application/problem+json"


def test_client_that_vanishes_ends_the_reading(server: Server, client: httpx.Client) -> None:
    gone = metric(client, "readtrace_disconnects_total")
    dropped = 'readtrace_dropped_documents_total{reason="left",stage="border"}'
    left = metric(client, dropped)
    body = json.dumps({"input": LONG, "model": "reviews"}).encode()
    head = f"POST /classify/stream HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with closing(connect(server)) as connection:
        connection.sendall(head.encode() + body)
        assert b"event: steps" in read_until(connection, b"event: steps")
    wait_for(client, "readtrace_disconnects_total", gone + 1)
    wait_for(client, dropped, left + 1)
    wait_for(client, "readtrace_open_streams", 0)
    wait_for(client, "readtrace_queue_tokens", 0)


def read_until(connection: Any, end: bytes) -> bytes:
    received = b""
    while end not in received and (piece := connection.recv(65_536)):
        received += piece
    return received


def slowly_enough(attempt: Any) -> Any:
    """Try deadlines until one falls into the reading, on a machine of any speed."""
    for deadline_ms in (40, 60, 90, 130, 200, 300, 450, 700, 1000, 1500, 2200):
        if (found := attempt(deadline_ms)) is not None:
            return found
    raise AssertionError("no deadline fell into the reading")


def test_deadline_within_the_reading_is_the_last_event(client: httpx.Client) -> None:
    def attempt(deadline_ms: int) -> list[Event] | None:
        body = {"input": LONG, "model": "reviews", "deadline_ms": deadline_ms}
        with client.stream("POST", "/classify/stream", json=body) as response:
            if response.status_code != 200:
                return None  # nothing was read by then
            told = list(parse(response.iter_lines()))
        return told if told[-1][0] == "error" else None

    *steps, (_, problem) = slowly_enough(attempt)
    assert (problem["type"], problem["status"]) == ("/problems/deadline-exceeded", 504)
    assert 0 < sum(len(part["tokens"]) for _, part in steps) < 21_000


def test_partial_answer_at_the_deadline(client: httpx.Client) -> None:
    def attempt(deadline_ms: int) -> dict[str, Any] | None:
        asked = {"input": LONG, "model": "reviews", "deadline_ms": deadline_ms, "partial": True}
        response = client.post("/classify", json=asked)
        if response.status_code == 504:
            return None  # nothing was read by then
        answer: dict[str, Any] = response.json()
        return answer if "partial" in answer["data"][0] else None

    answer = slowly_enough(attempt)
    (document,) = answer["data"]
    read = len(document["steps"]["tokens"])
    assert document["partial"] == {"read": read / 21_000, "offset": document["steps"]["offsets"][-1][1]}
    assert document["probs"] == document["steps"]["probs"][-1]
    assert answer["usage"]["total_tokens"] == read
    whole = client.post("/classify", json={"input": LONG, "model": "reviews"}).json()["data"][0]
    assert document["probs"] == whole["steps"]["probs"][read - 1]
    assert "partial" not in whole


def test_conversation_pays_for_new_words_only(client: httpx.Client) -> None:
    parts = ["A good film !", "It was not bad ,", "dull " * 20, "the end ."]
    continued = metric(client, 'readtrace_continued_documents_total{model="reviews"}')
    state = None
    for number, part in enumerate(parts):
        fields = {"state": state} if state else {"model": "reviews"}
        if number % 2:
            _, answer = events(client, part, **fields)[-1]
        else:
            asked = {"input": part, "return_state": True, **fields}
            answer = client.post("/classify", json=asked).raise_for_status().json()
        whole = client.post(
            "/classify", json={"input": " ".join(parts[: number + 1]), "model": "reviews"}
        ).json()
        (document,) = answer["data"]
        assert document["probs"] == whole["data"][0]["probs"]
        assert answer["usage"]["total_tokens"] == len(part.split())
        state = document["state"]
    assert metric(client, 'readtrace_continued_documents_total{model="reviews"}') == continued + 3


def test_state_is_absent_where_it_is_not_asked_for_or_cannot_be(client: httpx.Client) -> None:
    for fields in ({"model": "reviews"}, {"model": "topics", "return_state": True}):
        answer = client.post("/classify", json={"input": "good", **fields}).json()
        assert "state" not in answer["data"][0]
    models = {one["name"]: one["continues"] for one in client.get("/v1/models").json()["data"]}
    assert models == {"reviews": True, "topics": False}


def test_states_of_others_are_refused_and_counted(client: httpx.Client) -> None:
    series = 'readtrace_refused_states_total{reason="other-model-state"}'
    before = metric(client, series)
    asked = {"input": "good", "model": "reviews", "return_state": True}
    state = client.post("/classify", json=asked).json()["data"][0]["state"]
    response = client.post("/classify", json={"input": "bad", "model": "topics", "state": state})
    assert (response.status_code, response.json()["type"]) == (422, "/problems/other-model-state")
    assert metric(client, series) == before + 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"input": ["good", "bad"]}, "input"), ({"input": "good", "truncate": "left"}, "truncate")],
)
def test_state_is_of_one_document_without_gaps(
    client: httpx.Client, fields: dict[str, object], field: str
) -> None:
    response = client.post("/classify", json={**fields, "state": "any"})
    assert response.json()["type"] == "/problems/invalid-request"
    assert f"'{field}'" in response.json()["detail"]


def test_keys_quotas_expiry_and_a_lasting_key(bundles: Path, tmp_path: Path) -> None:
    secret, key = make_key("shop", ("classify",), 60)
    write_keys(tmp_path / "keys.json", [key])
    (tmp_path / "state").write_bytes(b"s" * 32)
    serving = running_server(
        bundles,
        keys=str(tmp_path / "keys.json"),
        state_key=str(tmp_path / "state"),
        state_lifetime_seconds="3",
    )
    with serving as server, server.client() as client:
        assert client.post("/classify/stream", json={"input": "good"}).status_code == 401
        client.headers["authorization"] = f"Bearer {secret}"
        _, answer = events(client, "good film", model="reviews")[-1]
        state = answer["data"][0]["state"]
        charged = metric(client, 'readtrace_quota_tokens_total{key="shop"}')
        assert charged == 2
        assert events(client, "bad", state=state)[-1][0] == "answer"
        assert metric(client, 'readtrace_quota_tokens_total{key="shop"}') == charged + 1
        time.sleep(3)
        late = client.post("/classify", json={"input": "bad", "state": state})
        assert (late.status_code, late.json()["type"]) == (422, "/problems/expired-state")
        events(client, "bad " * 90, model="topics")
        over = client.post("/classify/stream", json={"input": "good"})
        assert (over.status_code, over.json()["type"]) == (429, "/problems/quota-exceeded")
