"""Callers that leave at any moment, also in the very turn of the loop that answers them, cost nobody else an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.errors import EngineFailed, Problem
from app.pending import Pending
from app.scheduler.document import Document, Reading
from tests.app.scheduler.fakes import Bench

_PATIENCE_SECONDS = 1000.0  # nobody's deadline comes
_CALLERS = 4


class Room:
    """Callers of one or two documents each, and what the loop complained of."""

    def __init__(self, sizes: Sequence[int]) -> None:
        bench = Bench()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        self.documents = [[bench.document([2, 3], deadline) for _ in range(size)] for size in sizes]
        self.all = [document for documents in self.documents for document in documents]
        self.pending = Pending()
        self.complaints: list[object] = []
        self.callers: list[asyncio.Task[list[Reading | Problem]]] = []

    async def enter(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        self.callers = [
            asyncio.ensure_future(self.pending.wait(documents, lambda _: None))
            for documents in self.documents
        ]
        await asyncio.sleep(0)

    def leave(self, caller: int) -> None:
        self.callers[caller % len(self.callers)].cancel()

    def answer(self, first: int, count: int) -> None:
        part = self.all[first % len(self.all) :][:count]
        self.pending.deliver([(document, EngineFailed("over")) for document in part])


OPERATIONS = st.one_of(
    st.tuples(st.just("leave"), st.integers(0, _CALLERS - 1), st.just(0)),
    st.tuples(st.just("answer"), st.integers(0, 2 * _CALLERS), st.integers(1, 2 * _CALLERS)),
)


@given(
    sizes=st.lists(st.integers(1, 2), min_size=1, max_size=_CALLERS),
    turns=st.lists(st.lists(OPERATIONS, max_size=4), max_size=5),
    closed=st.booleans(),
)
def test_everyone_who_stays_is_answered_whoever_leaves(
    sizes: list[int], turns: list[list[tuple[str, int, int]]], closed: bool
) -> None:
    left: set[int] = set()

    async def scenario() -> Room:
        room = Room(sizes)
        await room.enter()
        loop = asyncio.get_running_loop()
        for turn in turns:
            for operation, which, count in turn:
                if operation == "leave":
                    left.add(which % len(sizes))
                    loop.call_soon(room.leave, which)
                else:
                    loop.call_soon(room.answer, which, count)
            await asyncio.sleep(0)
        if closed:
            loop.call_soon(room.pending.fail_all, EngineFailed("closed"))
        else:
            loop.call_soon(room.answer, 0, len(room.all))
        await asyncio.wait(room.callers, timeout=10)
        return room

    room = asyncio.run(scenario())
    assert room.complaints == []
    for number, (caller, documents) in enumerate(zip(room.callers, room.documents, strict=True)):
        assert caller.done()
        if number not in left:
            assert [type(answer) for answer in caller.result()] == [EngineFailed] * len(documents)


def test_documents_of_who_left_are_wanted_no_more() -> None:
    async def scenario() -> list[Document]:
        room = Room([2, 1])
        await room.enter()
        room.leave(0)
        await asyncio.wait(room.callers[:1])
        room.answer(0, len(room.all))
        await room.callers[1]
        return room.all

    assert [document.wanted for document in asyncio.run(scenario())] == [False, False, True]
