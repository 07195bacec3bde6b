"""Dates, times and intervals.

Spark's DATE, TIMESTAMP and TIMESTAMP_NTZ are 32 and 64 bits that Spark copies unseen, also when they
are outside the years 1 to 9999 or mean infinity in DuckDB. That takes
`spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS`: the default loses such values. Microseconds
have no room for all seconds, milliseconds and nanoseconds: those units are stored as numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkport.errors import InvalidRequestError
from sparkport.spark.types.codec import (
    NOTHING,
    ORDER,
    Codec,
    byte_rows,
    cast_to,
    from_byte_rows,
    validity,
    view_as,
)
from sparkport.spark.types.storage import struct_of

_DAY_MILLIS = 86_400_000
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_READ = {"s": "timestamp_seconds(c)", "ms": "timestamp_millis(c)", "ns": "timestamp_micros(c div 1000)"}
_OFFSET_BITS = 24
_MAX_OFFSET = 57_599  # 15:59:59, as DuckDB counts offsets downwards from there


def date32(kind: pa.DataType) -> Codec:
    """Return the codec of dates in days."""
    return Codec(kind, "date", cast_to(kind), cast_to(kind), ORDER, "the date")


def date64(kind: pa.DataType) -> Codec:
    """Return the codec of dates in milliseconds, which are whole days."""

    def to_storage(array: pa.Array) -> pa.Array:
        millis = array.view(pa.int64())
        days = pc.divide(millis, _DAY_MILLIS)
        if pc.any(pc.not_equal(pc.multiply(days, _DAY_MILLIS), millis)).as_py():
            raise InvalidRequestError("a date64 value is not a whole day")
        return days.cast(pa.int32()).view(pa.date32())

    def from_storage(array: pa.Array) -> pa.Array:
        days = view_as(pa.date32(), pa.int32())(array).cast(pa.int64())
        return pc.multiply(days, _DAY_MILLIS).view(kind)

    return Codec(kind, "date", to_storage, from_storage, ORDER, "the date")


def time(kind: pa.DataType) -> Codec:
    """Return the codec of times of day: numbers, as Delta has no TIME."""
    storage, word = (
        (pa.int32(), "integer") if kind.bit_width == pa.int32().bit_width else (pa.int64(), "long")
    )

    def from_storage(array: pa.Array) -> pa.Array:
        # Results of queries, unlike tables, may have Spark's own TIME.
        return array.cast(kind) if pa.types.is_time(array.type) else view_as(storage, kind)(array)

    description = f"{_UNITS[kind.unit]} since midnight"
    return Codec(kind, word, view_as(kind, storage), from_storage, ORDER, description)


def timestamp(kind: pa.DataType) -> Codec:
    """Return the codec of timestamps."""
    if kind.unit != "us":
        # DuckDB cuts nanoseconds with a zone to microseconds before it compares.
        pushdown = NOTHING if kind.unit == "ns" and kind.tz is not None else ORDER
        description = f"{_UNITS[kind.unit]} since 1970; `{_READ[kind.unit]}` makes it a timestamp"
        to_storage, from_storage = view_as(kind, pa.int64()), view_as(pa.int64(), kind)
        return Codec(kind, "long", to_storage, from_storage, pushdown, description)
    word, storage = "timestamp_ntz", pa.timestamp("us")
    if kind.tz is not None:
        word, storage = "timestamp", pa.timestamp("us", "UTC")

    def stored(array: pa.Array) -> pa.Array:
        # Zones are labels: the same instant in another zone has the same bits.
        zone = array.type.tz if pa.types.is_timestamp(array.type) else storage.tz
        if (zone is None) != (storage.tz is None):
            raise pa.ArrowInvalid(f"{array.type} in place of {storage}")
        return cast_to(pa.timestamp("us", zone))(array).view(kind)

    description = "the timestamp, in the zone of the session" if kind.tz else "the timestamp"
    return Codec(kind, word, view_as(kind, storage), stored, ORDER, description)


def duration(kind: pa.DataType) -> Codec:
    """Return the codec of durations: numbers, as Delta has no intervals."""

    def from_storage(array: pa.Array) -> pa.Array:
        return array.cast(kind) if pa.types.is_duration(array.type) else view_as(pa.int64(), kind)(array)

    description = f"{_UNITS[kind.unit]}"
    return Codec(kind, "long", view_as(kind, pa.int64()), from_storage, NOTHING, description)


def interval(kind: pa.DataType) -> Codec:
    """Return the codec of DuckDB's intervals. A month equals 30 days there, so nothing is pushed."""
    spark = struct_of((("months", "integer"), ("days", "integer"), ("nanos", "long")))
    members = [("months", pa.int32()), ("days", pa.int32()), ("nanos", pa.int64())]
    layout = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])

    def to_storage(array: pa.Array) -> pa.Array:
        rows = byte_rows(array.view(pa.binary(16))).copy().view(layout).reshape(-1)
        children = [pa.array(rows[name]) for name, _ in members]
        return pa.Array.from_buffers(pa.struct(members), len(array), [validity(array)], children=children)

    def from_storage(array: pa.Array) -> pa.Array:
        rows = np.zeros(len(array), layout)
        if pa.types.is_struct(array.type):
            for at, (name, width) in enumerate(members):
                rows[name] = array.field(at).cast(width).fill_null(0)
        else:
            rows["months"] = array.cast(pa.int32()).fill_null(0)
        raw = from_byte_rows(pa.binary(16), rows.view(np.uint8).reshape(-1, 16), validity(array))
        return raw.view(kind)

    return Codec(kind, spark, to_storage, from_storage, NOTHING, "the three parts")


def time_with_offset(kind: pa.DataType) -> Codec:
    """Return the codec of DuckDB's TIME WITH TIME ZONE."""
    spark = struct_of((("micros", "long"), ("offset_seconds", "integer")))
    members = [("micros", pa.int64()), ("offset_seconds", pa.int32())]
    low = np.uint64((1 << _OFFSET_BITS) - 1)

    def to_storage(array: pa.Array) -> pa.Array:
        bits = byte_rows(array.storage).copy().view("<u8").reshape(-1)
        micros = (bits >> np.uint64(_OFFSET_BITS)).astype(np.int64)
        seconds = (_MAX_OFFSET - (bits & low).astype(np.int64)).astype(np.int32)
        children = [pa.array(micros), pa.array(seconds)]
        return pa.Array.from_buffers(pa.struct(members), len(array), [validity(array)], children=children)

    def from_storage(array: pa.Array) -> pa.Array:
        micros = array.field(0).cast(pa.int64()).fill_null(0).to_numpy()
        counted = _MAX_OFFSET - array.field(1).cast(pa.int64()).fill_null(0).to_numpy()
        if (micros >> (64 - _OFFSET_BITS)).any() or (counted >> _OFFSET_BITS).any():
            raise pa.ArrowInvalid("a time or an offset of more than a day")
        bits = (micros.astype(np.uint64) << np.uint64(_OFFSET_BITS)) | counted.astype(np.uint64)
        rows = bits.astype("<u8").view(np.uint8).reshape(-1, 8)
        stored = from_byte_rows(pa.binary(8), rows, validity(array))
        return pa.ExtensionArray.from_storage(kind, stored)

    description = "microseconds since midnight on the spot, and the spot's offset from UTC in seconds"
    return Codec(kind, spark, to_storage, from_storage, NOTHING, description)
