"""The lock that keeps writes to a table apart from whoever alters, renames or drops it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sparkport.catalog.call import Call


class ReadWriteLock:
    """A lock that many can share or one can hold alone. Whoever waits for it gives up when its call ends."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._is_exclusive = False

    @contextlib.contextmanager
    def shared(self, call: Call) -> Iterator[None]:
        """Hold the lock together with others."""
        with self._changed:
            self._wait_not_exclusive(call)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self, call: Call) -> Iterator[None]:
        """Hold the lock alone: those who share it finish first, and no others get it meanwhile."""
        with self._changed:
            self._wait_not_exclusive(call)
            self._is_exclusive = True
        try:
            with self._changed:
                call.wait_for(self._changed, lambda: not self._sharing)
            yield
        finally:
            with self._changed:
                self._is_exclusive = False
                self._changed.notify_all()

    def _wait_not_exclusive(self, call: Call) -> None:
        call.wait_for(self._changed, lambda: not self._is_exclusive)
