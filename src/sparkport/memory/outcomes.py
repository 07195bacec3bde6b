"""What statements with an idempotency key have done, as each version of a table knows it."""

from __future__ import annotations

import threading

from sparkport.toolkit.repeats import Outcome

__all__ = ["Outcomes"]

_MAX_OUTCOMES = 10_000


class Outcomes:
    """The outcomes of the last statements with a key. Immutable, and safe to use from many threads.

    Every version has its own, and there are many versions: so they share one log, of which each knows a
    beginning. One that is continued in two ways, as by a transaction, is copied.
    """

    __slots__ = ("_count", "_log")

    def __init__(self) -> None:
        self._log = _Log([])
        self._count = 0

    def get(self, key: str) -> Outcome | None:
        """Return the outcome of a statement, None if it is not known (any more)."""
        position = self._log.positions.get(key, self._count)
        return self._log.entries[position][1] if position < self._count else None

    def with_outcome(self, key: str, outcome: Outcome) -> Outcomes:
        """Return these and one more, of a statement that is not among them; the oldest are dropped."""
        if self._count >= 2 * _MAX_OUTCOMES:
            return self._copied(self._count - _MAX_OUTCOMES).with_outcome(key, outcome)
        if not self._log.append(self._count, key, outcome):
            return self._copied(0).with_outcome(key, outcome)
        longer = Outcomes()
        longer._log, longer._count = self._log, self._count + 1
        return longer

    def _copied(self, start: int) -> Outcomes:
        copy = Outcomes()
        entries = self._log.entries[start : self._count]
        copy._log, copy._count = _Log(entries), len(entries)
        return copy


class _Log:
    """Outcomes in their order. What is there stays; positions are found by key."""

    __slots__ = ("_lock", "entries", "positions")

    def __init__(self, entries: list[tuple[str, Outcome]]) -> None:
        self.entries = entries
        self.positions = {key: position for position, (key, _) in enumerate(entries)}
        self._lock = threading.Lock()

    def append(self, position: int, key: str, outcome: Outcome) -> bool:
        """Append an outcome, unless another one is at its position already."""
        with self._lock:
            if position != len(self.entries):
                return False
            self.entries.append((key, outcome))
            self.positions[key] = position
            return True
