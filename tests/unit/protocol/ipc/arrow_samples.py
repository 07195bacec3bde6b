"""Batches of every Arrow type, with nulls, for the codec's round trips and its fuzzing."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa

ROWS = 7

_STRINGS = ["duck", "", None, "ä💧", "a string longer than twelve bytes", None, "x"]
_BYTES = [None if text is None else text.encode() for text in _STRINGS]
_INTEGERS = [0, 1, None, 127, 5, None, 9]
_FLOATS = [0.0, -1.5, None, float("inf"), 2.25, None, -0.0]
_DECIMALS = [None if n is None else decimal.Decimal(n).scaleb(-2) for n in _INTEGERS]
_DAYS = [None if n is None else dt.date(2026, 2, 1) + dt.timedelta(days=n) for n in _INTEGERS]
_INSTANTS = [None if n is None else dt.datetime(2026, 2, 1, 12, 30, n % 60, tzinfo=dt.UTC) for n in _INTEGERS]
_TIMES = [None if n is None else dt.time(23, 59, n % 60) for n in _INTEGERS]
_SPANS = [None if n is None else dt.timedelta(seconds=n) for n in _INTEGERS]
_LISTS = [[1, 2], [], None, [None, 3], [4], None, [5, 6]]
_TRIPLES = [[1, 2, 3], [4, None, 6], None, [7, 8, 9], [0, 0, 0], None, [1, 1, 1]]
_STRUCTS = [
    {"a": 1, "b": "x"},
    None,
    {"a": None, "b": "y"},
    {"a": 3, "b": None},
    None,
    {"a": 5, "b": ""},
    None,
]
_MAPS = [[("k", 1)], [], None, [("a", None), ("b", 2)], None, [("z", 3)], []]

_PRIMITIVES: dict[str, tuple[list[Any], pa.DataType]] = {
    "null": ([None] * ROWS, pa.null()),
    "bool": ([True, False, None, True, True, None, False], pa.bool_()),
    **{
        str(kind): (_INTEGERS, kind)
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
        )
    },
    "float16": (_FLOATS, pa.float16()),
    "float32": (_FLOATS, pa.float32()),
    "float64": (_FLOATS, pa.float64()),
    "decimal32": (_DECIMALS, pa.decimal32(7, 2)),
    "decimal64": (_DECIMALS, pa.decimal64(16, 2)),
    "decimal128": (_DECIMALS, pa.decimal128(30, 2)),
    "decimal256": (_DECIMALS, pa.decimal256(60, 2)),
    "string": (_STRINGS, pa.string()),
    "large_string": (_STRINGS, pa.large_string()),
    "string_view": (_STRINGS, pa.string_view()),
    "binary": (_BYTES, pa.binary()),
    "large_binary": (_BYTES, pa.large_binary()),
    "binary_view": (_BYTES, pa.binary_view()),
    "fixed_size_binary": ([b"abc", b"\0\0\0", None, b"xyz", b"123", None, b"end"], pa.binary(3)),
}

_TEMPORALS: dict[str, tuple[list[Any], pa.DataType]] = {
    "date32": (_DAYS, pa.date32()),
    "date64": (_DAYS, pa.date64()),
    "time32_s": (_TIMES, pa.time32("s")),
    "time32_ms": (_TIMES, pa.time32("ms")),
    "time64_us": (_TIMES, pa.time64("us")),
    "time64_ns": (_TIMES, pa.time64("ns")),
    **{f"timestamp_{unit}": (_INSTANTS, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "timestamp_tz": (_INSTANTS, pa.timestamp("us", tz="Europe/Paris")),
    **{f"duration_{unit}": (_SPANS, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "interval": (
        [None if n is None else pa.MonthDayNano([n, 2, 3]) for n in _INTEGERS],
        pa.month_day_nano_interval(),
    ),
}

_NESTED: dict[str, tuple[list[Any], pa.DataType]] = {
    "list": (_LISTS, pa.list_(pa.int32())),
    "large_list": (_LISTS, pa.large_list(pa.int64())),
    "list_view": (_LISTS, pa.list_view(pa.int32())),
    "large_list_view": (_LISTS, pa.large_list_view(pa.int32())),
    "fixed_size_list": (_TRIPLES, pa.list_(pa.int16(), 3)),
    "struct": (_STRUCTS, pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "empty_struct": ([{}, None, {}, {}, {}, None, {}], pa.struct([])),
    "map": (_MAPS, pa.map_(pa.string(), pa.int32())),
    "list_of_struct_of_list": (
        [[{"l": row}, None] if row else None for row in _LISTS],
        pa.list_(pa.struct([("l", pa.list_(pa.int64()))])),
    ),
    "list_of_string_view": ([[text, text] for text in _STRINGS], pa.list_(pa.string_view())),
}


def columns() -> dict[str, pa.Array]:
    """Build one column per type, each of ROWS rows."""
    plain = {
        name: pa.array(rows, kind) for name, (rows, kind) in (_PRIMITIVES | _TEMPORALS | _NESTED).items()
    }
    return plain | _unions() | _encoded() | _extensions()


def _unions() -> dict[str, pa.Array]:
    numbers = pa.array(_INTEGERS, pa.int64())
    texts = pa.array(_STRINGS)
    tags = pa.array([0, 1, 0, 1, 1, 0, 0], pa.int8())
    offsets = pa.array([0, 0, 1, 1, 2, 2, 3], pa.int32())
    return {
        "sparse_union": pa.UnionArray.from_sparse(tags, [numbers, texts], ["n", "t"]),
        "dense_union": pa.UnionArray.from_dense(tags, offsets, [numbers, texts], ["n", "t"]),
    }


def _encoded() -> dict[str, pa.Array]:
    words = pa.array(["red", "green", None, "red", "blue", None, "red"])
    inner = pa.array([1, 2, 1, None], pa.int32()).dictionary_encode()
    return {
        "dictionary": words.dictionary_encode(),
        "ordered_dictionary": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, None, 1, 0, 2], pa.int8()), pa.array([10, 20, 30]), ordered=True
        ),
        "dictionary_in_list": pa.ListArray.from_arrays(
            pa.array([0, 1, 1, 2, 4, 6, 6, 7], pa.int32()), words.dictionary_encode()
        ),
        "dictionary_in_struct": pa.StructArray.from_arrays([words.dictionary_encode()], ["d"]),
        "dictionary_of_lists_of_dictionaries": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 1, 0, 0, 1], pa.int8()),
            pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), inner),
        ),
        "run_end_encoded": pa.RunEndEncodedArray.from_arrays(
            pa.array([2, 5, 7], pa.int32()), pa.array(["a", None, "c"])
        ),
    }


def _extensions() -> dict[str, pa.Array]:
    uuids = pa.array([bytes([n or 0]) * 16 for n in _INTEGERS], pa.binary(16))
    tensors = pa.array([[1, 2, 3, 4]] * ROWS, pa.list_(pa.int32(), 4))
    return {
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), uuids),
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}'] * ROWS)),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array(_INTEGERS, pa.int8())),
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "point", "db"), pa.array(_BYTES)),
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), [2, 2]), tensors),
    }


def batches() -> dict[str, pa.RecordBatch]:
    """Build one batch per type, one with all of them, and the odd shapes."""
    every = columns()
    single = {name: pa.record_batch({name: column}) for name, column in every.items()}
    described = pa.schema(
        [pa.field("a", pa.int32(), nullable=False, metadata={"unit": "km"}), pa.field("a", pa.string())],
        metadata={"owner": "me"},
    )
    return single | {
        "every type": pa.record_batch(every),
        "no columns": pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([]))),
        "no rows": pa.record_batch(every).slice(0, 0),
        "metadata": pa.record_batch([pa.array([1, 2], pa.int32()), pa.array(["x", None])], schema=described),
    }


def ipc_stream(*batches: pa.RecordBatch, compression: str | None = None, deltas: bool = False) -> bytes:
    """Write batches as pyarrow's own writer does."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=deltas)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def frames_of(stream: bytes) -> list[bytes]:
    """Put each message of an IPC stream into a frame of its own."""
    return [
        frame(message.metadata, message.body or b"") for message in pa.ipc.MessageReader.open_stream(stream)
    ]


def frame(header: bytes | pa.Buffer, body: bytes | pa.Buffer = b"", app_metadata: bytes = b"") -> bytes:
    """Build a frame field by field."""
    return field(2, header) + (field(3, app_metadata) if app_metadata else b"") + field(1000, body)


def field(number: int, value: bytes | pa.Buffer) -> bytes:
    """Build one length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + bytes(value)


def varint(number: int) -> bytes:
    """Build a protobuf number."""
    low = number & 0x7F
    return bytes([low | 0x80]) + varint(number >> 7) if number >> 7 else bytes([low])
