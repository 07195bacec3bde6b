"""Numbers for rows that have no id yet, such as can never be an id.

A snapshot is cut into files always in the same way, so that the number of a row is made of the
place of its file and its own place in that. Whoever sends one back is told to read again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.spark.delta.actions import DataFile
from sparkport.spark.delta.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import bounds
from sparkport.spark.model.columns import TableColumn, has_ids, table_columns

_POSITION_BITS = 36
_MAX_FILES = (1 << (63 - _POSITION_BITS)) - 1
# Numbers that are negative by mistake are common, and none of ours.
_GREATEST = -(1 << _POSITION_BITS)

OF_NO_FILE = _GREATEST * _MAX_FILES - 1
"""The first number of rows that are in no file yet; later ones are less."""
OF_ALL_FILES = _GREATEST - 1
"""The first number where rows are counted through all files."""


def are_provisional(ids: npt.NDArray[np.int64]) -> bool:
    """Tell whether there are such numbers among row ids."""
    return bool((ids < _GREATEST).any())


def may_lack_ids(file: DataFile, column: TableColumn) -> bool:
    """Tell whether rows of a file may have no id, by what the log says of the column of the ids."""
    return column.is_absent or bounds(file, column.logged).null_count != 0


def lacks_all_ids(file: DataFile, column: TableColumn) -> bool:
    """Tell whether the log is sure that no row of a file has an id."""
    return column.is_absent or bounds(file, column.logged).null_count == file.physical_rows is not None


def first_numbers(snapshot: DeltaSnapshot, column: TableColumn) -> dict[str, int]:
    """Return, by the path of each file that may have rows without ids, the number of its first row.

    The row after it has the number that is one less, whether deleted or not.
    """
    return {
        file.path: _GREATEST * (place + 1) - 1
        for place, file in enumerate(snapshot.files)
        if may_lack_ids(file, column)
    }


def as_stored(ids: pa.Array) -> pa.Array:
    """Return the ids of rows as they are stored: null where a row has a number only."""
    return pc.if_else(pc.less(ids, pa.scalar(_GREATEST, pa.int64())), pa.scalar(None, pa.int64()), ids)


def greatest_id(snapshot: DeltaSnapshot) -> int:
    """Return the greatest id that the log knows of, -1 if it knows of none."""
    if not has_ids(snapshot.metadata):
        return -1
    column = table_columns(snapshot.metadata)[-1].logged
    found = (bounds(file, column).maximum for file in snapshot.files)
    return max((value.as_py() for value in found if value is not None), default=-1)
