"""The engine is woken once for the requests of a moment, at once for a lone one, and never late."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from app.gathering import _LONGEST_SECONDS, Gathering

_TURN_SECONDS = 0.0004


class Loop(asyncio.SelectorEventLoop):
    """Every turn takes the same time."""

    now = 100.0

    def time(self) -> float:
        return self.now


class Room:
    """Requests by turns of the loop, and what was submitted when the engine was woken."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = turns
        self.waiting: list[float] = []  # since when
        self.longest_seconds = 0.0
        self.woken: list[int] = []
        self.loop = Loop()

    def wake(self) -> None:
        self.woken.append(len(self.waiting))
        self.longest_seconds = max([self.longest_seconds, *(self.loop.now - since for since in self.waiting)])
        self.waiting.clear()

    async def _pass(self) -> None:
        gathering = Gathering(self.wake)
        for requests in self.turns:
            for _ in range(requests):
                self.waiting.append(self.loop.now)
                gathering.submitted()
            self.loop.now += _TURN_SECONDS
            await asyncio.sleep(0)

    def run(self) -> list[int]:
        try:
            self.loop.run_until_complete(self._pass())
        finally:
            self.loop.close()
        return self.woken


def test_requests_of_one_turn_and_of_turns_that_follow_share_a_wake() -> None:
    assert Room([3, 1, 2, 0, 0, 0]).run() == [6]


def test_a_lone_request_wakes_the_engine_two_turns_later() -> None:
    room = Room([1, 0, 0, 0, 1, 0, 0])
    assert room.run() == [1, 1]
    assert room.longest_seconds <= 2 * _TURN_SECONDS + 1e-9


def test_an_endless_flow_of_requests_does_not_keep_the_engine_waiting() -> None:
    room = Room([1] * 100)
    assert len(room.run()) >= 100 * _TURN_SECONDS / (2 * _LONGEST_SECONDS)
    assert room.longest_seconds <= _LONGEST_SECONDS + 2 * _TURN_SECONDS


@given(st.lists(st.integers(0, 3), max_size=40))
def test_whoever_comes_the_engine_is_woken_for_all(turns: list[int]) -> None:
    room = Room([*turns, 0, 0, 0])
    assert sum(room.run()) == sum(turns)
    assert 0 not in room.woken
