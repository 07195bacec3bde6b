"""The rows of one state of a table: immutable, shared between states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkport.arrow.conform import batch_of
from sparkport.arrow.sizes import byte_size
from sparkport.arrow.taking import take, take_batch

RowIds = npt.NDArray[np.int64]

# Neighbouring segments are merged while they are small, so that many little
# inserts do not make many little batches; each row is copied O(log n) times.
_MERGE_ROWS = 65_536
_MERGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    """Some rows with their ids."""

    batch: pa.RecordBatch
    row_ids: RowIds


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows of a table, in the order of their commits.

    Ids are allocated before the commit, so they need not be ascending.
    """

    segments: tuple[Segment, ...] = ()

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(len(segment.row_ids) for segment in self.segments)

    @property
    def row_ids(self) -> RowIds:
        """All row ids."""
        return np.concatenate([_NO_IDS, *(segment.row_ids for segment in self.segments)])

    def table(self, arrow_schema: pa.Schema) -> pa.Table:
        """Return the rows as one Arrow table (without copying)."""
        return pa.Table.from_batches([segment.batch for segment in self.segments], arrow_schema)

    def append(self, batch: pa.RecordBatch, row_ids: RowIds) -> Rows:
        """Return the rows with others appended."""
        if not len(row_ids):
            return self
        segments = [*self.segments, Segment(batch, row_ids)]
        while len(segments) > 1 and _is_small(segments[-2]) and _is_similar(segments[-2], segments[-1]):
            last = segments.pop()
            segments[-1] = _merge(segments[-1], last)
        return Rows(tuple(segments))

    def delete(self, row_ids: RowIds) -> tuple[Rows, int]:
        """Return the rows without those of the given ids, and how many were removed."""
        kept: list[Segment] = []
        removed = 0
        for segment in self.segments:
            keep = ~np.isin(segment.row_ids, row_ids)
            if keep.all():
                kept.append(segment)
                continue
            removed += int((~keep).sum())
            if keep.any():
                positions = np.flatnonzero(keep)
                kept.append(Segment(take_batch(segment.batch, positions), segment.row_ids[positions]))
        return Rows(tuple(kept)), removed

    def replace(self, row_ids: RowIds, changes: pa.RecordBatch) -> Rows:
        """Return the rows with the columns of `changes` set where the ids match.

        `row_ids` are distinct; ids that do not exist change nothing.
        """
        order = np.argsort(row_ids)
        sorted_ids = row_ids[order]
        return Rows(tuple(_replace(segment, sorted_ids, order, changes) for segment in self.segments))

    def missing(self, row_ids: RowIds) -> RowIds:
        """Return the given ids that no row has."""
        return row_ids[~np.isin(row_ids, self.row_ids)]

    def lookup(self, row_ids: RowIds, arrow_schema: pa.Schema) -> tuple[pa.RecordBatch, RowIds]:
        """Return the rows of the given ids, in their order, and the ids that exist."""
        existing = self.row_ids
        order = np.argsort(existing, kind="stable")
        places = np.searchsorted(existing, row_ids, sorter=order)
        positions = order[np.minimum(places, len(existing) - 1)] if len(existing) else places
        is_match = existing[positions] == row_ids if len(existing) else np.zeros(len(row_ids), bool)
        picked = positions[is_match]
        columns = [take(column, picked) for column in self.table(arrow_schema).columns]
        return batch_of(columns, arrow_schema, len(picked)), row_ids[is_match]

    def map(self, transform: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Rows:
        """Return the rows with each batch transformed, ids unchanged."""
        return Rows(tuple(Segment(transform(part.batch), part.row_ids) for part in self.segments))

    def slice(self, start: int, stop: int) -> Iterator[Segment]:
        """Yield the rows from position `start` to before `stop`, without copying."""
        offset = 0
        for segment in self.segments:
            low, high = max(start - offset, 0), min(stop - offset, len(segment.row_ids))
            if low < high:
                yield Segment(segment.batch.slice(low, high - low), segment.row_ids[low:high])
            offset += len(segment.row_ids)


_NO_IDS: RowIds = np.empty(0, np.int64)


def _is_small(segment: Segment) -> bool:
    return len(segment.row_ids) < _MERGE_ROWS and byte_size(segment.batch) < _MERGE_BYTES


def _is_similar(first: Segment, second: Segment) -> bool:
    return len(first.row_ids) <= 2 * len(second.row_ids)


def _merge(first: Segment, second: Segment) -> Segment:
    row_ids = np.concatenate([first.row_ids, second.row_ids])
    return Segment(pa.concat_batches([first.batch, second.batch]), row_ids)


def _replace(
    segment: Segment, sorted_ids: RowIds, order: npt.NDArray[np.intp], changes: pa.RecordBatch
) -> Segment:
    count = len(segment.row_ids)
    positions = np.searchsorted(sorted_ids, segment.row_ids)
    positions[positions == len(sorted_ids)] = 0
    is_match = sorted_ids[positions] == segment.row_ids if len(sorted_ids) else np.zeros(count, bool)
    if not is_match.any():
        return segment
    # Old values first, new values behind them: one take picks the right one for each row.
    source = np.where(is_match, count + order[positions], np.arange(count))
    batch = segment.batch
    for name in changes.schema.names:
        index = batch.schema.get_field_index(name)
        both = pa.concat_arrays([batch.column(index), changes.column(name)])
        batch = batch.set_column(index, batch.schema.field(index), take(both, source))
    return Segment(batch, segment.row_ids)
