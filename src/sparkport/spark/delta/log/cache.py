"""The last few states of a table that were read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from sparkport.spark.storage.filesystem import Stamp

_State = TypeVar("_State")


class VersionCache(Generic[_State]):
    """States by version, each with the stamp of its commit.

    A table that was dropped and made anew counts its versions from 0 again: the stamp
    of the commit's file tells whether a version is still the one that was read.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._states: OrderedDict[int, tuple[Stamp, _State]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, version: int, stamp: Stamp, state: _State) -> None:
        """Keep a state; forget the one that was not used for longest, but never the newest."""
        with self._lock:
            self._states[version] = (stamp, state)
            self._states.move_to_end(version)
            while len(self._states) > self._capacity:
                newest = max(self._states)
                oldest = next(number for number in self._states if number != newest)
                del self._states[oldest]

    def get(self, version: int, stamp: Stamp) -> _State | None:
        """Return a state if its commit is still the same file."""
        with self._lock:
            kept = self._states.get(version)
            if kept is None or kept[0] != stamp:
                return None
            self._states.move_to_end(version)
            return kept[1]

    def nearest(self, version: int, stamp_of: Callable[[int], Stamp | None]) -> tuple[int, _State] | None:
        """Return the newest state before a version whose commit is still the same file."""
        with self._lock:
            before = sorted((number for number in self._states if number < version), reverse=True)
            kept = [(number, *self._states[number]) for number in before]
        for number, stamp, state in kept:
            if stamp_of(number) == stamp:
                return number, state
        return None
