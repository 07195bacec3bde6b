"""Who may write to a table while another alters it: nobody."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sparkport.catalog.call import Call

_POLL_SECONDS = 0.1


class ReadWriteLock:
    """Lets many in at a time, or one alone. Whoever waits does so as long as its call lives."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextlib.contextmanager
    def shared(self, call: Call) -> Iterator[None]:
        """Be inside together with others."""
        with self._changed:
            self._wait_open(call)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self, call: Call) -> Iterator[None]:
        """Be inside alone: those inside finish first, and nobody comes after them."""
        with self._changed:
            self._wait_open(call)
            self._closed = True
        try:
            with self._changed:
                while self._inside:
                    call.check()
                    self._changed.wait(_POLL_SECONDS)
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()

    def _wait_open(self, call: Call) -> None:
        call.check()
        while self._closed:
            self._changed.wait(_POLL_SECONDS)
            call.check()
