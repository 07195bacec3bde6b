"""Rows that are known from the log alone, without reading data files: for COUNT(*), above all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sparkport.catalog.rowid import is_rowid
from sparkport.spark.delta.files.deletion_vectors import keep_mask
from sparkport.spark.delta.log.actions import DataFile, DeletionVector
from sparkport.spark.delta.log.snapshots import total_rows
from sparkport.spark.delta.statistics import StoredColumn, file_statistics
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.row_ids.provisional import lacks_all_ids

_BATCH_ROWS = 1 << 16


def metadata_only_rows(
    files: Sequence[DataFile],
    columns: Sequence[TableColumn],
    *,
    root: str = "",
    numbers: Mapping[str, int] | None = None,
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a scan of no columns, or of the row id alone; None if the files must be read.

    DuckDB counts rows by asking for their ids. Those of a file that has as many rows as there
    are numbers from its least id to its greatest are just these numbers; where no row has an id,
    they are the numbers that begin with the one in `numbers`, by the path of the file.
    """
    if not columns:
        row_count = total_rows(files)
        return None if row_count is None else _without_columns(row_count)
    if not all(is_rowid(column.exact) for column in columns):
        return None
    ids_by_file = [_file_ids(root, file, columns[0], (numbers or {}).get(file.path)) for file in files]
    exact = [ids for ids in ids_by_file if ids is not None]
    if len(exact) < len(ids_by_file):
        return None
    names = [column.exact.name for column in columns]
    return (pa.record_batch([pa.array(ids)] * len(names), names) for batches in exact for ids in batches)


def _file_ids(root: str, file: DataFile, column: TableColumn, first: int | None) -> Iterable[Ids] | None:
    if first is None:
        return _id_range(file, column.logged)
    if file.physical_rows is None or not lacks_all_ids(file, column):
        return None
    if file.deletion_vector is None:
        return _ranges(first, file.physical_rows, -1)
    return _undeleted(root, file.deletion_vector, first, file.physical_rows)


def _id_range(file: DataFile, column: StoredColumn) -> Iterable[Ids] | None:
    statistics = file_statistics(file)
    low, high = statistics.minimum.get(column.path), statistics.maximum.get(column.path)
    if (
        file.row_count is None
        or file.deleted_rows
        or not statistics.tight
        or statistics.null_count.get(column.path) != 0
    ):
        return None
    if not isinstance(low, int) or not isinstance(high, int) or high - low + 1 != file.row_count:
        return None
    return _ranges(low, file.row_count, 1)


def _ranges(first: int, count: int, step: int) -> Iterator[Ids]:
    for start in range(0, count, _BATCH_ROWS):
        yield first + step * np.arange(start, min(start + _BATCH_ROWS, count), dtype=np.int64)


def _undeleted(root: str, vector: DeletionVector, first: int, count: int) -> Iterator[Ids]:
    """Yield the numbers of the rows that a deletion vector leaves."""
    mask = np.frombuffer(keep_mask(vector, root, count), np.uint8)
    for start in range(0, count, _BATCH_ROWS):
        rows = min(_BATCH_ROWS, count - start)
        bits = np.unpackbits(mask[start // 8 : (start + rows + 7) // 8], count=rows, bitorder="little")
        yield first - start - np.flatnonzero(bits).astype(np.int64)


def _without_columns(count: int) -> Iterator[pa.RecordBatch]:
    while count > 0:
        rows = min(count, _BATCH_ROWS)
        yield pa.record_batch([pa.nulls(rows)], [""]).select([])
        count -= rows
