"""Collect batches into row groups, and write each on a thread of its own while the next one is collected."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from sparkport.arrow.sizes import byte_size

_GROUP_BYTES = 32 << 20


class RowGroupWriter:
    """Passes rows to `write` in large groups, of which at most two are in memory.

    `write` is called on one thread, one call at a time, in the order of the rows. What it raises is
    raised by a later call of `add`, or by `finish`.
    """

    def __init__(self, write: Callable[[pa.Table], None]) -> None:
        self._write = write
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="row-groups")
        self._under_way: Future[None] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; wait while the group before the last is not yet written."""
        self._gathered.append(batch)
        self._bytes += byte_size(batch)
        if self._bytes >= _GROUP_BYTES:
            self._hand_over()

    def finish(self) -> None:
        """Write all rows and stop."""
        try:
            if self._gathered:
                self._hand_over()
            self._wait()
        finally:
            self.stop()

    def stop(self) -> None:
        """Drop the rows that are not yet written, after waiting for a write that has begun."""
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
