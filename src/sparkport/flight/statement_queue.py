"""Whose statement runs next, where only so many may run at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from sparkport.catalog.call import Call
from sparkport.errors import DeadlineExceededError, LimitExceededError

__all__ = ["StatementQueue"]

_STALLED_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """One statement that waits or runs."""

    call: Call
    transaction: str | None

    @property
    def principal(self) -> str:
        return self.call.principal

    def belongs_with(self, other: _Turn) -> bool:
        """Whether a client may need both at once."""
        return self.transaction is not None and (self.principal, self.transaction) == (
            other.principal,
            other.transaction,
        )

    def is_stalled(self) -> bool:
        """Whether the client does not take the rows that it was given."""
        given_at = self.call.meter.given_at
        return given_at is not None and time.monotonic() - given_at > _STALLED_SECONDS


class StatementQueue:
    """Limits how many statements run at once; others wait. Safe to use from many threads.

    Among those that wait, one of the principal with the fewest running statements is next. Nobody who holds a
    place waits for another one of the same transaction, and a statement whose client does not take its rows
    loses its place and goes on without: so clients that need several at once never wait for each other for
    ever.
    """

    def __init__(self, places: int | None = None, *, waiting: int = 100, seconds: float = 60.0) -> None:
        """`places` statements run, None for any number; `waiting` may wait, each so many `seconds`."""
        self._places = places
        self._max_waiting = waiting
        self._seconds = seconds
        self._changed = threading.Condition()
        self._waiting: list[_Turn] = []
        self._running: list[_Turn] = []

    def waiting(self) -> int:
        """Return how many statements wait."""
        return len(self._waiting)

    @contextlib.contextmanager
    def place(self, call: Call, transaction: str | None = None) -> Iterator[None]:
        """Hold a place while a block runs; `transaction` is that of the call unless it is given.

        Raises LimitExceededError if too many wait, DeadlineExceededError after a long wait, and what
        `Call.check` raises.
        """
        if self._places is None:
            yield
            return
        turn = _Turn(call, transaction or call.transaction_id)
        self._enter(turn, self._places)
        try:
            yield
        finally:
            with self._changed:
                if turn in self._running:
                    self._running.remove(turn)
                self._changed.notify_all()

    def _enter(self, turn: _Turn, places: int) -> None:
        with self._changed:
            is_full = len(self._waiting) >= self._max_waiting
            self._waiting.append(turn)
            try:
                if not self._may_run(turn, places):
                    if is_full:
                        raise LimitExceededError(
                            f"{len(self._running)} statements run and {self._max_waiting} wait, which are the"
                            " limits (--statements, --statement-queue); try again later"
                        )
                    self._wait(turn, places)
                self._running.append(turn)
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()

    def _wait(self, turn: _Turn, places: int) -> None:
        with turn.call.meter.queued():
            if not turn.call.wait_for(self._changed, lambda: self._may_run(turn, places), self._seconds):
                raise DeadlineExceededError(
                    f"the statement has waited for {self._seconds:g} seconds for others to end, which is the"
                    " limit (--queue-timeout); try again later"
                )

    def _may_run(self, turn: _Turn, places: int) -> bool:
        self._running = [other for other in self._running if not other.is_stalled()]
        if any(turn.belongs_with(other) for other in self._running):
            return True
        return len(self._running) < places and min(self._waiting, key=self._count_own) is turn

    def _count_own(self, turn: _Turn) -> int:
        return sum(other.principal == turn.principal for other in self._running)
