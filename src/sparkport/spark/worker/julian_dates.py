"""Dates of early versions of Spark: counted in the Julian calendar before 1582, and so in their files.

Runs inside Spark's tasks, like `parquet`, and like it imports nothing else of the package.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_VERSION = b"org.apache.spark.version"
_ZONE = b"org.apache.spark.timeZone"
_DATES = b"org.apache.spark.legacyDateTime"
_INT96 = b"org.apache.spark.legacyINT96"
_DATES_CORRECT_SINCE = b"3.0."
_INT96_CORRECT_SINCE = b"3.1."
_UTC = frozenset({b"UTC", b"Z", b"GMT", b"Etc/UTC", b"Etc/GMT", b"+00:00"})

_DAY = 86_400_000_000
_SWITCH = -141_427  # the day on which the calendars agree again: 1582-10-15
_MARCH_OF_YEAR_0 = -719_470  # the first of March in the Julian calendar
_SETTLED = -2_208_988_800_000_000 + 2 * _DAY  # from 1900 on no time zone has its local mean time any more


def legacy_columns(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the columns of a file, or the paths of nested ones, whose dates or times are of that kind."""
    said = metadata.metadata or {}
    version = said.get(_VERSION, b"9")
    dates = _DATES in said or version < _DATES_CORRECT_SINCE
    int96 = _INT96 in said or version < _INT96_CORRECT_SINCE
    if not dates and not int96:
        return frozenset()
    found = set()
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        is_int96 = column.physical_type == "INT96"
        is_temporal = column.logical_type.type in {"DATE", "TIMESTAMP"}
        if (is_int96 and int96) or (is_temporal and dates):
            found.add(column.path)
    return frozenset(found)


def rebase(batch: pa.RecordBatch, columns: frozenset[str], metadata: pq.FileMetaData) -> pa.RecordBatch:
    """Return the rows with the same dates in today's calendar. Raises ValueError where that is unsure."""
    if any(path.partition(".")[0] in batch.schema.names for path in columns if "." in path):
        raise ValueError("dates inside lists or structs, in a calendar of early versions of Spark")
    is_utc = (metadata.metadata or {}).get(_ZONE, b"UTC") in _UTC
    for index, field in enumerate(batch.schema):
        if field.name in columns:
            batch = batch.set_column(index, field, _rebase_array(batch.column(index), is_utc=is_utc))
    return batch


def _rebase_array(array: pa.Array, *, is_utc: bool) -> pa.Array:
    import numpy as np  # noqa: PLC0415  (few files need it, and workers start sooner without)

    if pa.types.is_date32(array.type):
        days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return _like(array, (days + _shift(days)).astype(np.int32))
    moments = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    values = moments.fill_null(0).to_numpy(zero_copy_only=False)
    if not is_utc and (values < _SETTLED).any():
        raise ValueError("times before 1900 of another time zone, in a calendar of early versions of Spark")
    return _like(array, values + _shift(values // _DAY) * _DAY)


def _shift(days: Any) -> Any:  # noqa: ANN401  (arrays of numpy)
    """Return by how many days the same date has another number in the calendar of today."""
    import numpy as np  # noqa: PLC0415  (as above)

    starts, shifts = _shifts()
    return np.asarray(shifts)[np.searchsorted(np.asarray(starts), days, side="right")]


def _shifts() -> tuple[list[int], list[int]]:
    """Return when the shift changes, and the shifts before, between and after.

    In centuries that four does not divide, today's calendar has one day less.
    """
    centuries = [year for year in range(100, 1600, 100) if year % 400]
    starts = [365 * year + year // 4 + _MARCH_OF_YEAR_0 for year in centuries]
    return [*starts, _SWITCH], [*range(2, 2 - len(starts) - 1, -1), 0]


def _like(array: pa.Array, values: Any) -> pa.Array:  # noqa: ANN401  (as above)
    kind = array.type if pa.types.is_date32(array.type) else pa.timestamp("us", array.type.tz)
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, mask=mask).cast(kind).cast(array.type, safe=False)
