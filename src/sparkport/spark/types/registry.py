"""One codec for every Arrow type."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkport.spark.types import encoded, nested, numbers, texts, times
from sparkport.spark.types.codec import ORDER, Codec, cast_to
from sparkport.spark.types.errors import UnsupportedTypeError

_BIT = "DuckDB's bytes: how many bits of the first byte are padding, then the bits"
_BIGNUM = "DuckDB's bytes: three of header, then the magnitude"
_DUCKDB: dict[str, Callable[[pa.DataType], Codec]] = {
    "hugeint": lambda kind: numbers.wide_integer(kind, is_signed=True),
    "uhugeint": lambda kind: numbers.wide_integer(kind, is_signed=False),
    "time_tz": times.time_with_offset,
    "bit": lambda kind: texts.opaque_bytes(kind, _BIT),
    "bignum": lambda kind: texts.opaque_bytes(kind, _BIGNUM),
}
_DUCKDB_STORAGE = {
    "hugeint": pa.binary(16),
    "uhugeint": pa.binary(16),
    "time_tz": pa.binary(8),
    "bit": pa.binary(),
    "bignum": pa.binary(),
}


def codec(kind: pa.DataType) -> Codec:
    """Return how values of this type are stored.

    Raises UnsupportedTypeError for the intervals that pyarrow has no arrays of, and
    InvalidRequestError for structs whose names Spark cannot tell apart.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _extension(kind)
    if kind.id in _LEAVES:
        return _LEAVES[kind.id](kind)
    if kind.id in _LISTS:
        return nested.list_(kind, codec(kind.value_type))
    match kind:
        case pa.StructType():
            return nested.struct(kind, [codec(field.type) for field in kind])
        case pa.MapType():
            return nested.mapping(kind, codec(kind.key_type), codec(kind.item_type))
        case pa.UnionType():
            return nested.union(kind, [codec(field.type) for field in kind])
        case pa.DictionaryType():
            return encoded.dictionary(kind, codec(kind.value_type))
        case pa.RunEndEncodedType():
            return encoded.run_ends(kind, codec(kind.value_type))
    raise UnsupportedTypeError(str(kind))


def _extension(kind: pa.DataType) -> Codec:
    match kind:
        case pa.UuidType():
            return texts.uuid(kind)
        case pa.Bool8Type():
            return encoded.bool8(kind)
        case pa.JsonType():
            return encoded.extension(kind, codec(kind.storage_type), ORDER)
        case pa.OpaqueType() if kind.vendor_name == "DuckDB":
            if _DUCKDB_STORAGE.get(kind.type_name) == kind.storage_type:
                return _DUCKDB[kind.type_name](kind)
    return encoded.extension(kind, codec(kind.storage_type))


def _boolean(kind: pa.DataType) -> Codec:
    return Codec(kind, "boolean", cast_to(kind), cast_to(kind), ORDER, "the boolean")


_T = pa.lib
_LISTS = {
    _T.Type_LIST,
    _T.Type_LARGE_LIST,
    _T.Type_LIST_VIEW,
    _T.Type_LARGE_LIST_VIEW,
    _T.Type_FIXED_SIZE_LIST,
}
_LEAVES: dict[int, Callable[[pa.DataType], Codec]] = {
    _T.Type_NA: encoded.null,
    _T.Type_BOOL: _boolean,
    _T.Type_DATE32: times.date32,
    _T.Type_DATE64: times.date64,
    _T.Type_TIMESTAMP: times.timestamp,
    _T.Type_DURATION: times.duration,
    _T.Type_INTERVAL_MONTH_DAY_NANO: times.interval,
    **dict.fromkeys((_T.Type_INT8, _T.Type_INT16, _T.Type_INT32, _T.Type_INT64), numbers.signed),
    **dict.fromkeys((_T.Type_UINT8, _T.Type_UINT16, _T.Type_UINT32, _T.Type_UINT64), numbers.unsigned),
    **dict.fromkeys((_T.Type_HALF_FLOAT, _T.Type_FLOAT, _T.Type_DOUBLE), numbers.floating),
    **dict.fromkeys(
        (_T.Type_DECIMAL32, _T.Type_DECIMAL64, _T.Type_DECIMAL128, _T.Type_DECIMAL256), numbers.decimal
    ),
    **dict.fromkeys((_T.Type_STRING, _T.Type_LARGE_STRING, _T.Type_STRING_VIEW), texts.text),
    **dict.fromkeys(
        (_T.Type_BINARY, _T.Type_LARGE_BINARY, _T.Type_BINARY_VIEW, _T.Type_FIXED_SIZE_BINARY), texts.binary
    ),
    **dict.fromkeys((_T.Type_TIME32, _T.Type_TIME64), times.time),
}
