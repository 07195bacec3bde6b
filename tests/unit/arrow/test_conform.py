from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkport.arrow.conform import (
    batch_of,
    conform_batch,
    conform_column,
    flat_type,
    plain_column,
)
from sparkport.errors import SchemaMismatchError

UUID = "00000000-0000-0000-0000-00000000000a"
D = decimal.Decimal


def opaque(name: str, size: int = 16) -> pa.DataType:
    """Return one of DuckDB's types that Arrow has no name for."""
    return pa.opaque(pa.binary(size), name, "DuckDB")


def extension(kind: pa.DataType, values: list[object]) -> pa.Array:
    """Return an array of an extension type."""
    assert isinstance(kind, pa.BaseExtensionType)
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


def conformed(array: pa.Array, kind: pa.DataType) -> list[object]:
    """Return the values of a column brought to a type, which is checked."""
    result = conform_column(array, pa.field("c", kind))
    result.validate(full=True)
    assert result.type == kind
    values: list[object] = result.to_pylist()
    return values


SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])], ["n", "t"]
)
DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])], ["n", "t"]
)
LARGE_UNION = [pa.field("n", pa.int64()), pa.field("t", pa.large_string())]
LISTS = pa.array([[9], None, [1, None], []], pa.list_(pa.int32())).slice(1)
WORDS = pa.array(["a", "a", None])


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([1, None]), pa.int8(), [1, None]),
        (pa.array([1], pa.uint8()), pa.int64(), [1]),
        (pa.array([1.5, float("inf")]), pa.float32(), [1.5, float("inf")]),
        (pa.array([0.5]), pa.float16(), [0.5]),
        (pa.array([D("1.50")]), pa.decimal128(20, 4), [D("1.5000")]),
        (pa.array([True]), pa.int8(), [1]),
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array(["a", None]), pa.string_view(), ["a", None]),
        (pa.array(["a", None], pa.string_view()), pa.large_string(), ["a", None]),
        (pa.array([b"abc", None]), pa.binary(3), [b"abc", None]),
        (pa.array([b"abc"], pa.binary_view()), pa.large_binary(), [b"abc"]),
        (pa.array([0], pa.date32()), pa.date64(), [dt.date(1970, 1, 1)]),
        (pa.array([1], pa.timestamp("s")), pa.timestamp("ms"), [dt.datetime(1970, 1, 1, 0, 0, 1)]),  # noqa: DTZ001
        (LISTS, pa.large_list(pa.int8()), [None, [1, None], []]),
        (LISTS, pa.list_(pa.field("element", pa.int64())), [None, [1, None], []]),
        (LISTS, pa.list_view(pa.int32()), [None, [1, None], []]),
        (LISTS, pa.large_list_view(pa.int64()), [None, [1, None], []]),
        (pa.array([[1], None], pa.list_view(pa.int32())), pa.list_(pa.int32()), [[1], None]),
        (pa.array([[1, 2], None]), pa.list_(pa.int8(), 2), [[1, 2], None]),
        (
            pa.array([["x", "y"], None, [UUID, None]], pa.list_(pa.string(), 2)).slice(1),
            pa.list_(pa.uuid(), 2),
            [None, [uuid.UUID(UUID), None]],
        ),
        (pa.array([[UUID], None]), pa.list_(pa.uuid()), [[uuid.UUID(UUID)], None]),
        (
            pa.array([[("z", 0)], None, [("k", 1)], []], pa.map_(pa.string(), pa.int32())).slice(1),
            pa.map_(pa.large_string(), pa.int64()),
            [None, [("k", 1)], []],
        ),
        (
            pa.array([{"a": 0, "b": "z"}, None, {"a": None, "b": "y"}]).slice(1),
            pa.struct([("b", pa.large_string()), ("a", pa.int8())]),
            [None, {"b": "y", "a": None}],
        ),
        (SPARSE.slice(1), pa.sparse_union(LARGE_UNION), ["b", 3]),
        (SPARSE, pa.dense_union(LARGE_UNION), [1, "b", 3]),
        (DENSE, pa.dense_union(LARGE_UNION), [1, "a"]),
        (DENSE.slice(1), pa.dense_union(LARGE_UNION), ["a"]),
        (SPARSE, pa.sparse_union(LARGE_UNION, [5, 7]), [1, "b", 3]),
        (WORDS, pa.dictionary(pa.int8(), pa.string()), ["a", "a", None]),
        (WORDS.dictionary_encode(), pa.string(), ["a", "a", None]),
        (WORDS.dictionary_encode(), pa.dictionary(pa.uint8(), pa.large_string()), ["a", "a", None]),
        (WORDS, pa.run_end_encoded(pa.int32(), pa.string()), ["a", "a", None]),
        (pc.run_end_encode(WORDS), pa.large_string(), ["a", "a", None]),
        (pc.run_end_encode(WORDS), pa.run_end_encoded(pa.int16(), pa.string()), ["a", "a", None]),
        (pa.array([UUID, None]), pa.uuid(), [uuid.UUID(UUID), None]),
        (
            extension(pa.uuid(), [b"\xff" * 16, None]),
            pa.string(),
            ["ffffffff-ffff-ffff-ffff-ffffffffffff", None],
        ),
        (extension(pa.uuid(), [b"\xff" * 16]), pa.binary(16), [b"\xff" * 16]),
        (pa.array([b"\0" * 16], pa.binary(16)), pa.uuid(), [uuid.UUID(int=0)]),
        (pa.array(["{}"], pa.large_string()), pa.json_(), ["{}"]),
        (extension(pa.json_(), ["{}"]), pa.string(), ["{}"]),
        (pa.array([True, None]), pa.bool8(), [True, None]),
        (extension(pa.bool8(), [0, 5, None]), pa.bool_(), [False, True, None]),
        (pa.array([D(-1), None]), opaque("hugeint"), [b"\xff" * 16, None]),
        (pa.array([D("2.00")]), opaque("uhugeint"), [b"\x02" + b"\0" * 15]),
        (pa.array([1, None], pa.time64("us")), opaque("time_tz", 8), [b"\xff\xe0\0\1\0\0\0\0", None]),
        (
            extension(pa.opaque(pa.binary(), "bit", "DuckDB"), [b"\1"]),
            pa.opaque(pa.large_binary(), "bit", "DuckDB"),
            [b"\1"],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else None,
)
def test_other_spelling_of_a_value_is_converted(
    array: pa.Array, kind: pa.DataType, expected: list[object]
) -> None:
    """The values are the table's; only the Arrow layout differs."""
    assert conformed(array, kind) == expected


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.string_view(),
        pa.list_view(pa.int8()),
        pa.list_(pa.int8(), 2),
        pa.struct([("a", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.sparse_union(LARGE_UNION),
        pa.dense_union(LARGE_UNION),
        pa.dictionary(pa.int8(), pa.string()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.uuid(),
        opaque("hugeint"),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_nulls_without_a_type_fit_every_type(kind: pa.DataType) -> None:
    """A column of NULLs says nothing about its type."""
    assert conformed(pa.nulls(2), kind) == [None, None]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([-1]), pa.uint8()),
        (pa.array([1.5]), pa.int64()),
        (pa.array([2**53 + 1]), pa.float64()),
        (pa.array([1e300]), pa.float32()),
        (pa.array([D("1.55")]), pa.decimal128(5, 1)),
        (pa.array(["text"]), pa.int64()),
        (pa.array([b"\xff"]), pa.string()),
        (pa.array([b"ab"]), pa.binary(3)),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([1]), pa.date32()),
        (pa.array([1]), pa.struct([("a", pa.int64())])),
        (pa.array([{"a": 1}]), pa.int64()),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())])),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        (pa.array([[1]]), pa.list_(pa.int8(), 2)),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.list_(pa.int8(), 3)),
        (pa.array([["x"]]), pa.list_(pa.int8())),
        (pa.array([1]), pa.list_(pa.int64())),
        (SPARSE, pa.sparse_union([pa.field("n", pa.int64()), pa.field("u", pa.string())])),
        (SPARSE, pa.sparse_union([pa.field("n", pa.int64())])),
        (SPARSE, pa.string()),
        (SPARSE, pa.sparse_union([pa.field("n", pa.int64(), nullable=False), pa.field("t", pa.string())])),
        (DENSE, pa.sparse_union(LARGE_UNION)),
        (pa.array(["x"]), pa.uuid()),
        (pa.array(["x"]), pa.bool8()),
        (pa.array([D("1.5")]), opaque("hugeint")),
        (pa.array([D(-1)]), opaque("uhugeint")),
        (pa.array([D(2**127)], pa.decimal256(40, 0)), opaque("hugeint")),
        (extension(opaque("hugeint"), [b"\xff" * 16]), opaque("uhugeint")),
        (extension(pa.uuid(), [b"\xff" * 16]), opaque("hugeint")),
        (pa.array([1], pa.time64("ns")), opaque("time_tz", 8)),
        (pa.array([1], pa.duration("s")), pa.month_day_nano_interval()),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_what_would_lose_or_invent_a_value_is_refused(array: pa.Array, kind: pa.DataType) -> None:
    """The error names the column, its type and the type that came."""
    with pytest.raises(SchemaMismatchError) as caught:
        conform_column(array, pa.field("c", kind))
    assert str(caught.value) == f"schema mismatch: column 'c' has type {kind}, input has {array.type}"


def test_batch_of_the_same_schema_is_passed_on() -> None:
    """Nothing is copied where nothing differs."""
    batch = pa.record_batch({"a": [1]})

    assert conform_batch(batch, batch.schema) is batch


def test_columns_are_put_in_order_with_the_metadata_of_the_table() -> None:
    """The result has exactly the table's schema."""
    schema = pa.schema(
        [pa.field("a", pa.int8(), nullable=False, metadata={"k": "v"}), pa.field("b", pa.string())]
    )
    result = conform_batch(pa.record_batch({"B": ["x"], "a": [1]}), schema)

    assert result.schema.equals(schema, check_metadata=True)
    assert result.to_pydict() == {"a": [1], "b": ["x"]}


def test_exact_name_comes_before_another_case() -> None:
    """Two columns that differ in case only are distinguished where that is possible."""
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64())])

    assert conform_batch(pa.record_batch({"A": [1], "a": [2]}), schema).to_pydict() == {"a": [2], "A": [1]}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pa.record_batch({"a": [1]}), "column mismatch: table has 2 columns, input has 1"),
        (pa.record_batch({"a": [1], "c": [1]}), "column 'b' is missing in the input"),
        (pa.record_batch([pa.array([1]), pa.array([1])], ["a", "a"]), "column 'a' is missing in the input"),
    ],
)
def test_other_columns_are_refused(batch: pa.RecordBatch, message: str) -> None:
    """The error counts or names the columns."""
    with pytest.raises(SchemaMismatchError) as caught:
        conform_batch(batch, pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    assert caught.value.detail == message


def test_batch_without_columns_has_rows() -> None:
    """A count of rows needs no values."""
    assert batch_of([], pa.schema([]), 3).num_rows == 3


def test_flat_types_have_no_encoding() -> None:
    """Dictionaries and run-end encoding are taken off, also around each other."""
    words = pa.dictionary(pa.int8(), pa.string())

    assert flat_type(pa.run_end_encoded(pa.int32(), pa.int8())) == pa.int8()
    assert flat_type(words) == pa.string()


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (WORDS.dictionary_encode(), pa.string()),
        (pc.run_end_encode(WORDS), pa.string()),
        (WORDS.cast(pa.string_view()), pa.large_string()),
        (pa.array([b"x"], pa.binary_view()), pa.large_binary()),
        (extension(pa.uuid(), [b"\0" * 16]), pa.binary(16)),
        (pa.array([1]), pa.int64()),
    ],
    ids=str,
)
def test_plain_columns_have_a_layout_that_arrow_computes_with(array: pa.Array, kind: pa.DataType) -> None:
    """Extensions, encodings and views are taken off, with and without rows."""
    assert plain_column(pa.chunked_array([array])).type == kind
    assert plain_column(pa.chunked_array([], array.type)).type == kind
    assert len(plain_column(pa.chunked_array([array, array]))) == 2 * len(array)
