"""A client that leaves ends its work, and only its work, in whichever turn of the loop it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from app.api import exchange
from app.api.exchange import while_connected

Message = dict[str, Any]


def request(receive: Callable[[], Awaitable[Message]]) -> Request:
    return Request({"type": "http"}, receive)


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_MOMENT_SECONDS", 0.0)


async def stays() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("not reached")


async def leaves() -> Message:
    return {"type": "http.disconnect"}


def test_the_work_of_a_client_that_stays_is_its_answer() -> None:
    async def work() -> str:
        await asyncio.sleep(0.02)
        return "answer"

    assert asyncio.run(while_connected(request(stays), work())) == "answer"


def test_the_work_of_a_client_that_leaves_is_cancelled() -> None:
    cancelled = False

    async def work() -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise

    with pytest.raises(ClientDisconnect):
        asyncio.run(while_connected(request(leaves), work()))
    assert cancelled


def test_an_end_of_the_service_is_no_client_that_left() -> None:
    async def scene() -> None:
        task = asyncio.ensure_future(while_connected(request(stays), asyncio.Event().wait()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())


@pytest.mark.parametrize("answered_first", [False, True])
@pytest.mark.parametrize("turns_between", range(4))
def test_whoever_leaves_as_the_answer_comes_cancels_nothing_that_follows(
    answered_first: bool, turns_between: int
) -> None:
    async def scene() -> None:
        gone = asyncio.Event()
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def handler() -> str:
            try:
                found = await while_connected(request(receive), answer)
            except ClientDisconnect:
                found = "left"
            for _ in range(5):
                await asyncio.sleep(0)  # what follows: encoding, sending
            return found

        task = asyncio.ensure_future(handler())
        await asyncio.sleep(0.01)
        for answers in (True, False) if answered_first else (False, True):
            if not answers:
                gone.set()
            elif not answer.done():
                answer.set_result("answer")
            for _ in range(turns_between):
                await asyncio.sleep(0)
        assert await task in {"answer", "left"}

    asyncio.run(scene())
