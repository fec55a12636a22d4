"""Over TCP: whatever comes is answered or refused, its text is told to nobody, and the next caller is served."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.app.conftest import Classify
from tests.service import Server
from tests.wire import connect, post, send

MARKER = "zanzibar"
ROUTES = (
    "/classify",
    "/classify/stream",
    "/predict",
    "/",
    "/models/reviews",
    "/v1/moderations",
    "/v2/models/reviews/infer",
)


def bodies() -> Iterator[bytes]:
    """Bodies with the marker in them that fail, or are answered, in many places."""
    mark = MARKER.encode()
    yield from (mark, b'{"input": "' + mark, b'{"input": "' + mark + b'\xff"}', b'["' + mark + b'"]')
    yield from (b'{"input": "\\ud83d' + mark + b'"}', b'{"x": "' + mark + b'", "input": "a", "inputs": "a"}')
    yield from (b'"' + mark + b'"', b'[["' + mark + b'"]]', b'{"' + mark + b' is secret": 1, "input": "a"}')
    for field in (
        "explain",
        "top_k",
        "state",
        "truncate",
        "deadline_ms",
        "parameters",
        "truncation_direction",
    ):
        for wrong in (MARKER, [MARKER], {"top_k": MARKER}):
            yield json.dumps({"input": "a", "inputs": "a", field: wrong}).encode()
            yield json.dumps({"input": "a", field: wrong}).encode()
            yield json.dumps({"inputs": "a", field: wrong}).encode()
    tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": MARKER}}
    yield json.dumps({"inputs": [tensor]}).encode()
    for name in ("input", "inputs"):
        for value in (
            MARKER,
            [MARKER, ""],
            [""],
            [MARKER, 5],
            {MARKER: MARKER},
            [[MARKER, MARKER]],
            [{"type": MARKER, "text": MARKER}],
            [{"type": "text", "text": MARKER, "x": MARKER}],
            [{"name": "text", "shape": [2], "datatype": "BYTES", "data": [MARKER]}],
            [{"name": MARKER, "shape": [1], "datatype": MARKER, "data": {MARKER: 1}}],
            f"{MARKER} " * 40_000,
            [MARKER] * 300,
            f"{MARKER}\0",
        ):
            yield json.dumps({name: value}).encode()
            yield json.dumps({name: value, "model": "nobody"}).encode()
            yield json.dumps(
                {name: value, "deadline_ms": 1, "truncate": "right", "raw_scores": True}
            ).encode()


def test_text_is_in_no_log_no_metric_and_no_error(moderating: Server) -> None:
    statuses = set()
    with moderating.client() as client:
        for route in ROUTES:
            for body in bodies():
                response = client.post(route, content=body)
                statuses.add(response.status_code)
                assert response.status_code < 500 or response.status_code == 504, (
                    route,
                    body[:80],
                    response.text,
                )
                if response.status_code != 200:
                    assert MARKER not in response.text, (route, body[:80], response.text)
        assert MARKER not in client.get("/metrics").text
        assert statuses >= {200, 404, 422}
    assert MARKER not in "".join(moderating.log)


@pytest.mark.parametrize("text", ["", " \n\t", "\u00a0\u2003"])
def test_text_without_words_is_refused(classify: Classify, text: str) -> None:
    response = classify(text)
    assert response.status_code == 422
    assert response.json()["type"] == "/problems/empty-document"


@pytest.mark.parametrize(
    "text",
    [
        "good\0film \0 bad",
        "שלום good עולם, مرحبا film",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 good \U0001f1e9\U0001f1ea film \u2764\ufe0f",
        "e\u0301 good \u202egood\u202c ﬁlm İstanbul ß film",
        "\ufeffgood " + "\u0301" * 500,
    ],
)
def test_offsets_slice_the_callers_own_text(classify: Classify, text: str) -> None:
    steps = classify(text).json()["data"][0]["steps"]
    assert [text[start:end] for start, end in steps["offsets"]] == steps["tokens"]
    ends = [end for _, end in steps["offsets"]]
    assert ends == sorted(ends)
    assert {"good", "film"} & set(steps["tokens"])


def test_hundred_thousand_words_are_refused_or_cut(classify: Classify) -> None:
    text = "good " * 100_000
    assert "more than 32768 tokens" in classify(text).json()["detail"]
    found = classify(text, truncate="left", explain="none").json()
    assert found["usage"]["total_tokens"] == 32_768
    assert found["data"][0]["truncated"] is True


def test_deeply_nested_json_is_refused(client: httpx.Client) -> None:
    for body in (
        b"[" * 100_000,
        b'{"input":' * 100_000,
        b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ):
        assert client.post("/classify", content=body).status_code == 422


@pytest.mark.parametrize("number", [b"1e999", b"-0", b"NaN", b"9" * 5000, b"1.5"])
def test_odd_numbers_are_refused(client: httpx.Client, number: bytes) -> None:
    response = client.post("/classify", content=b'{"input": "a", "deadline_ms": %b}' % number)
    assert response.status_code == 422


def test_clients_that_vanish_leave_nothing_behind(server: Server, client: httpx.Client) -> None:
    body = json.dumps({"input": ["good bad " * 4000] * 4}).encode()
    for part in (0.3, 0.9, 1.0):  # in the head, in the body, while queued or read
        request = post(body)
        for _ in range(4):
            with closing(connect(server)) as connection:
                connection.sendall(request[: 30 if part < 0.5 else int(len(request) * part)])
    deadline = time.monotonic() + 20
    gauges = (
        "readtrace_queue_documents 0.0",
        "readtrace_queue_tokens 0.0",
        "readtrace_in_flight_requests 1.0",
    )
    while not all(gauge in client.get("/metrics").text for gauge in gauges):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert send(server, post(b'{"input": "good"}')).status == 200
