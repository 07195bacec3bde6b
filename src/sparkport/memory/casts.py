"""Convert values exactly as DuckDB's CAST does, or raise InexactError.

Only conversions that give the same values in both are implemented. Where a value cannot be
converted, Arrow raises: DuckDB then either fails too or gives NULL, and the caller
filters nothing.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sparkport.memory.values import HUGEINT, InexactError, Value, bounds, call, cast

_UNITS_PER_DAY = {
    "s": 86_400,
    "ms": 86_400_000,
    "us": 86_400_000_000,
    "ns": 86_400_000_000_000,
}
_FAR_DAY = 100_000_000


def convert(value: Value, target: pa.DataType, *, lenient: bool = False) -> Value:
    """Return the value as another type; with `lenient`, as TRY_CAST does."""
    source = value.type
    if source == target:
        return value
    if lenient and _fails_differently(source, target):
        raise InexactError(f"TRY_CAST from {source} to {target}")
    if types.is_null(source):
        return cast(value, target)
    if types.is_integer(source) or types.is_boolean(source):
        return _from_integer(value, target)
    if types.is_floating(source):
        return _from_float(value, target)
    if types.is_decimal(source) and (types.is_decimal(target) or types.is_integer(target)):
        return cast(value, target)
    if types.is_date32(source) and _is_plain_timestamp(target):
        return cast(value, target)
    if _is_plain_timestamp(source):
        return _from_timestamp(value, target)
    raise InexactError(f"CAST from {source} to {target}")


def _fails_differently(source: pa.DataType, target: pa.DataType) -> bool:
    # This type also stands for UHUGEINT, which has no negative numbers.
    return bool(target == HUGEINT or (types.is_floating(source) and target != pa.float64()))


def _is_plain_timestamp(arrow_type: pa.DataType) -> bool:
    return isinstance(arrow_type, pa.TimestampType) and arrow_type.tz is None


def _from_integer(value: Value, target: pa.DataType) -> Value:
    if types.is_float32(target) or types.is_float64(target):
        return cast(value, target, safe=False)
    if (
        types.is_integer(target)
        or types.is_boolean(target)
        or types.is_decimal(target)
        or target == pa.string()
    ):
        return cast(value, target)
    raise InexactError(f"CAST from {value.type} to {target}")


def _from_float(value: Value, target: pa.DataType) -> Value:
    if types.is_float16(value.type):
        raise InexactError("DuckDB has no half floats")
    if types.is_float32(target) or types.is_float64(target):
        return cast(value, target, safe=False)
    if types.is_integer(target):
        rounded = call("round", value, options=pc.RoundOptions(0, "half_to_even"))
        return cast(rounded, target)
    raise InexactError(f"CAST from {value.type} to {target}")


def _from_timestamp(value: Value, target: pa.DataType) -> Value:
    if _is_plain_timestamp(target):
        return cast(value, target)
    if not types.is_date32(target):
        raise InexactError(f"CAST from {value.type} to {target}")
    assert isinstance(value.type, pa.TimestampType)
    # Beyond this limit are DuckDB's infinities, and values that do not fit a date.
    limit = min(_FAR_DAY * _UNITS_PER_DAY[value.type.unit], 2**63 - 2)
    if (extremes := bounds(value)) is not None and not -limit <= extremes[0] <= extremes[1] <= limit:
        raise InexactError("a timestamp that is infinite or far away")
    return cast(value, target, safe=False)
