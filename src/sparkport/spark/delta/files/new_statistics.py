"""The statistics of a new data file, as Spark would write them into the log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INDEXED_COLUMNS = 32  # Spark's own default
_PREFIX = 32  # characters of a text that are kept
_GREATEST = "\U0010ffff"
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999
_DAY_MICROSECONDS = 86_400_000_000


_Path = tuple[str, ...]


class NewStatistics:
    """The statistics of a new file for the log, gathered batch by batch."""

    def __init__(self, arrow_schema: pa.Schema) -> None:
        """Begin with no rows; the columns have their physical names."""
        leaves = [leaf for field in arrow_schema for leaf in _leaves((), field)]
        kept = leaves[: _INDEXED_COLUMNS - 1] + leaves[_INDEXED_COLUMNS - 1 :][-1:]
        self._rows = 0
        self._columns = {path: _Column(kind) for path, kind in kept}

    def add(self, rows: pa.Table) -> None:
        """Take more rows into account."""
        self._rows += rows.num_rows
        for name in rows.column_names:
            self._add((name,), rows.column(name))

    def as_json(self) -> str:
        """Return the statistics of all rows so far."""
        ranges = {path: column.range() for path, column in self._columns.items()}
        lows = {path: found[0] for path, found in ranges.items() if found is not None}
        highs = {path: found[1] for path, found in ranges.items() if found is not None}
        nulls = {path: str(column.nulls) for path, column in self._columns.items()}
        parts = (("minValues", _tree(lows)), ("maxValues", _tree(highs)), ("nullCount", _tree(nulls)))
        return _object([("numRecords", str(self._rows)), *parts, ("tightBounds", "true")])

    def _add(self, path: _Path, values: pa.ChunkedArray) -> None:
        if path in self._columns:
            self._columns[path].add(values)
        elif pa.types.is_struct(values.type):
            # With the nulls of the struct: a field of no struct is null.
            for field, inner in zip(values.type, values.flatten(), strict=True):
                self._add((*path, field.name), inner)


def _leaves(above: _Path, field: pa.Field) -> Iterator[tuple[_Path, pa.DataType]]:
    """Yield what has statistics of its own: columns, and fields of structs in them."""
    path = (*above, field.name)
    if not pa.types.is_struct(field.type):
        yield path, field.type
        return
    for inner in field.type:
        yield from _leaves(path, inner)


class _Column:
    """The nulls of a column, and the least and the greatest of its values where it has such."""

    def __init__(self, kind: pa.DataType) -> None:
        self.nulls = 0
        self._kind = kind
        self._is_ordered = _is_ordered(kind)
        self._ends: tuple[Any, Any] | None = None

    def add(self, column: pa.ChunkedArray) -> None:
        self.nulls += column.null_count
        if not self._is_ordered or column.null_count == len(column):
            return
        if pa.types.is_floating(self._kind) and pc.any(pc.is_nan(column)).as_py():
            self._is_ordered, self._ends = False, None
            return
        found = pc.min_max(_comparable(column))
        low, high = found["min"].as_py(), found["max"].as_py()
        before = self._ends or (low, high)
        self._ends = min(before[0], low), max(before[1], high)

    def range(self) -> tuple[str, str] | None:
        """Return both ends as the log has them, None if it can say nothing."""
        if self._ends is None:
            return None
        low, high = self._ends
        if pa.types.is_timestamp(self._kind):
            return _moments(low, high, "Z" if self._kind.tz else "")
        if pa.types.is_date32(self._kind):
            return _days(low, high)
        if isinstance(low, str):
            return json.dumps(low[:_PREFIX]), json.dumps(_not_less(high))
        if any(isinstance(end, float) and math.isinf(end) for end in (low, high)):
            return None
        return _number(low), _number(high)


def _object(members: Iterable[tuple[str, str]]) -> str:
    # By hand: a decimal keeps all its digits.
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members) + "}"


def _tree(leaves: Mapping[_Path, str]) -> str:
    """Return values by path, each as JSON, as nested objects."""
    groups: dict[str, dict[_Path, str]] = {}
    for (name, *rest), text in leaves.items():
        groups.setdefault(name, {})[tuple(rest)] = text
    return _object((name, inner[()] if () in inner else _tree(inner)) for name, inner in groups.items())


def _is_ordered(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    return bool(is_number or is_time or pa.types.is_string(kind))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as numbers: Python has not all of them."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def _number(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _not_less(text: str) -> str:
    return text if len(text) <= _PREFIX else text[:_PREFIX] + _GREATEST


def _days(low: int, high: int) -> tuple[str, str] | None:
    if not _DAYS[0] <= low <= high <= _DAYS[1]:
        return None
    return json.dumps(str(np.datetime64(low, "D"))), json.dumps(str(np.datetime64(high, "D")))


def _moments(low: int, high: int, zone: str) -> tuple[str, str] | None:
    """Return times cut to milliseconds: readers know that the greatest may be almost one later."""
    if not _DAYS[0] * _DAY_MICROSECONDS <= low <= high < _DAYS[1] * _DAY_MICROSECONDS:
        return None
    first, last = (json.dumps(f"{np.datetime64(value // 1000, 'ms')}{zone}") for value in (low, high))
    return first, last
