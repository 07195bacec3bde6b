"""Row ids that are never handed out twice."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparkport.spark.errors import writing

# An id is the number of a block, claimed by one server for good, and a number in it.
_BLOCK_BITS = 32
_BLOCK_ROWS = 1 << _BLOCK_BITS
_BLOCKS = 1 << (63 - _BLOCK_BITS)
_FOLDER = "_sparkport/rowids"


class RowIds:
    """Hands out the ids of one table.

    A server claims a block of ids by making a file of its number, which only one can do. In stores
    where that cannot be told, it takes one of two thousand million blocks by chance.
    """

    def __init__(self, root: str) -> None:
        self._folder = None if "://" in root else Path(root) / _FOLDER
        self._lock = threading.Lock()
        self._next = self._end = 0

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Return ids that nobody has or will have. Raises what `writing` does."""
        parts = []
        with self._lock:
            while count:
                if self._next == self._end:
                    block = self._claimed()
                    self._next, self._end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
                size = min(count, self._end - self._next)
                parts.append(np.arange(self._next, self._next + size, dtype=np.int64))
                self._next += size
                count -= size
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _claimed(self) -> int:
        if self._folder is None:
            return secrets.randbelow(_BLOCKS)
        with writing():
            self._folder.mkdir(parents=True, exist_ok=True)
            block = 1 + max((int(name) for name in os.listdir(self._folder) if name.isdigit()), default=-1)  # noqa: PTH208
            while True:
                try:
                    (self._folder / str(block)).touch(exist_ok=False)
                except FileExistsError:
                    block += 1
                else:
                    return block
