"""Even shares of the engine: whoever had the least time of it goes next (start-time fair queueing)."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)

_REMEMBERED = 1024  # members that left with a debt; the debts of all that left long ago are forgotten


class Shares(Generic[Member]):
    """Engine seconds by member. Who was away does not save time up: it joins where the others are."""

    def __init__(self) -> None:
        self._seconds: dict[Member, float] = {}
        self._now = 0.0  # what the member served last had before

    def join(self, member: Member) -> None:
        """A member has something to run."""
        if len(self._seconds) >= _REMEMBERED:
            self._seconds = {one: had for one, had in self._seconds.items() if had >= self._now}
        self._seconds[member] = max(self._now, self._seconds.get(member, 0.0))

    def next(self, waiting: Collection[Member]) -> Member:
        """The member whose turn it is among those that have something to run, the earliest of equals."""
        return min(waiting, key=self._seconds.__getitem__)

    def charge(self, member: Member, seconds: float) -> None:
        """A member was served."""
        had = self._seconds[member]
        self._now = max(self._now, had)
        self._seconds[member] = had + seconds
