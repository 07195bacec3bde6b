"""Who may hold how much of the server's memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from sparkport.catalog.budget import ByteBudget, Resources

__all__ = ["MemoryShares", "machine_memory"]

# Of a container, in the two versions of control groups; without a limit the file is missing or says so.
_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


class MemoryShares:
    """The budget that all calls share, and each caller's own part for what it stages."""

    def __init__(
        self,
        total_bytes: int | None = None,
        staged_bytes: int | None = None,
        open_transactions: int = 1000,
    ) -> None:
        self.total = ByteBudget(total_bytes)
        self._staged_bytes = staged_bytes
        self._open_transactions = open_transactions
        self._lock = threading.Lock()
        # A caller is known for as long as a call or a transaction of his holds on to his part.
        self._staged: WeakValueDictionary[str, ByteBudget] = WeakValueDictionary()

    def of(self, principal: str) -> Resources:
        """Return what the calls of one principal may take."""
        with self._lock:
            staged = self._staged.get(principal)
            if staged is None:
                staged = ByteBudget(self._staged_bytes, "for what the transactions of this caller stage")
                self._staged[principal] = staged
        return Resources(self.total, staged, self._open_transactions)


def machine_memory() -> int:
    """Return the bytes of memory that the process may use: the machine's, or its container's."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _GROUP_LIMITS:
        try:
            limit = path.read_text().strip()
        except OSError:
            continue
        if limit.isdigit():
            return min(machine, int(limit))
    return machine
