"""Batches gathered to row groups, and written on a thread of their own while the next ones come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from sparkport.arrow.sizes import byte_size

_GROUP_BYTES = 32 << 20


class RowGroups:
    """Hands rows on to `write`, many at a time. In memory are two groups at most, whoever is faster.

    `write` is called on one thread, by one call at a time and in the order of the rows. What it raises
    comes out of a later call of `add`, or of `finish`.
    """

    def __init__(self, write: Callable[[pa.Table], None]) -> None:
        self._write = write
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="row-groups")
        self._under_way: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take more rows; wait while the group before last is not yet written."""
        self._gathered.append(batch)
        self._bytes += byte_size(batch)
        if self._bytes >= _GROUP_BYTES:
            self._hand_over()

    def finish(self) -> None:
        """Wait until all rows are written; there will be no more."""
        try:
            if self._gathered:
                self._hand_over()
            self._wait()
        finally:
            self.stop()

    def stop(self) -> None:
        """Write nothing more; what is under way ends first."""
        self._gathered = []
        self._thread.shutdown(cancel_futures=True)

    def _hand_over(self) -> None:
        rows, self._gathered, self._bytes = pa.Table.from_batches(self._gathered), [], 0
        self._wait()
        self._under_way = self._thread.submit(self._write, rows)

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
