"""What the statistics in a log say of a column."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.catalog.tables import ColumnStatistics
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.values import (
    exact_value,
    has_sure_zone,
    lower_bound,
    partition_scalar,
    upper_bound,
)

Path = tuple[str, ...]

_PREFIX = 32  # characters that Spark keeps of a string unless told otherwise
_PREFIX_PROPERTY = "delta.dataSkippingStringPrefixLength"


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column, or a field of structs in one, as files have it: physical names and storage type."""

    path: Path
    arrow_type: pa.DataType


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """The statistics of one file as written, by physical path.

    Without `tight`, bounds hold but need not be values of the file, and a count of nulls
    only says something where it is zero or all. Deleted rows are counted.
    """

    row_count: int | None = None
    minimum: Mapping[Path, Any] = field(default_factory=dict)
    maximum: Mapping[Path, Any] = field(default_factory=dict)
    null_count: Mapping[Path, int] = field(default_factory=dict)
    tight: bool = True


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds for every row of a file; None is unknown. `null_count` is of all rows, deleted ones too."""

    minimum: pa.Scalar | None
    maximum: pa.Scalar | None
    null_count: int | None


_UNKNOWN = Bounds(None, None, None)


def file_statistics(file: DataFile) -> FileStatistics:
    """Return the statistics of a file; such as cannot be understood are none."""
    if file.statistics is None:
        return FileStatistics()
    try:
        return _parse(file.statistics)
    except (ValueError, AttributeError):
        return FileStatistics()


def bounds(file: DataFile, column: StoredColumn) -> Bounds:
    """Return what is sure of a column in a file: enough to skip it, not to know its values."""
    if column.path[0] in file.partition_values:
        return _partition_bounds(file, column)
    statistics = file_statistics(file)
    nulls = statistics.null_count.get(column.path)
    if not statistics.tight and nulls not in {0, statistics.row_count}:
        nulls = None
    return Bounds(
        lower_bound(statistics.minimum.get(column.path), column.arrow_type),
        upper_bound(statistics.maximum.get(column.path), column.arrow_type),
        nulls,
    )


def exact_statistics(snapshot: DeltaSnapshot, column: StoredColumn) -> ColumnStatistics | None:
    """Return statistics that are sure to be exact for a whole table, or None.

    Where the nulls are sure and the range is not, the range is null scalars.
    """
    max_length = _max_string_length(snapshot)
    has_null = has_not_null = False
    ranged = True
    lows: list[pa.Scalar] = []
    highs: list[pa.Scalar] = []
    for file in snapshot.files:
        if file.row_count == 0:
            continue
        of_file = _exact(file, column, max_length)
        if of_file is None:
            return None
        has_null = has_null or of_file.has_null
        has_not_null = has_not_null or of_file.has_not_null
        if of_file.has_not_null:
            ranged = ranged and of_file.minimum.is_valid and of_file.maximum.is_valid
            lows.append(of_file.minimum)
            highs.append(of_file.maximum)
    unknown = pa.scalar(None, column.arrow_type)
    has_range = ranged and bool(lows)
    return ColumnStatistics(
        minimum=pc.min(pa.array(lows, column.arrow_type)) if has_range else unknown,
        maximum=pc.max(pa.array(highs, column.arrow_type)) if has_range else unknown,
        has_null=has_null,
        has_not_null=has_not_null,
        distinct_count=0,
    )


def _exact(file: DataFile, column: StoredColumn, max_length: int) -> ColumnStatistics | None:
    """Return exact statistics of a file that has rows."""
    stored = bounds(file, column)
    rows = file.physical_rows
    if rows is None or file.row_count is None or stored.null_count is None:
        return None
    if file.deleted_rows and stored.null_count not in {0, rows}:
        return None  # the nulls may all be deleted, or all the others
    low, high = _exact_range(file, column, stored, max_length)
    unknown = pa.scalar(None, column.arrow_type)
    return ColumnStatistics(
        minimum=unknown if low is None else low,
        maximum=unknown if high is None else high,
        has_null=stored.null_count > 0,
        has_not_null=stored.null_count < rows,
        distinct_count=0,
    )


def _exact_range(
    file: DataFile, column: StoredColumn, stored: Bounds, max_length: int
) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    if column.path[0] in file.partition_values:
        return stored.minimum, stored.maximum
    statistics = file_statistics(file)
    if file.deleted_rows or not statistics.tight:
        return None, None
    return (
        exact_value(statistics.minimum.get(column.path), column.arrow_type, max_length),
        exact_value(statistics.maximum.get(column.path), column.arrow_type, max_length),
    )


def _partition_bounds(file: DataFile, column: StoredColumn) -> Bounds:
    text = file.partition_values[column.path[0]]
    if not text:
        return Bounds(None, None, file.physical_rows)
    try:
        if not has_sure_zone(text, column.arrow_type):
            return Bounds(None, None, 0)
        value = partition_scalar(text, column.arrow_type)
    except (ValueError, KeyError, ArithmeticError):
        return _UNKNOWN  # a reader of the rows will say what is wrong with it
    if value.as_py() != value.as_py():  # NaN
        return Bounds(None, None, 0)
    return Bounds(value, value, 0)


def _max_string_length(snapshot: DeltaSnapshot) -> int:
    length = snapshot.metadata.configuration.get(_PREFIX_PROPERTY, "")
    return min(_PREFIX, int(length)) if length.isdigit() else _PREFIX


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> FileStatistics:
    parsed = json.loads(text, parse_float=Decimal)
    return FileStatistics(
        row_count=parsed.get("numRecords"),
        minimum=dict(_leaves(parsed.get("minValues"), ())),
        maximum=dict(_leaves(parsed.get("maxValues"), ())),
        null_count=dict(_leaves(parsed.get("nullCount"), ())),
        tight=parsed.get("tightBounds", True) is not False,
    )


def _leaves(values: Any, above: Path) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401  (JSON is untyped)
    for name, value in (values or {}).items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        elif value is not None:
            yield (*above, name), value
