"""Queries that run, so that another call can cancel them."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator

from sparkport.catalog.call import Call
from sparkport.errors import CancelledError
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_CANCELLED = 10_000


class RunningQueries:
    """Knows the calls that read each ticket, and the tickets that were cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: defaultdict[bytes, list[Call]] = defaultdict(list)
        self._cancelled: BoundedCache[bytes, bool] = BoundedCache(_MAX_CANCELLED)

    @contextlib.contextmanager
    def running(self, ticket: bytes, call: Call) -> Iterator[None]:
        """Let the query of a ticket be cancelled while a block runs. Raises CancelledError if it was."""
        with self._lock:
            if self._cancelled.get(ticket):
                raise CancelledError
            self._calls[ticket].append(call)
        try:
            yield
        finally:
            with self._lock:
                self._calls[ticket].remove(call)
                if not self._calls[ticket]:
                    del self._calls[ticket]

    def cancel(self, ticket: bytes) -> None:
        """Cancel the calls that read a ticket, and those that will."""
        with self._lock:
            self._cancelled.put(ticket, True)
            calls = list(self._calls.get(ticket, ()))
        for call in calls:
            call.cancel()
