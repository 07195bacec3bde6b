"""Rows that the log tells without a look at the files: for COUNT(*), above all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sparkport.catalog.rowid import is_rowid
from sparkport.spark.columns import TableColumn
from sparkport.spark.delta.actions import DataFile
from sparkport.spark.delta.statistics import StoredColumn, file_statistics

_BATCH_ROWS = 1 << 16


def foreseen(files: Sequence[DataFile], wanted: Sequence[TableColumn]) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a scan of no columns, or of the row id alone; None if the files must be read.

    DuckDB counts rows by asking for their ids. Those of a file that has as many rows as there
    are numbers from its least id to its greatest are just these numbers.
    """
    if not wanted:
        counts = [file.row_count for file in files]
        known = [count for count in counts if count is not None]
        return _without_columns(sum(known)) if len(known) == len(counts) else None
    if not all(is_rowid(column.exact) for column in wanted):
        return None
    ranges = [_id_range(file, wanted[0].logged) for file in files]
    sure = [ids for ids in ranges if ids is not None]
    return _ids(sure, [column.exact.name for column in wanted]) if len(sure) == len(ranges) else None


def _id_range(file: DataFile, column: StoredColumn) -> range | None:
    known = file_statistics(file)
    low, high = known.minimum.get(column.path), known.maximum.get(column.path)
    if (
        file.row_count is None
        or file.deleted_rows
        or not known.tight
        or known.null_count.get(column.path) != 0
    ):
        return None
    if not isinstance(low, int) or not isinstance(high, int) or high - low + 1 != file.row_count:
        return None
    return range(low, high + 1)


def _without_columns(count: int) -> Iterator[pa.RecordBatch]:
    while count > 0:
        rows = min(count, _BATCH_ROWS)
        yield pa.record_batch([pa.nulls(rows)], [""]).select([])
        count -= rows


def _ids(ranges: Sequence[range], names: list[str]) -> Iterator[pa.RecordBatch]:
    for ids in ranges:
        for start in range(ids.start, ids.stop, _BATCH_ROWS):
            values = pa.array(np.arange(start, min(start + _BATCH_ROWS, ids.stop), dtype=np.int64))
            yield pa.record_batch([values] * len(names), names)
