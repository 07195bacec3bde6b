"""Decide whose query runs next, and how many of one caller may run at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from sparkport.catalog.call import Call
from sparkport.errors import LimitExceededError

_MAX_WAIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """One query that waits or runs."""

    principal: str
    is_quick: bool


class Turns:
    """Limits how many queries run at once and shares the places among callers. Safe for many threads.

    The last place is for quick queries only. One caller never gets all the places,
    and among waiting callers the one with the fewest running queries is next.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._changed = threading.Condition()
        self._waiting: list[_Turn] = []
        self._running: list[_Turn] = []

    @property
    def running(self) -> int:
        """The number of running queries."""
        return len(self._running)

    @contextlib.contextmanager
    def take(self, call: Call, *, is_quick: bool) -> Iterator[None]:
        """Hold a place while the block runs. Raises LimitExceededError after waiting half a minute for it."""
        turn = _Turn(call.principal, is_quick)
        self._enter(call, turn)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(turn)
                self._changed.notify_all()

    def _enter(self, call: Call, turn: _Turn) -> None:
        with self._changed:
            self._waiting.append(turn)
            try:
                if not call.wait_for(self._changed, lambda: self._next() is turn, _MAX_WAIT_SECONDS):
                    raise self._refusal(turn)
                self._running.append(turn)
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()

    def _next(self) -> _Turn | None:
        """Return whose turn it is: among equals, the first in the queue."""
        free = [turn for turn in self._waiting if self._has_room(turn)]
        return min(free, key=self._count_own, default=None)

    def _has_room(self, turn: _Turn) -> bool:
        limit = self._limit(turn)
        return len(self._running) < limit and self._count_own(turn) < max(1, limit - 1)

    def _limit(self, turn: _Turn) -> int:
        return self._places if turn.is_quick else self._places - 1

    def _count_own(self, turn: _Turn) -> int:
        return sum(other.principal == turn.principal for other in self._running)

    def _refusal(self, turn: _Turn) -> LimitExceededError:
        own = self._count_own(turn)
        whose = " of this caller" if own >= max(1, self._limit(turn) - 1) else ""
        count = own if whose else len(self._running)
        return LimitExceededError(f"{count} expressions{whose} are already being evaluated; try again later")
