"""Arrow data as DuckDB sees it: the operands of predicates.

DuckDB knows fewer types than Arrow. `load` brings each array to the one Arrow type that
stands for its DuckDB type, so that the other modules handle that one only. Extension types
whose order or text form is not that of their storage stay what they are.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Value: TypeAlias = "pa.Array[Any] | pa.Scalar[Any]"

TIMESTAMP_TZ = pa.timestamp("us", tz="UTC")
HUGEINT = pa.decimal256(39, 0)
_COMMON_TYPES = {pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.date32()}
_EXTENSION = b"ARROW:extension:name"


class InexactError(Exception):
    """The expression cannot be evaluated exactly as DuckDB does."""


def call(function: str, *arguments: Value, options: pc.FunctionOptions | None = None) -> Value:
    """Apply an Arrow compute function."""
    result = pc.call_function(function, list(arguments), options)
    if isinstance(result, pa.Array | pa.Scalar):
        return result
    raise InexactError(f"{function} did not return one array")


def cast(value: Value, target: pa.DataType, *, safe: bool = True) -> Value:
    """Convert to another Arrow type; `safe` raises rather than change a value."""
    if value.type == target:
        return value
    options = pc.CastOptions.safe(target) if safe else pc.CastOptions.unsafe(target)
    return call("cast", value, options=options)


def bounds(value: Value) -> tuple[int, int] | None:
    """Return the least and the greatest of the integers, dates or timestamps; None if all are null."""
    if pa.types.is_date32(value.type):
        value = cast(value, pa.int32())
    extremes = call("min_max", cast(value, pa.int64())).as_py()
    return None if extremes["min"] is None else (extremes["min"], extremes["max"])


def has_unknown_extension(field: pa.Field[Any]) -> bool:
    """Return whether the field has an unregistered extension type, of which only the storage is visible."""
    return field.metadata is not None and _EXTENSION in field.metadata


def storage(value: Value) -> Value:
    """Return the plain values of an extension type."""
    if isinstance(value, pa.ExtensionArray):
        return load(value.storage)
    if isinstance(value, pa.ExtensionScalar):
        return load_scalar(value.value) if value.is_valid else pa.scalar(None, _storage_type(value.type))
    return value


def load(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return the array in the Arrow type that stands for its DuckDB type."""
    arrow_type = array.type
    if isinstance(array, pa.DictionaryArray):
        return load(array.dictionary_decode())
    if isinstance(array, pa.RunEndEncodedArray):
        return load(_array(call("run_end_decode", array)))
    if isinstance(array, pa.ExtensionArray):
        return _load_extension(array)
    if (plain := _plain(arrow_type)) != arrow_type:
        return _array(cast(array, plain))
    return array


def load_scalar(scalar: pa.Scalar[Any]) -> pa.Scalar[Any]:
    """Return a scalar in the Arrow type that stands for its DuckDB type."""
    if scalar.type in _COMMON_TYPES:
        return scalar
    return load(pa.repeat(scalar, 1))[0]


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type):
        return pa.string()
    if (
        pa.types.is_large_binary(arrow_type)
        or pa.types.is_binary_view(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    ):
        return pa.binary()
    if pa.types.is_time32(arrow_type):
        return pa.time64("us")
    if isinstance(arrow_type, pa.Decimal32Type | pa.Decimal64Type):
        return pa.decimal128(arrow_type.precision, arrow_type.scale)
    # DuckDB reads nanoseconds with a zone as microseconds, with a rounding that is not specified.
    if isinstance(arrow_type, pa.TimestampType) and arrow_type.tz is not None and arrow_type.unit != "ns":
        return TIMESTAMP_TZ
    return arrow_type


def _storage_type(arrow_type: pa.DataType) -> pa.DataType:
    assert isinstance(arrow_type, pa.BaseExtensionType)
    return _plain(arrow_type.storage_type)


def _load_extension(array: pa.ExtensionArray[Any]) -> pa.Array[Any]:
    if isinstance(array.type, pa.Bool8Type):
        return _array(call("not_equal", array.storage, pa.scalar(0, pa.int8())))
    if isinstance(array.type, pa.OpaqueType) and array.type.vendor_name == "DuckDB":
        match array.type.type_name:
            case "hugeint":
                return _wide(array.storage, signed=True)
            case "uhugeint":
                return _wide(array.storage, signed=False)
    return array


def _wide(array: pa.Array[Any], *, signed: bool) -> pa.Array[Any]:
    """Return 16-byte little-endian integers as decimals, which Arrow can compare."""
    if array.type != pa.binary(16):
        raise InexactError(f"a 128-bit integer stored as {array.type}")
    halves = np.frombuffer(array.buffers()[1], dtype="<i8").reshape(-1, 2)
    halves = halves[array.offset : array.offset + len(array)]
    limbs = np.zeros((len(array), 4), dtype="<i8")
    limbs[:, :2] = halves
    if signed:
        limbs[:, 2:] = halves[:, 1:] >> 63
    valid = array.is_valid().buffers()[1]
    return pa.Array.from_buffers(HUGEINT, len(array), [valid, pa.py_buffer(limbs)])


def _array(value: Value) -> pa.Array[Any]:
    assert isinstance(value, pa.Array)
    return value
