"""A loop that does not keep up is told from one that stalls once, and sheds what it has no time to look at."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.connection import BoundedConnection
from app.errors import QueueFull
from app.lag import LoopLag, waited_seconds
from app.observability.metrics import Metrics
from app.settings import read_settings


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shed(lag: LoopLag, clock: Clock, *waits: float, every: float) -> list[bool]:
    found = []
    for waited in waits:
        found.append(lag.sheds(waited))
        clock.now += every
    return found


def test_requests_are_shed_once_all_have_waited_for_a_while() -> None:
    clock = Clock()
    lag = LoopLag(clock)
    assert shed(lag, clock, 0.3, 0.4, 0.3, 0.5, 0.3, every=0.3) == [False] * 4 + [True]
    assert shed(lag, clock, 0.01, every=0.3) == [False]


def test_stalls_with_requests_between_that_had_not_waited_shed_nobody() -> None:
    clock = Clock()
    assert not any(shed(LoopLag(clock), clock, *[0.4, 0.3, 0.01] * 5, every=0.4))


def test_stalls_far_apart_shed_nobody() -> None:
    clock = Clock()
    assert not any(shed(LoopLag(clock), clock, *[0.4] * 5, every=20.0))


def test_short_waits_shed_only_while_an_overload_is_remembered() -> None:
    clock = Clock()
    lag = LoopLag(clock)
    assert not any(shed(lag, clock, *[0.2] * 20, every=0.3))
    assert shed(lag, clock, *[0.3] * 5, every=0.3)[-1]
    assert shed(lag, clock, 0.2, 0.05, 0.2, 0.05, every=0.3) == [True, False, True, False]
    clock.now += 4  # the last one was shed 4.3 s ago
    assert shed(lag, clock, 0.2, every=5.1) == [True]
    assert shed(lag, clock, 0.2, every=0.3) == [False]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_wait_in_the_socket_is_seen() -> None:
    async def scenario() -> None:
        transport = Mock(asyncio.Transport)
        here, there = tcp_pair()
        with closing(here), closing(there):
            transport.get_extra_info.return_value = here
            there.sendall(b"hello")
            time.sleep(0.2)
            assert 0.1 < waited_seconds(transport) < 5
        assert waited_seconds(transport) == 0  # closed

    asyncio.run(scenario())


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
    return here, there


async def echo(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize(
    ("method", "late", "told"),
    [
        (b"POST", True, b"HTTP/1.1 503"),
        (b"GET", True, b"HTTP/1.1 200"),
        (b"POST", False, b"HTTP/1.1 200"),
    ],
)
def test_late_loop_refuses_what_can_wait_and_recovers(
    method: bytes, late: bool, told: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with closing(writer):
            writer.write(
                method + b" / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"
            )
            return await reader.read()

    async def scenario() -> None:
        clock, metrics = Clock(), Metrics()
        lag = LoopLag(clock)
        config = uvicorn.Config(echo, log_config=None)
        config.load()
        state, settings = ServerState(), read_settings()

        def connection() -> asyncio.Protocol:
            return BoundedConnection(
                config=config, server_state=state, app_state={}, settings=settings, metrics=metrics, lag=lag
            )

        server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            waited = 0.3 if late else 0.01
            shed(lag, clock, *[waited] * 4, every=0.4)
            monkeypatch.setattr("app.connection.waited_seconds", lambda _: waited)
            answer = await ask(port)
            monkeypatch.undo()
            assert answer.startswith(told)
            assert (b"/problems/network-busy" in answer) == (b"503" in told)
            assert (b"retry-after: 1" in answer) == (b"503" in told)
            assert (await ask(port)).startswith(b"HTTP/1.1 200")  # the request before found the loop in time

    asyncio.run(scenario())


def test_while_an_overload_is_remembered_nobody_is_looked_at_right_after_a_refusal() -> None:
    clock = Clock()
    lag = LoopLag(clock)

    def full() -> None:
        raise QueueFull("full", 1)

    def refuse() -> None:
        with pytest.raises(QueueFull):
            lag.judge(full)

    refuse()
    assert not lag.sheds(0.0)  # a full queue alone is no overload of the loop
    shed(lag, clock, *[0.3] * 5, every=0.3)
    refuse()
    assert shed(lag, clock, 0.0, 0.0, every=0.05) == [True, False]
    refuse()
    assert lag.judge(lambda: "let in") == "let in"  # there was room
    assert not lag.sheds(0.0)
