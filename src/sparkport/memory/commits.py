"""Serialize the commits of a catalog, without waiting for the expressions of other clients."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError

MAX_TRIES = 20
"""How often a change is attempted when others commit first."""

T = TypeVar("T")


class UncheckedRowsError(Exception):
    """Rows have to pass CHECKs, which are not evaluated while the commit lock is held."""

    def __init__(self, table: str, check: Callable[[Call], None]) -> None:
        super().__init__(f"rows for table '{table}' have not been checked")
        self.table = table
        self.check = check


@dataclass(slots=True)
class Commits:
    """Serializes all commits of a catalog; whoever commits holds `lock`.

    Expressions of clients are never evaluated under the lock: they may be slow.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    sequence: int = 0

    def publish(
        self,
        call: Call,
        work: Callable[[], T],
        outer_lock: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> T:
        """Run `work` under the lock, taken within `outer_lock`, and return what it returns.

        It raises UncheckedRowsError, before it changes anything, as long as it finds rows that have not
        passed their CHECKs. They are checked without the lock, and it runs again.
        """
        tries = 0
        while True:
            call.check()
            try:
                with outer_lock(), self.lock:
                    return work()
            except UncheckedRowsError as error:
                unchecked = error
            tries += 1
            if tries == MAX_TRIES:
                raise ConflictError(unchecked.table, "other statements kept changing the same rows")
            unchecked.check(call)

    def next(self) -> int:
        """Increment the sequence and return the number of the next commit."""
        self.sequence += 1
        return self.sequence
