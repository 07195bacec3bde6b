"""Four values of every Arrow type that a table can have: null, extremes, and something plain."""

from __future__ import annotations

import decimal
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

D = decimal.Decimal
_UNITS = ("s", "ms", "us", "ns")
_LONG = "a text of more than twelve bytes, with ä and 🦆"


def opaque(name: str, storage: pa.DataType) -> pa.DataType:
    """Return one of DuckDB's types that Arrow has no name for."""
    return pa.opaque(storage, name, "DuckDB")


def _of(kind: pa.DataType, values: Sequence[object]) -> pa.Array:
    """Return an array, also of types that Python values cannot be converted to."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def _numbers(kind: pa.DataType, width: type[np.integer[Any]]) -> pa.Array:
    info = np.iinfo(width)
    numbers = pa.array([int(info.min), int(info.max), None, 1], pa.from_numpy_dtype(width))
    return numbers.view(kind)


def _integers() -> dict[str, pa.Array]:
    widths = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    return {width.__name__: _numbers(pa.from_numpy_dtype(width), width) for width in widths}


def _floats() -> dict[str, pa.Array]:
    odd = [float("nan"), float("-inf"), None, -0.0]
    return {
        "float16": _of(pa.float16(), odd),
        "float32": _of(pa.float32(), odd),
        "float64": _of(pa.float64(), odd),
        "float64 extremes": _of(pa.float64(), [5e-324, 1.7976931348623157e308, None, 0.1]),
    }


def _decimals() -> dict[str, pa.Array]:
    return {
        "decimal32": _of(pa.decimal32(9, 2), [D("-9999999.99"), D("9999999.99"), None, D("0.01")]),
        "decimal64": _of(pa.decimal64(18, 0), [D(-(10**18) + 1), D(10**18 - 1), None, D(1)]),
        "decimal128": _of(pa.decimal128(38, 10), [D("-" + "9" * 28), D("9" * 28), None, D("0.0000000001")]),
        "decimal256": _of(pa.decimal256(76, 0), [D("-" + "9" * 76), D("9" * 76), None, D(1)]),
    }


def _texts() -> dict[str, pa.Array]:
    texts = ["", _LONG, None, "x\0y"]
    data = [None if text is None else text.encode() + b"\xff" for text in texts]
    return {
        "utf8": _of(pa.string(), texts),
        "large utf8": _of(pa.large_string(), texts),
        "utf8 view": _of(pa.string_view(), texts),
        "binary": _of(pa.binary(), data),
        "large binary": _of(pa.large_binary(), data),
        "binary view": _of(pa.binary_view(), data),
        "fixed binary": _of(pa.binary(3), [b"\0\0\0", b"\xff\xff\xff", None, b"abc"]),
    }


def _times() -> dict[str, pa.Array]:
    day = 86_400
    found = {
        "date32": _numbers(pa.date32(), np.int32),
        "date64": _of(pa.int64(), [-(day * 1000), day * 1000 * 20_000, None, 0]).view(pa.date64()),
        "time32 s": _of(pa.int32(), [0, day - 1, None, 1]).view(pa.time32("s")),
        "time32 ms": _of(pa.int32(), [0, day * 1000 - 1, None, 1]).view(pa.time32("ms")),
        "time64 us": _of(pa.int64(), [0, day * 10**6 - 1, None, 1]).view(pa.time64("us")),
        "time64 ns": _of(pa.int64(), [0, day * 10**9 - 1, None, 1]).view(pa.time64("ns")),
    }
    for unit in _UNITS:
        found[f"timestamp {unit}"] = _numbers(pa.timestamp(unit), np.int64)
        found[f"timestamp {unit} with zone"] = _numbers(pa.timestamp(unit, "Europe/Paris"), np.int64)
        found[f"duration {unit}"] = _numbers(pa.duration(unit), np.int64)
    return found


def _intervals() -> dict[str, pa.Array]:
    """Return the interval that pyarrow has arrays of; it has none of months, or of days and times."""
    extreme = pa.MonthDayNano([-(2**31), 2**31 - 1, 2**63 - 1])
    spans = [extreme, pa.MonthDayNano([0, 0, 0]), None, pa.MonthDayNano([1, 2, 3])]
    return {"interval": _of(pa.month_day_nano_interval(), spans)}


def _nested() -> dict[str, pa.Array]:
    lists = [[], [1, None, 2**31 - 1], None, [0]]
    deep = pa.struct([("l", pa.list_(pa.struct([("u", pa.binary(16))]))), ("s", pa.string())])
    deep_uuid = pa.struct([("l", pa.list_(pa.struct([("u", pa.uuid())]))), ("s", pa.string())])
    one = uuid.UUID(int=2**127).bytes
    return {
        "list": _of(pa.list_(pa.int32()), lists),
        "large list": _of(pa.large_list(pa.int32()), lists),
        "list view": _of(pa.list_view(pa.int32()), lists),
        "large list view": _of(pa.large_list_view(pa.int32()), lists),
        "fixed list": _of(pa.list_(pa.int32(), 2), [[1, None], [2**31 - 1, 0], None, [1, 2]]),
        "struct": _of(
            pa.struct([("a", pa.int8()), ("b", pa.string())]),
            [{"a": 1, "b": _LONG}, {"a": None, "b": None}, None, {"a": -128, "b": ""}],
        ),
        "map": _of(pa.map_(pa.string(), pa.int64()), [[], [("k", None), ("", 2**63 - 1)], None, [("a", 1)]]),
        "deep": _of(
            deep, [{"l": [{"u": one}, None], "s": "x"}, {"l": None, "s": None}, None, {"l": [], "s": ""}]
        ).cast(deep_uuid),
        "list of views": _of(pa.list_(pa.string_view()), [[_LONG, None], [], None, ["x"]]),
    }


def empty_lists() -> pa.Array:
    """Return lists of lists of lists, all empty. The inner ones have no offsets: Arrow allows that."""
    nowhere = pa.py_buffer(b"\x7f" * 64).slice(0, 0)
    inner = pa.array([], pa.int32())
    for _ in range(2):
        inner = pa.ListArray.from_buffers(pa.list_(inner.type), 0, [None, nowhere], children=[inner])
    _, present = pa.array([True, True, False, True]).buffers()
    _, starts = pa.array([0] * 5, pa.int32()).buffers()
    return pa.ListArray.from_buffers(pa.list_(inner.type), 4, [present, starts], children=[inner])


def _unions() -> dict[str, pa.Array]:
    numbers, texts = pa.array([1, 0, None, 2**63 - 1]), pa.array(["", _LONG, "", "x"])
    tags = pa.array([0, 1, 0, 1], pa.int8())
    return {
        "sparse union": pa.UnionArray.from_sparse(tags, [numbers, texts], ["n", "t"]),
        "dense union": pa.UnionArray.from_dense(
            tags,
            pa.array([0, 0, 1, 1], pa.int32()),
            [pa.array([2**63 - 1, None]), pa.array([_LONG, ""])],
            ["n", "t"],
        ),
    }


def _encoded() -> dict[str, pa.Array]:
    words = pa.array(["red", "green", None, "red"])
    return {
        "dictionary": words.dictionary_encode(),
        "dictionary of large texts": words.cast(pa.large_string())
        .dictionary_encode()
        .cast(pa.dictionary(pa.uint8(), pa.large_string())),
        "run-end encoded": pc.run_end_encode(words),
        "null": pa.nulls(4),
    }


def _extensions() -> dict[str, pa.Array]:
    low, high = b"\0" * 16, b"\xff" * 16
    return {
        "arrow.uuid": _of(pa.uuid(), [low, high, None, uuid.UUID(int=1).bytes]),
        "arrow.json": _of(pa.json_(), ["{}", '{"a":[1,"ä"]}', None, "null"]),
        "arrow.bool8": _of(pa.bool8(), [0, 1, None, 1]),
        "hugeint": _of(
            opaque("hugeint", pa.binary(16)), [low[:15] + b"\x80", high[:15] + b"\x7f", None, low]
        ),
        "uhugeint": _of(opaque("uhugeint", pa.binary(16)), [low, high, None, b"\x01" + low[1:]]),
        "time_tz": _of(opaque("time_tz", pa.binary(8)), [b"\0" * 8, b"\xff" * 8, None, b"abcdefgh"]),
        "bit": _of(opaque("bit", pa.binary()), [b"\0\0", b"\x07\xff", None, b"\x03\xfd"]),
        "bignum": _of(
            opaque("bignum", pa.binary()), [b"\x80\0\x01\0", b"\x7f" * 30, None, b"\x80\0\x01\x01"]
        ),
    }


SAMPLES: dict[str, pa.Array] = {
    "bool": _of(pa.bool_(), [True, False, None, True]),
    **_integers(),
    **_floats(),
    **_decimals(),
    **_texts(),
    **_times(),
    **_intervals(),
    **_nested(),
    **_unions(),
    **_encoded(),
    **_extensions(),
}

GEOMETRY = pa.field(
    "c", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}
)
