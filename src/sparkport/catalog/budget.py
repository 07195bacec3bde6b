"""How many bytes all calls together may hold in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from sparkport.errors import LimitExceededError

__all__ = ["UNLIMITED", "ByteBudget", "CallerBudgets", "Reservation", "Resources"]

_MAX_TRANSACTIONS = 1000


class ByteBudget:
    """Counts bytes up to a limit; None is no limit. Safe to use from many threads."""

    def __init__(self, limit: int | None, purpose: str = "for the rows of all calls") -> None:
        self._limit = limit
        self._purpose = purpose
        self._held = 0
        # The garbage collector may run here and release a reservation of the same budget.
        self._lock = threading.RLock()

    @property
    def held(self) -> int:
        """The bytes that are held now."""
        return self._held

    def take(self, size: int) -> None:
        """Hold so many bytes more, or give back if negative. Raises LimitExceededError, and holds no more."""
        with self._lock:
            if size > 0 and self._limit is not None and self._held + size > self._limit:
                raise LimitExceededError(
                    f"no memory is left {self._purpose}: {self._held} of {self._limit} bytes are in use and"
                    f" {size} more are needed; try again when others have finished"
                )
            self._held += size


class CallerBudgets:
    """A budget for each caller, all of one size. Safe to use from many threads."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        # A caller is known for as long as he holds some of his budget.
        self._budgets: WeakValueDictionary[str, ByteBudget] = WeakValueDictionary()

    def of(self, principal: str) -> ByteBudget:
        """Return the budget of a caller."""
        with self._lock:
            budget = self._budgets.get(principal)
            if budget is None:
                budget = ByteBudget(self._limit, "for what the transactions of this caller stage")
                self._budgets[principal] = budget
            return budget


class Reservation:
    """Bytes of a budget that one owner holds, until it releases them or is gone itself."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes held."""
        return self._size

    def resize(self, size: int) -> None:
        """Hold exactly so many bytes. Raises LimitExceededError, and changes nothing then."""
        if size != self._size:
            self._budget.take(size - self._size)
            self._size = size

    def add(self, size: int) -> None:
        """Hold so many bytes more. Raises LimitExceededError, and changes nothing then."""
        self.resize(self._size + size)

    def release(self) -> None:
        """Hold nothing any more."""
        self.resize(0)

    def __del__(self) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Resources:
    """Hold what the calls of one server may take."""

    rows: ByteBudget = field(default_factory=lambda: ByteBudget(None))
    """For what is in memory of messages, and of statements that are not committed."""
    staged: CallerBudgets = field(default_factory=lambda: CallerBudgets(None))
    """For what the transactions of each caller have staged."""
    open_transactions: int = _MAX_TRANSACTIONS
    """Transactions of one caller that wait for a commit."""


UNLIMITED = Resources()
