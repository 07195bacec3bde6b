"""Provisional ids: negative stand-ins for rows that have no row id yet.

The files of a snapshot have a fixed order, so the provisional id of a row is made of the
position of its file and its own position in the file. A statement that sends one back gets an error
that asks to read the rows again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import bounds
from sparkport.spark.model.columns import TableColumn, has_ids, table_columns

_POSITION_BITS = 36
_MAX_FILES = (1 << (63 - _POSITION_BITS)) - 1
# Small negative numbers are common mistakes of clients, so they are never provisional ids.
_GREATEST = -(1 << _POSITION_BITS)

OF_NO_FILE = _GREATEST * _MAX_FILES - 1
"""The first provisional id of rows that are in no file yet; the next ones are less."""
OF_ALL_FILES = _GREATEST - 1
"""The first provisional id where rows are counted across all files."""


def are_provisional(ids: npt.NDArray[np.int64]) -> bool:
    """Return whether there are provisional ids among row ids."""
    return bool((ids < _GREATEST).any())


def may_lack_ids(file: DataFile, column: TableColumn) -> bool:
    """Return whether rows of a file may lack an id, judging by the log's statistics."""
    return column.is_absent or bounds(file, column.logged).null_count != 0


def lacks_all_ids(file: DataFile, column: TableColumn) -> bool:
    """Return whether no row of a file has an id, judging by the log's statistics."""
    return column.is_absent or bounds(file, column.logged).null_count == file.physical_rows is not None


def first_numbers(snapshot: DeltaSnapshot, column: TableColumn) -> dict[str, int]:
    """Return the provisional id of the first row of each file that may have rows without ids, by path.

    Each next row of the file, deleted or not, has the next lower id.
    """
    return {
        file.path: _GREATEST * (position + 1) - 1
        for position, file in enumerate(snapshot.files)
        if may_lack_ids(file, column)
    }


def null_if_provisional(ids: pa.Array) -> pa.Array:
    """Return row ids as they are stored: null in place of a provisional id."""
    return pc.if_else(pc.less(ids, pa.scalar(_GREATEST, pa.int64())), pa.scalar(None, pa.int64()), ids)


def greatest_id(snapshot: DeltaSnapshot) -> int:
    """Return the greatest row id in the log's statistics, -1 if there is none."""
    if not has_ids(snapshot.metadata):
        return -1
    column = table_columns(snapshot.metadata)[-1].logged
    maxima = (bounds(file, column).maximum for file in snapshot.files)
    return max((value.as_py() for value in maxima if value is not None), default=-1)
