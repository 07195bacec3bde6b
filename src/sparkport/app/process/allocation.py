"""How the process treats memory that is free again."""

from __future__ import annotations

import ctypes
import gc
import sys

import pyarrow as pa

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_MAX_HEAP_BLOCK = 32 << 20
_KEPT_BYTES = 512 << 20
_KEPT_MILLISECONDS = 10_000
_NEW_OBJECTS = 20_000


def keep_freed_memory() -> None:
    """Reuse freed memory instead of giving it back to the system at once.

    A stream allocates and frees a megabyte per message. Allocators return blocks of
    that size immediately, and getting them back costs more (a page fault for every
    4 KiB) than everything else the server does with them. For a process that is a
    server only: the settings hold for all of it.
    """
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(_KEPT_MILLISECONDS)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):  # glibc; others have no such knobs
            libc.mallopt(_M_MMAP_THRESHOLD, _MAX_HEAP_BLOCK)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def look_for_garbage_rarely() -> None:
    """Let Python look for cycles of garbage after more new objects, and never in its own modules.

    What a server keeps, such as the columns of a large warehouse, would be searched again and again
    while it is gathered: a third of the time of a first listing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
