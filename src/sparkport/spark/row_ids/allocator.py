"""Allocate row ids that are never used twice."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sparkport.errors import NotFoundError
from sparkport.spark.delta.commit.durability import write_through
from sparkport.spark.errors import writing
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.storage.folder_names import table_label

# An id is the number of a block, which one server has claimed forever, and a number within the block.
_BLOCK_BITS = 32
_BLOCK_ROWS = 1 << _BLOCK_BITS
_BLOCKS = 1 << (63 - _BLOCK_BITS)
_FOLDER = "_sparkport/rowids"


class RowIdAllocator:
    """Allocates the row ids of one table.

    A server claims a block of ids by creating a file named after its number, which only one server can do.
    In stores that cannot create files exclusively it picks one of two billion blocks at random.
    `greatest` returns the greatest id in the table, which may be a copy of another table with its ids.
    """

    def __init__(self, root: str, table_id: str, greatest: Callable[[], int] = lambda: -1) -> None:
        self.table_id = table_id
        self._folder = None if not is_local(root) else Path(root) / _FOLDER
        self._greatest = greatest
        self._lock = threading.Lock()
        self._next = self._end = 0

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """Return ids that no other row has or will have. Raises what `writing` does."""
        parts = []
        with self._lock:
            while count:
                if self._next == self._end:
                    self._begin_block()
                size = min(count, self._end - self._next)
                parts.append(np.arange(self._next, self._next + size, dtype=np.int64))
                self._next += size
                count -= size
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def ranges(self, count: int, size: int) -> list[int]:
        """Return the first ids of `count` ranges, each of `size` ids that no other row has or will have."""
        size = min(size, _BLOCK_ROWS)
        firsts = []
        with self._lock:
            for _ in range(count):
                if self._end - self._next < size:
                    self._begin_block()
                firsts.append(self._next)
                self._next += size
        return firsts

    def _begin_block(self) -> None:
        block = self._claim_block()
        self._next, self._end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS

    def _claim_block(self) -> int:
        if self._folder is None:
            return secrets.randbelow(_BLOCKS)
        own = self._folder / self.table_id
        with writing():
            self._make_folder(own)
            block = 1 + max(_greatest_claim(self._folder), self._greatest() >> _BLOCK_BITS)
            while True:
                try:
                    (own / str(block)).touch(exist_ok=False)
                except FileExistsError:
                    block += 1
                else:
                    write_through(own / str(block), own, own.parent, own.parent.parent)
                    return block

    def _make_folder(self, folder: Path) -> None:
        """Create the folder of claims in the table's folder. Raises NotFoundError if the table is gone."""
        try:
            for level in (folder.parent.parent, folder.parent, folder):
                level.mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise NotFoundError("table", table_label(str(folder.parents[2]))) from error


def _greatest_claim(folder: Path) -> int:
    """Return the greatest block that was ever claimed in a table's folder, -1 if none was.

    It counts the claims of replaced tables too: the rows of their older versions keep their ids.
    """
    names = [name for _, _, files in os.walk(folder) for name in files]
    return max((int(name) for name in names if name.isdigit()), default=-1)
