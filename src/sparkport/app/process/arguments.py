"""The command line as others see it in the list of processes."""

from __future__ import annotations

import ctypes
from pathlib import Path

# Of the fields after the name, where the kernel keeps the first and the last byte: arg_start and arg_end.
_START, _END = 45, 46


def hide_argument(secret: str) -> bool:
    """Write over an argument of this process, and say whether that could be done.

    The kernel shows the memory in which it has put the arguments when the process began; Python has a copy
    of its own. Other systems than Linux have no such list of where things are.
    """
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        shown = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return False
    start, end = int(fields[_START]), int(fields[_END])
    if not secret or not start or end - start != len(shown):
        return False
    memory = (ctypes.c_char * len(shown)).from_address(start)
    if memory.raw != shown:
        return False
    # A name that is part of the token, as `s` would be, goes with it: better than to leave the token.
    memory.raw = shown.replace(secret.encode(), b"*" * len(secret.encode()))
    return True
