"""How many calls each caller may have running, so that none can take the room of all others."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

__all__ = ["CallLimits", "CallShares"]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Hold how many calls may run at once: of all, of one caller, and on one connection.

    A caller is a principal at an address: behind a proxy the principals differ, and with one token for
    everybody the addresses do.
    """

    concurrent_calls: int = 256
    calls_per_caller: int = 192
    calls_per_connection: int = 128


class CallShares:
    """Counts the calls of authenticated callers. Safe to use from many threads."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._calls: defaultdict[tuple[str, str] | str, int] = defaultdict(int)

    def enter(self, principal: str, connection: str) -> str | None:
        """Count a call; return why it may not run, and do not count it then."""
        limits = self._limits
        caller = (principal, _host(connection))
        with self._lock:
            if self._calls.get(connection, 0) >= limits.calls_per_connection:
                return f"{limits.calls_per_connection} calls are running on this connection"
            if self._calls.get(caller, 0) >= limits.calls_per_caller:
                return f"{limits.calls_per_caller} calls of this caller are running"
            self._calls[connection] += 1
            self._calls[caller] += 1
        return None

    def enter_anyway(self, principal: str, connection: str) -> None:
        """Count a call without regard to the limits."""
        with self._lock:
            self._calls[connection] += 1
            self._calls[principal, _host(connection)] += 1

    def leave(self, principal: str, connection: str) -> None:
        """Stop counting a call."""
        with self._lock:
            for key in (connection, (principal, _host(connection))):
                left = self._calls[key] - 1
                if left:
                    self._calls[key] = left
                else:
                    del self._calls[key]


def _host(connection: str) -> str:
    return connection.rpartition(":")[0]
