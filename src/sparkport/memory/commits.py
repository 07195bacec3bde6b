"""The order of commits: one after the other, and nobody waits for an expression of another client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sparkport.catalog.call import Call
from sparkport.errors import ConflictError

MAX_TRIES = 20
"""How often a change is made anew because others were faster."""

T = TypeVar("T")


class UncheckedRowsError(Exception):
    """Rows have to pass CHECKs first, which is not done by whoever holds the commit lock."""

    def __init__(self, table: str, check: Callable[[Call], None]) -> None:
        super().__init__(f"rows for table '{table}' have not been checked")
        self.table = table
        self.check = check


@dataclass(slots=True)
class Commits:
    """Orders all commits of a catalog; whoever commits holds `lock`.

    Expressions of clients are never evaluated under it: they may be slow.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    sequence: int = 0

    def publish(
        self,
        call: Call,
        work: Callable[[], T],
        turn: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> T:
        """Return what `work` returns, which runs under the lock, and before that within `turn`.

        It raises UncheckedRowsError as long as it comes upon rows that have not passed their CHECKs, before
        it changes anything. They are checked without the lock, and it runs again.
        """
        tries = 0
        while True:
            call.check()
            try:
                with turn(), self.lock:
                    return work()
            except UncheckedRowsError as error:
                unchecked = error
            tries += 1
            if tries == MAX_TRIES:
                raise ConflictError(unchecked.table, "others kept changing the same rows")
            unchecked.check(call)

    def next(self) -> int:
        """Return the number of the commit being made."""
        self.sequence += 1
        return self.sequence
