"""Compare values as DuckDB does.

DuckDB's floats are totally ordered: NaN equals NaN and is greater than all else. All
numbers are compared by value, strings and binaries byte by byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.memory.casts import convert
from sparkport.memory.values import TIMESTAMP_TZ, InexactError, Value, call, cast, storage

_KERNELS = {
    ComparisonOperator.EQUAL: "equal",
    ComparisonOperator.NOT_EQUAL: "not_equal",
    ComparisonOperator.LESS: "less",
    ComparisonOperator.LESS_OR_EQUAL: "less_equal",
    ComparisonOperator.GREATER: "greater",
    ComparisonOperator.GREATER_OR_EQUAL: "greater_equal",
}
_EXACT_TYPES = {
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.uuid(),
    pa.json_(pa.string()),
    TIMESTAMP_TZ,
}
_UNITS = ("s", "ms", "us", "ns")
_MAX_DECIMAL256 = 76


def compare(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    """Return the result of a comparison, null as in SQL."""
    left, right = _to_common_type(left, right)
    match operator:
        case ComparisonOperator.DISTINCT:
            return _distinct(left, right)
        case ComparisonOperator.NOT_DISTINCT:
            return call("invert", _distinct(left, right))
        case _ if types.is_floating(left.type):
            return _compare_floats(operator, left, right)
        case _:
            return call(_KERNELS[operator], left, right)


def is_in(child: Value, options: Sequence[Value]) -> Value:
    """Return whether the child equals one of the options, null as in SQL's IN."""
    plain, constants = storage(child), [storage(option) for option in options]
    hashable = child.type in _EXACT_TYPES or types.is_integer(child.type) or types.is_decimal(child.type)
    if not (
        hashable
        and all(isinstance(constant, pa.Scalar) for constant in constants)
        and all(option.type == child.type for option in options)
    ):
        result = compare(ComparisonOperator.EQUAL, child, options[0])
        for option in options[1:]:
            result = call("or_kleene", result, compare(ComparisonOperator.EQUAL, child, option))
        return result
    valid = [constant for constant in constants if isinstance(constant, pa.Scalar) and constant.is_valid]
    members = pa.array(valid, plain.type)
    result = call("is_in", plain, options=pc.SetLookupOptions(members, skip_nulls=True))
    null = pa.scalar(None, pa.bool_())
    if len(valid) < len(constants):
        # x IN (1, NULL) is true or null, never false.
        result = call("if_else", result, result, null)
    return call("if_else", call("is_valid", plain), result, null)


def _distinct(left: Value, right: Value) -> Value:
    differs = (
        _compare_floats(ComparisonOperator.NOT_EQUAL, left, right)
        if types.is_floating(left.type)
        else call("not_equal", left, right)
    )
    return call("coalesce", differs, call("xor", call("is_null", left), call("is_null", right)))


def _compare_floats(operator: ComparisonOperator, left: Value, right: Value) -> Value:
    match operator:
        case ComparisonOperator.EQUAL:
            both_nan = call("and", call("is_nan", left), call("is_nan", right))
            return call("or", call("equal", left, right), both_nan)
        case ComparisonOperator.LESS:
            nan_above = call("and", call("invert", call("is_nan", left)), call("is_nan", right))
            return call("or", call("less", left, right), nan_above)
        case ComparisonOperator.GREATER:
            return _compare_floats(ComparisonOperator.LESS, right, left)
        case ComparisonOperator.NOT_EQUAL:
            return call("invert", _compare_floats(ComparisonOperator.EQUAL, left, right))
        case ComparisonOperator.GREATER_OR_EQUAL:
            return call("invert", _compare_floats(ComparisonOperator.LESS, left, right))
        case _:
            return call("invert", _compare_floats(ComparisonOperator.LESS, right, left))


def _to_common_type(left: Value, right: Value) -> tuple[Value, Value]:
    """Return both values in one type in which their order is DuckDB's."""
    if left.type == right.type and left.type in _EXACT_TYPES:
        return storage(left), storage(right)
    if {left.type, right.type} == {pa.string(), pa.binary()}:
        # A text constant that is not UTF-8 comes as binary; DuckDB compares bytes anyway.
        return cast(left, pa.binary()), cast(right, pa.binary())
    common = _common_type(left.type, right.type)
    return convert(left, common), convert(right, common)


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if types.is_date32(left) and types.is_timestamp(right):
        left = pa.timestamp("s")
    if types.is_date32(right) and types.is_timestamp(left):
        right = pa.timestamp("s")
    if isinstance(left, pa.TimestampType) and isinstance(right, pa.TimestampType):
        if left.tz is None and right.tz is None:
            return pa.timestamp(max(left.unit, right.unit, key=_UNITS.index))
    elif types.is_floating(left) or types.is_floating(right):
        return _common_float(left, right)
    elif left == right and types.is_integer(left):
        return left
    elif _is_exact_number(left) and _is_exact_number(right):
        return _common_number(left, right)
    raise InexactError(f"comparison of {left} and {right}")


def _is_exact_number(arrow_type: pa.DataType) -> bool:
    return bool(types.is_integer(arrow_type) or types.is_decimal(arrow_type))


def _common_float(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    # DuckDB compares integers with a FLOAT as FLOATs; decimals it converts in its own way.
    others = {arrow_type for arrow_type in (left, right) if not types.is_floating(arrow_type)}
    if types.is_float16(left) or types.is_float16(right) or not all(map(types.is_integer, others)):
        raise InexactError(f"comparison of {left} and {right}")
    return pa.float64() if pa.float64() in (left, right) else pa.float32()


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if types.is_integer(left) and types.is_integer(right) and pa.uint64() not in (left, right):
        return pa.int64()
    sizes = [_digits(left), _digits(right)]
    scale = max(size[1] for size in sizes)
    precision = max(size[0] - size[1] for size in sizes) + scale
    if min(size[1] for size in sizes) < 0 or precision > _MAX_DECIMAL256:
        raise InexactError(f"comparison of {left} and {right}")
    # Arrow compares decimals of one type only.
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)  # noqa: PLR2004


def _digits(arrow_type: pa.DataType) -> tuple[int, int]:
    """Return the precision and scale of a number."""
    if isinstance(arrow_type, pa.Decimal128Type | pa.Decimal256Type):
        return arrow_type.precision, arrow_type.scale
    return 20, 0
