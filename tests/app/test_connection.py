"""Over TCP: what is no HTTP, what never ends, and what comes or is taken too slowly."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.connection import BoundedConnection
from app.lag import LoopLag
from app.observability.metrics import Metrics
from app.settings import read_settings
from tests.service import Server, running_server
from tests.wire import RawAnswer, chunked, connect, post, read_to_end, send, write

MEBIBYTE = b" " * 2**20


@pytest.fixture(scope="module")
def hasty(bundles: Path) -> Iterator[Server]:
    """A server that waits for nobody."""
    with running_server(
        bundles,
        max_connections="20",
        head_timeout_seconds="0.3",
        body_timeout_seconds="0.3",
        write_timeout_seconds="0.3",
    ) as server:
        yield server


def assert_refused(answer: RawAnswer, status: int, slug: str) -> None:
    assert answer.status == status, answer
    assert "content-type: application/problem+json" in answer.head
    assert "x-content-type-options: nosniff" in answer.head
    assert json.loads(answer.body)["type"] == f"/problems/{slug}"


def metric(server: Server, name: str) -> float:
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


START = b"POST /classify HTTP/1.1\r\nhost: x\r\n"
CHUNKED = START + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        START + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        START + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        START + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        START + b"content-length: 5, 5\r\n\r\nhello",
        START + b"content-length: -5\r\n\r\nhello",
        START + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        START + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        START + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        START + b"x: y\r\n content-length: 5\r\n\r\nhello",
        START + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
        START.replace(b"\r", b"") + b"content-length: 5\n\nhello",
        CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_request_that_can_be_read_in_two_ways_is_refused(server: Server, request_bytes: bytes) -> None:
    smuggled = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = send(server, request_bytes + smuggled)
    assert_refused(answer, 400, "bad-http")
    assert b"HTTP/1.1 200" not in answer.body


def test_offer_of_another_protocol_is_passed_over_and_the_body_read(server: Server) -> None:
    offer = (
        "upgrade: h2c",
        "connection: upgrade, http2-settings",
        "http2-settings: AAMAAABkAARAAAAAAAIAAAAA",
    )
    request = post(b'{"input": "good"}', *offer).replace(b"connection: close\r\n", b"")
    with closing(connect(server)) as connection:
        for byte in range(0, len(request), 50):
            connection.sendall(request[byte : byte + 50])
        connection.sendall(b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = read_to_end(connection)
    assert answer.status == 200, answer
    assert b'"label"' in answer.body
    assert answer.body.endswith(b'{"status":"live"}')


@pytest.mark.parametrize(
    "pieces",
    [
        (START, *(b"x%d: %b\r\n" % (number, b"a" * 1000) for number in range(1000))),
        (b"GET /", b"a" * 1_000_000),
        (START + b"x: ", b"a" * 1_000_000),
        (CHUNKED, b"1;", b"a" * 1_000_000),
        (CHUNKED, b"0\r\n", *(b"x: %b\r\n" % (b"a" * 1000) for _ in range(1000))),
    ],
    ids=["headers", "path", "header", "extension", "trailers"],
)
def test_endless_head_is_refused(server: Server, pieces: tuple[bytes, ...]) -> None:
    assert_refused(send(server, *pieces), 431, "head-too-large")


@pytest.mark.parametrize("close", [b"connection: close\r\n", b""])
def test_declared_giant_is_refused_before_it_is_sent(server: Server, close: bytes) -> None:
    head = START + close + b"expect: 100-continue\r\ncontent-length: 100000000\r\n\r\n"
    answer = send(server, head)
    assert answer.status == 413
    assert b"at most 8388608 bytes" in answer.body


@pytest.mark.parametrize("close", [b"connection: close\r\n", b""])
def test_hundred_megabytes_are_not_read(server: Server, close: bytes) -> None:
    with closing(connect(server)) as connection:
        head = START + close + b"content-length: %d\r\n\r\n" % (100 * len(MEBIBYTE))
        write(connection, (head, *itertools.repeat(MEBIBYTE, 100)))
        answer = read_to_end(connection)
    assert answer.status == 413
    assert b"at most 8388608 bytes" in answer.body


def test_small_request_that_is_refused_early_keeps_its_connection(server: Server) -> None:
    with closing(connect(server)) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        refusal = b""
        while not refusal.endswith(b"}"):
            refusal += connection.recv(65_536)
        assert refusal.startswith(b"HTTP/1.1 404")
        connection.sendall(b" " * 1000 + b"GET /health/live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert read_to_end(connection).status == 200


def test_endless_body_is_cut_off(server: Server) -> None:
    with closing(connect(server)) as connection:
        started = time.monotonic()
        write(connection, chunked(itertools.repeat(MEBIBYTE)))
        assert time.monotonic() - started < 15
    assert metric(server, "readtrace_in_flight_requests") == 1  # the one that asks


def test_endless_body_where_none_belongs_is_cut_off(server: Server) -> None:
    pieces = chunked(itertools.repeat(MEBIBYTE))
    with closing(connect(server)) as connection:
        write(connection, (piece.replace(b"POST /classify", b"GET /health/live") for piece in pieces))
        answer = read_to_end(connection)
    assert answer.status in (0, 200)  # 0: the answer was lost to the client that never looked at it


def test_one_megabyte_is_an_ordinary_body(server: Server) -> None:
    body = json.dumps({"input": ["good film " * 100] * 100, "explain": "none"}).encode()
    answer = send(server, post(body + b" " * (2**20 - len(body))))
    assert answer.status == 200
    assert len(json.loads(answer.body)["data"]) == 100


@pytest.mark.parametrize(
    ("pieces", "slug"),
    [
        (
            itertools.chain([b"POST /classify HTTP/1.1\r\n"], itertools.repeat(b"x: y\r\n", 100)),
            "request-timeout",
        ),
        (itertools.repeat(b"\r\n", 100), "request-timeout"),
        (itertools.chain([post(b"", length=1000)], itertools.repeat(b"x", 100)), "request-timeout"),
        (chunked(itertools.repeat(b"x", 100)), "request-timeout"),
    ],
    ids=["head", "empty lines", "body", "chunks"],
)
def test_slow_loris_is_refused(hasty: Server, pieces: Iterator[bytes], slug: str) -> None:
    with closing(connect(hasty)) as connection:
        started = time.monotonic()
        for piece in pieces:
            if not write(connection, [piece]) or time.monotonic() - started > 0.6:
                break
            time.sleep(0.05)
        answer = read_to_end(connection)
    assert_refused(answer, 408, slug)


def test_silent_connection_is_closed(hasty: Server) -> None:
    assert_refused(send(hasty), 408, "request-timeout")


def test_connection_between_two_requests_has_longer(hasty: Server) -> None:
    with hasty.client() as client:
        assert client.get("/health/live").status_code == 200
        time.sleep(0.8)
        assert client.get("/health/live").status_code == 200


def test_client_that_takes_nothing_of_its_answer_is_left(hasty: Server) -> None:
    before = metric(hasty, 'readtrace_refused_connections_total{reason="stalled"}')
    request = post(json.dumps({"input": ["good bad film " * 10_000] * 3}).encode())
    with closing(connect(hasty)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request)
        deadline = time.monotonic() + 20
        while metric(hasty, 'readtrace_refused_connections_total{reason="stalled"}') == before:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("waiting", "left"), [((100_000, 99_000), True), ((100_000, 30_000), False), ((1000, 0), False)]
)
def test_client_that_drips_its_answer_is_left_and_a_slow_one_is_not(
    waiting: tuple[int, int], left: bool
) -> None:
    config = uvicorn.Config(Mock(), log_config=None)
    config.load()
    connection = BoundedConnection(
        config=config,
        server_state=ServerState(),
        app_state={},
        _loop=Mock(),
        settings=read_settings(),
        metrics=Metrics(),
        lag=LoopLag(),
    )
    connection.connection_made(Mock(asyncio.Transport))
    connection.transport = Mock()
    connection.transport.get_write_buffer_size.side_effect = waiting
    connection.pause_writing()
    seconds, check, waiting_bytes = connection.loop.call_later.call_args.args  # type: ignore[attr-defined]
    assert seconds == read_settings().write_timeout_seconds
    check(waiting_bytes)
    assert connection.transport.abort.called == left


def test_hundreds_of_offers_of_another_protocol_at_once_are_all_answered(server: Server) -> None:
    offer = b"GET /health/live HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\n"
    going_on, last = (b"connection: upgrade\r\n\r\n", b"connection: upgrade, close\r\n\r\n")
    with closing(connect(server)) as connection:
        connection.sendall((offer + going_on) * 700 + offer + last)
        answer = read_to_end(connection)
    assert answer.status == 200
    assert answer.body.count(b"HTTP/1.1 200") == 700


def test_connections_are_bounded_and_the_excess_is_told(hasty: Server) -> None:
    opened = [connect(hasty) for _ in range(40)]
    answers = [read_to_end(connection) for connection in opened]
    for connection in opened:
        connection.close()
    refused = [answer for answer in answers if answer.status == 503]
    assert len(refused) >= 20
    assert_refused(refused[0], 503, "too-many-connections")
    assert "retry-after: 1" in refused[0].head
    with hasty.client() as client:
        deadline = time.monotonic() + 10
        while client.get("/health/live").status_code != 200:
            assert time.monotonic() < deadline
    assert metric(hasty, "readtrace_open_connections") <= 20


def test_bodies_on_their_way_are_bounded_together(bundles: Path) -> None:
    large = post(json.dumps({"input": "good " * 100, "explain": "none"}).encode() + b" " * 800_000)
    small = post(json.dumps({"input": "good", "explain": "none"}).encode() + b" " * 60_000)
    most = "1000000"
    with ExitStack() as open_:
        server = open_.enter_context(running_server(bundles, max_body_bytes=most, max_bodies_bytes=most))
        slow = open_.enter_context(closing(connect(server)))
        slow.sendall(large[:-1])
        while metric(server, "readtrace_body_bytes") < len(large) - 70_000:
            time.sleep(0.02)
        refused = send(server, large)
        assert refused.status == 503
        assert b"bodies-full" in refused.body
        assert "retry-after: 1" in refused.head
        assert send(server, small).status == 200
        assert metric(server, 'readtrace_refused_total{reason="bodies-full"}') == 1
        slow.sendall(large[-1:])
        assert read_to_end(slow).status == 200
        assert metric(server, "readtrace_body_bytes") == 0
        with closing(connect(server)) as gone:
            gone.sendall(large[:-1])
            while metric(server, "readtrace_body_bytes") == 0:
                time.sleep(0.02)
        while metric(server, "readtrace_body_bytes") != 0:
            time.sleep(0.02)
        assert send(server, large).status == 200
