"""Numbers: Spark has no unsigned and no 128-bit integers, no half floats, and decimals of 38 digits."""

from __future__ import annotations

import pyarrow as pa

from sparkport.spark.types.codec import (
    EQUALITY,
    FLOATS,
    ORDER,
    Codec,
    byte_rows,
    cast_to,
    from_byte_rows,
    validity,
)
from sparkport.spark.types.storage import storage_type

_MAX_DIGITS = 38
_WIDER = {"uint8": "short", "uint16": "integer", "uint32": "long", "uint64": "decimal(20,0)"}
_SIGNED = {"int8": "byte", "int16": "short", "int32": "integer", "int64": "long"}


def signed(kind: pa.DataType) -> Codec:
    """Return the codec of signed integers."""
    return Codec(kind, _SIGNED[str(kind)], cast_to(kind), cast_to(kind), ORDER, "the number")


def unsigned(kind: pa.DataType) -> Codec:
    """Return the codec of unsigned integers, which need the next wider type."""
    word = _WIDER[str(kind)]
    return Codec(kind, word, cast_to(storage_type(word)), cast_to(kind), ORDER, "the number, in a wider type")


def floating(kind: pa.DataType) -> Codec:
    """Return the codec of floats; those of 16 bits are stored in 32."""
    if kind == pa.float16():
        return Codec(kind, "float", cast_to(pa.float32()), cast_to(kind), FLOATS, "the number")
    word = "float" if kind == pa.float32() else "double"
    return Codec(kind, word, cast_to(kind), cast_to(kind), FLOATS, "the number")


def decimal(kind: pa.DataType) -> Codec:
    """Return the codec of decimals; those that Spark has no room for are stored as text."""
    # Arrow allows scales below zero and beyond the precision, Spark does not.
    scale = max(kind.scale, 0)
    precision = max(kind.precision + scale - kind.scale, scale)
    if precision > _MAX_DIGITS:
        description = "the number as text"
        return Codec(kind, "string", cast_to(pa.string()), cast_to(kind), EQUALITY, description)
    storage = pa.decimal128(precision, scale)
    word = f"decimal({precision},{scale})"
    return Codec(kind, word, cast_to(storage), cast_to(kind), ORDER, "the number")


def wide_integer(kind: pa.DataType, *, is_signed: bool) -> Codec:
    """Return the codec of DuckDB's 128-bit integers: big-endian bytes that sort like the numbers."""
    flip = 0x80 if is_signed else 0

    def to_storage(array: pa.Array) -> pa.Array:
        rows = byte_rows(array.storage)[:, ::-1].copy()
        rows[:, 0] ^= flip
        return from_byte_rows(pa.binary(), rows, validity(array))

    def from_storage(array: pa.Array) -> pa.Array:
        rows = byte_rows(array.cast(pa.binary(16))).copy()
        rows[:, 0] ^= flip
        stored = from_byte_rows(pa.binary(16), rows[:, ::-1], validity(array))
        return pa.ExtensionArray.from_storage(kind, stored)

    shift = ", plus 2^127" if is_signed else ""
    description = f"16 bytes that sort like the numbers: the number{shift}, most significant byte first"
    return Codec(kind, "binary", to_storage, from_storage, ORDER, description)
