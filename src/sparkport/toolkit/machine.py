"""What the machine has that the server may use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["machine_memory"]

# Of a container, in the two versions of control groups; without a limit the file is missing or says so.
_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


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
