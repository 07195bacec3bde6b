"""Rows collected in memory by a statement: counted as they come, with fewer columns if there are too many."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sparkport.arrow.sizes import byte_size
from sparkport.catalog.budget import Reservation


class Collector:
    """Collects rows up to a number of bytes; past that only their last columns, also of those it has."""

    def __init__(self, held: Reservation, arrow_schema: pa.Schema, last: int, max_bytes: int) -> None:
        """Hold memory of a budget in `held`; `last` is the number of columns that are always kept."""
        self._held = held
        self._batches: list[pa.RecordBatch] = []
        self._arrow_schema = arrow_schema
        self._last = last
        self._max_bytes = max_bytes

    @property
    def is_whole(self) -> bool:
        """Whether the rows have all their columns."""
        return len(self._arrow_schema) > self._last

    def collect(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return the rows. Raises LimitExceededError when no memory is left for them."""
        for batch in batches:
            self._add(batch if self.is_whole else self._narrowed(batch))
        return pa.Table.from_batches(self._batches, self._arrow_schema)

    def _add(self, batch: pa.RecordBatch) -> None:
        size = byte_size(batch)
        if self.is_whole and self._held.size + size > self._max_bytes:
            self._batches = [self._narrowed(kept) for kept in self._batches]
            batch = self._narrowed(batch)
            self._arrow_schema = batch.schema
            size = byte_size(batch)
            self._held.resize(sum(map(byte_size, self._batches)))
        self._held.add(size)
        self._batches.append(batch)

    def _narrowed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        count = batch.num_columns
        return batch.select(list(range(count - self._last, count)))
