"""Constants of filters in the form that stored values have."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.spark.types.values import encode

_UNITS = ("s", "ms", "us", "ns")
_WIDE = {"hugeint": True, "uhugeint": False}
_INTEGER_BYTES = 16


def encode_scalar(value: pa.Scalar, field: pa.Field) -> pa.Scalar:
    """Return the constant as the column stores it.

    Constants come in the types of DuckDB: a decimal for a HUGEINT column, a text for an ENUM. Raises
    InvalidRequestError for one that the column cannot hold, so that the comparison cannot be
    pushed; whether it may be is `pushable`'s to say.
    """
    exact = field.with_type(_exact_type(field.type))
    try:
        array = _array(value, exact.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"column '{field.name}' of type {field.type} has no such value: {error}"
        ) from error
    return encode(array, exact)[0]


def _exact_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of single values: dictionaries and runs are about many."""
    if isinstance(kind, pa.DictionaryType | pa.RunEndEncodedType):
        return _exact_type(kind.value_type)
    return kind


def _array(value: pa.Scalar, kind: pa.DataType) -> pa.Array:
    if isinstance(value.type, pa.DictionaryType):
        value = value.value
    if value.type == kind:
        return pa.repeat(value, 1)
    if not value.is_valid:
        return pa.nulls(1, kind)
    if isinstance(kind, pa.OpaqueType) and kind.vendor_name == "DuckDB" and kind.type_name in _WIDE:
        return _wide(value, kind, signed=_WIDE[kind.type_name])
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _array(_storage(value), kind.storage_type))
    _check_unit(value.type, kind)
    return pa.repeat(value, 1).cast(kind)


def _storage(value: pa.Scalar) -> pa.Scalar:
    return value.value if isinstance(value, pa.ExtensionScalar) else value


def _wide(value: pa.Scalar, kind: pa.DataType, *, signed: bool) -> pa.Array:
    number = value.as_py()
    if not isinstance(number, int | Decimal) or number != int(number):
        raise InvalidRequestError(f"{number} is not an integer")
    data = int(number).to_bytes(_INTEGER_BYTES, "little", signed=signed)
    return pa.ExtensionArray.from_storage(kind, pa.array([data], kind.storage_type))


def _check_unit(given: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a constant coarser than the column: then DuckDB cuts the column's values, and we do not."""
    units = getattr(given, "unit", None), getattr(wanted, "unit", None)
    if units[0] in _UNITS and units[1] == "ns" and units[0] != "ns":
        raise InvalidRequestError(f"a constant in {units[0]} says nothing about nanoseconds")
