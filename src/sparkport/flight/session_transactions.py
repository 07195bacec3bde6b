"""Which transactions of Flight SQL end with a session: those that were begun on its connection.

A driver has a connection of its own, and says when it closes it; what it has begun then, it cannot end later.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict

from sparkport.catalog.call import Call

_MAX_COUNT = 10_000
# A connection over TCP has a port of its own; others cannot be told apart.
_TCP = re.compile(r"ipv[46]:.+:[0-9]+")

_Connection = tuple[str, str]


class SessionTransactions:
    """Remembers the open transactions of the latest connections. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._catalogs: OrderedDict[_Connection, dict[str, str]] = OrderedDict()

    def began(self, call: Call, transaction_id: str, catalog: str) -> None:
        """Record that a transaction was begun."""
        if not _TCP.fullmatch(call.peer):
            return
        with self._lock:
            self._catalogs.setdefault(_connection(call), {})[transaction_id] = catalog
            self._catalogs.move_to_end(_connection(call))
            while len(self._catalogs) > _MAX_COUNT:
                self._catalogs.popitem(last=False)

    def ended(self, call: Call, transaction_id: str) -> None:
        """Record that a transaction has ended."""
        with self._lock:
            known = self._catalogs.get(_connection(call), {})
            known.pop(transaction_id, None)
            if not known:
                self._catalogs.pop(_connection(call), None)

    def close(self, call: Call) -> dict[str, str]:
        """Forget the connection of a call, and return its open transactions with their catalogs."""
        with self._lock:
            return self._catalogs.pop(_connection(call), {})


def _connection(call: Call) -> _Connection:
    return call.principal, call.peer
