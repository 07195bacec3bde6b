"""The statistics of a new data file, as Spark would write them into the log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INDEXED_COLUMNS = 32  # Spark's own default
_PREFIX = 32  # characters of a text that are kept
_GREATEST = "\U0010ffff"
_DAYS = (-719_162, 2_932_896)  # the years 1 to 9999
_DAY_MICROSECONDS = 86_400_000_000


def described(rows: pa.Table) -> str:
    """Return the statistics of rows of flat columns under their physical names, as JSON."""
    names = rows.schema.names[: _INDEXED_COLUMNS - 1] + rows.schema.names[_INDEXED_COLUMNS - 1 :][-1:]
    lows, highs, nulls = [], [], []
    for name in names:
        column = rows.column(name)
        nulls.append((name, str(column.null_count)))
        found = _range(column)
        if found is not None:
            lows.append((name, found[0]))
            highs.append((name, found[1]))
    parts = (("minValues", _object(lows)), ("maxValues", _object(highs)), ("nullCount", _object(nulls)))
    return _object([("numRecords", str(rows.num_rows)), *parts, ("tightBounds", "true")])


def _object(members: Iterable[tuple[str, str]]) -> str:
    # By hand: a decimal keeps all its digits.
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members) + "}"


def _range(column: pa.ChunkedArray) -> tuple[str, str] | None:
    kind = column.type
    if column.null_count == len(column):
        return None
    if pa.types.is_timestamp(kind):
        return _moments(column.cast(pa.int64()), "Z" if kind.tz else "")
    if pa.types.is_date32(kind):
        return _days(column.cast(pa.int32()))
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        return None
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not is_number and not pa.types.is_string(kind):
        return None
    low, high = _least_and_greatest(column)
    if isinstance(low, str) and isinstance(high, str):
        return json.dumps(low[:_PREFIX]), json.dumps(_not_less(high))
    if any(isinstance(end, float) and math.isinf(end) for end in (low, high)):
        return None
    return _number(low), _number(high)


def _least_and_greatest(column: pa.ChunkedArray) -> tuple[object, object]:
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()


def _number(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _not_less(text: str) -> str:
    return text if len(text) <= _PREFIX else text[:_PREFIX] + _GREATEST


def _days(column: pa.ChunkedArray) -> tuple[str, str] | None:
    found = [int(str(value)) for value in _least_and_greatest(column)]
    if not _DAYS[0] <= found[0] <= found[1] <= _DAYS[1]:
        return None
    low, high = (json.dumps(str(np.datetime64(value, "D"))) for value in found)
    return low, high


def _moments(column: pa.ChunkedArray, zone: str) -> tuple[str, str] | None:
    """Return times cut to milliseconds: readers know that the greatest may be almost one later."""
    found = [int(str(value)) for value in _least_and_greatest(column)]
    if not _DAYS[0] * _DAY_MICROSECONDS <= found[0] <= found[1] < _DAYS[1] * _DAY_MICROSECONDS:
        return None
    low, high = (json.dumps(f"{np.datetime64(value // 1000, 'ms')}{zone}") for value in found)
    return low, high
