"""Random Arrow arrays of every type, as hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

_NUMBERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NUMERIC = [pa.from_numpy_dtype(width) for width in _NUMBERS]
TEMPORAL = [
    pa.date32(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(
        pa.timestamp(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Asia/Tokyo", "+05:30")
    ),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]
FLOATING = [pa.float16(), pa.float32(), pa.float64()]
DECIMAL = [
    pa.decimal32(9, 2),
    pa.decimal64(18, 18),
    pa.decimal128(38, 0),
    pa.decimal128(38, 38),
    pa.decimal128(5, -3),
    pa.decimal128(3, 6),
    pa.decimal256(20, 4),
    pa.decimal256(76, 0),
    pa.decimal256(76, 40),
    pa.decimal256(60, -5),
]
TEXTUAL = [pa.string(), pa.large_string(), pa.string_view(), pa.json_(), pa.json_(pa.large_string())]
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.opaque(pa.binary(), "bit", "DuckDB")]
FIXED = [
    pa.binary(0),
    pa.binary(3),
    pa.uuid(),
    pa.opaque(pa.binary(16), "hugeint", "DuckDB"),
    pa.opaque(pa.binary(16), "uhugeint", "DuckDB"),
    pa.opaque(pa.binary(8), "time_tz", "DuckDB"),
    pa.opaque(pa.binary(5), "unknown", "Nobody"),
]
LEAVES = [
    pa.null(),
    pa.bool_(),
    pa.bool8(),
    pa.date64(),
    pa.month_day_nano_interval(),
    *NUMERIC,
    *TEMPORAL,
    *FLOATING,
    *DECIMAL,
    *TEXTUAL,
    *BINARY,
    *FIXED,
]
# Python has values for these, extremes included, so that nested ones can be compared.
COMPARABLE = [
    pa.null(),
    pa.bool_(),
    pa.bool8(),
    pa.month_day_nano_interval(),
    *NUMERIC,
    *FLOATING,
    *DECIMAL,
    *TEXTUAL,
    *BINARY,
    *FIXED,
]


@st.composite
def leaves(draw: Draw, kind: pa.DataType, size: int | None = None, *, nulls: bool = True) -> pa.Array:
    """Draw values of a type that is not nested."""
    one = _value(kind)
    least, most = (0, 20) if size is None else (size, size)
    values = draw(st.lists(st.none() | one if nulls else one, min_size=least, max_size=most))
    return _built(kind, values)


def _value(kind: pa.DataType) -> st.SearchStrategy[Any]:
    storage = _storage(kind)
    if pa.types.is_null(storage):
        return st.none()
    if pa.types.is_boolean(storage):
        return st.booleans()
    if isinstance(kind, pa.Bool8Type):
        return st.sampled_from([0, 1])
    if pa.types.is_floating(storage):
        return st.floats(width=storage.bit_width)
    if pa.types.is_decimal(storage):
        most = 10**storage.precision - 1
        return st.integers(-most, most).map(lambda number: _decimal(number, storage.scale))
    if pa.types.is_date64(storage):
        return st.integers(-(2**31), 2**31 - 1).map(lambda days: days * 86_400_000)
    if storage == pa.month_day_nano_interval():
        whole, nanos = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
        return st.tuples(whole, whole, nanos).map(pa.MonthDayNano)
    if pa.types.is_fixed_size_binary(storage):
        return st.binary(min_size=storage.byte_width, max_size=storage.byte_width)
    if storage in {pa.string(), pa.large_string(), pa.string_view()}:
        return st.text()
    if storage in {pa.binary(), pa.large_binary(), pa.binary_view()}:
        return st.binary()
    if pa.types.is_time(storage):
        return st.integers(0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[storage.unit] - 1)
    info = np.iinfo(_integer(storage).to_pandas_dtype())
    return st.integers(int(info.min), int(info.max)) | st.sampled_from([int(info.min), int(info.max)])


def _decimal(number: int, scale: int) -> Decimal:
    # Not `scaleb`: that rounds to the digits of the context.
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -scale))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _integer(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _built(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_date64(kind) or kind in TEMPORAL:
        return pa.array(values, _integer(kind)).view(kind)
    if pa.types.is_decimal(kind):
        # Python's decimals are not converted to a scale beyond the precision.
        return pa.array(values, pa.decimal256(76, max(kind.scale, 0))).cast(kind)
    return pa.array(values, kind)


@st.composite
def arrays(draw: Draw, size: int, depth: int) -> pa.Array:
    """Draw that many values of a random type, nested up to a depth."""
    makers = [_leaf]
    if depth:
        makers += [_list, _fixed_list, _struct, _map, _sparse, _dense, _dictionary, _runs]
    return draw(st.sampled_from(makers))(draw, size, depth - 1)


def _leaf(draw: Draw, size: int, depth: int) -> pa.Array:
    del depth
    return draw(leaves(draw(st.sampled_from(COMPARABLE)), size))


def _mask(draw: Draw, size: int) -> pa.Array:
    return pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_())


def _offsets(draw: Draw, size: int) -> list[int]:
    lengths = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return [0, *np.cumsum(lengths, dtype=int).tolist()]


def _list(draw: Draw, size: int, depth: int) -> pa.Array:
    ends = _offsets(draw, size)
    items = draw(arrays(ends[-1], depth))
    name = draw(st.sampled_from(["item", "l"]))
    if draw(st.booleans()):
        large = pa.large_list(pa.field(name, items.type))
        return pa.LargeListArray.from_arrays(
            pa.array(ends, pa.int64()), items, type=large, mask=_mask(draw, size)
        )
    if draw(st.booleans()):
        starts, sizes = pa.array(ends[:-1], pa.int32()), pa.array(np.diff(ends), pa.int32())
        return pa.ListViewArray.from_arrays(starts, sizes, items, mask=_mask(draw, size))
    kind = pa.list_(pa.field(name, items.type))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=kind, mask=_mask(draw, size))


def _fixed_list(draw: Draw, size: int, depth: int) -> pa.Array:
    width = draw(st.integers(1, 3))
    items = draw(arrays(size * width, depth))
    return pa.FixedSizeListArray.from_arrays(items, width, mask=_mask(draw, size))


def _struct(draw: Draw, size: int, depth: int) -> pa.Array:
    children = [draw(arrays(size, depth)) for _ in range(draw(st.integers(1, 3)))]
    names = ["a.b", "`", " ,;{}()\n\t="]
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=False)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_mask(draw, size))


def _map(draw: Draw, size: int, depth: int) -> pa.Array:
    ends = _offsets(draw, size)
    keys = draw(leaves(draw(st.sampled_from([pa.string(), pa.uint64(), pa.uuid()])), ends[-1], nulls=False))
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), keys, draw(arrays(ends[-1], depth)), mask=_mask(draw, size)
    )


def _sparse(draw: Draw, size: int, depth: int) -> pa.Array:
    children = [draw(arrays(size, depth)) for _ in range(2)]
    tags = pa.array(draw(st.lists(st.sampled_from([3, 7]), min_size=size, max_size=size)), pa.int8())
    return pa.UnionArray.from_sparse(tags, children, ["n", "t"], [3, 7])


def _dense(draw: Draw, size: int, depth: int) -> pa.Array:
    children = [draw(arrays(3, depth)) for _ in range(2)]
    tags = pa.array(draw(st.lists(st.sampled_from([0, 1]), min_size=size, max_size=size)), pa.int8())
    places = pa.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size)), pa.int32())
    return pa.UnionArray.from_dense(tags, places, children)


def _dictionary(draw: Draw, size: int, depth: int) -> pa.Array:
    values = draw(leaves(draw(st.sampled_from(COMPARABLE)), 3)) if depth else pa.array(["a", "b", "c"])
    places = draw(st.lists(st.none() | st.integers(0, 2), min_size=size, max_size=size))
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), values, ordered=draw(st.booleans()))


def _runs(draw: Draw, size: int, depth: int) -> pa.Array:
    del depth
    lengths = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    ends = pa.array(np.minimum(np.cumsum(lengths, dtype=int), size), pa.int16())
    count = len(set(ends.to_pylist()))
    values = draw(leaves(draw(st.sampled_from(COMPARABLE)), count))
    return pa.RunEndEncodedArray.from_arrays(ends.unique(), values)
