from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkport.errors import InvalidRequestError, SchemaMismatchError
from sparkport.spark.types import (
    BatchTooLargeError,
    StoredValueError,
    decode,
    decode_batch,
    decode_batches,
    encode,
    encode_batch,
    spark_field,
    storage_type,
)
from tests.behaviour.samples import SAMPLES

from .arrow_strategies import LEAVES, arrays, leaves

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
TIME_TZ = pa.opaque(pa.binary(8), "time_tz", "DuckDB")


def there_and_back(array: pa.Array) -> pa.Array:
    """Return what storage gives back, after checks that hold for all types."""
    field = pa.field("c", array.type)
    stored = encode(array, field)
    stored.validate(full=True)
    exact = decode(stored, field)
    exact.validate(full=True)
    assert stored.type.equals(storage_type(spark_field(field).type), check_metadata=True)
    assert exact.type.equals(array.type, check_metadata=True)
    return exact


def bits(array: pa.Array) -> pa.Array:
    """Return floats as their bits, which tell zeros apart and are equal for NaN."""
    widths = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return array.view(widths[array.type]) if array.type in widths else array


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(3, None), slice(2, 3), slice(0, 0)])
def test_every_type_comes_back(name: str, part: slice) -> None:
    """Null, extremes and something plain are the same after storage, also in a slice."""
    array = SAMPLES[name][part]

    exact = there_and_back(array)

    if isinstance(exact, pa.DictionaryArray):
        assert exact.to_pylist() == array.to_pylist()
    else:
        assert bits(exact).equals(bits(array))


@pytest.mark.parametrize("kind", LEAVES, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_random_values_come_back(kind: pa.DataType, data: st.DataObject) -> None:
    """All bits of all values that a type has survive."""
    array = data.draw(leaves(kind))
    array = array.slice(data.draw(st.integers(0, 3)))

    assert bits(there_and_back(array)).equals(bits(array))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_random_nested_values_come_back(data: st.DataObject) -> None:
    """Types survive within each other, too."""
    array = data.draw(arrays(data.draw(st.integers(0, 6)), 3))
    array = array.slice(data.draw(st.integers(0, 2)))

    assert repr(there_and_back(array).to_pylist()) == repr(array.to_pylist())


@pytest.mark.parametrize(
    ("array", "stored"),
    [
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (
            pa.array([b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"], pa.uuid()),
            ["00112233-4455-6677-8899-aabbccddeeff"],
        ),
        (pa.array(["1.50"], pa.string()).cast(pa.decimal256(50, 2)), ["1.50"]),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), ["[('months', 1), ('days', 2), ('nanos', 3)]"]),
        (pa.array([-1], pa.int64()).view(pa.timestamp("ms")), ["-1"]),
        (pa.array([None, "a"]).dictionary_encode(), ["None", "a"]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8())), ["False", "True"]),
        (
            pa.ExtensionArray.from_storage(
                TIME_TZ, pa.array([bytes.fromhex("dfc400003a0ecd08")], pa.binary(8))
            ),
            ["[('micros', 37800000000), ('offset_seconds', 7200)]"],
        ),
        (SAMPLES["sparse union"][:1], ["[('tag', 0), ('n', 1), ('t', None)]"]),
    ],
)
def test_spark_users_see_something_sensible(array: pa.Array, stored: list[str]) -> None:
    """The stored form can be read without sparkport."""
    shown = encode(array, pa.field("c", array.type)).to_pylist()

    assert [str(list(value.items()) if isinstance(value, dict) else value) for value in shown] == stored


@pytest.mark.parametrize(("kind", "signed"), [(HUGEINT, True), (UHUGEINT, False)])
def test_wide_integers_sort_as_bytes(kind: pa.DataType, signed: bool) -> None:
    """The order of the stored bytes is the order of the numbers."""
    low, high = (-(2**127), 2**127 - 1) if signed else (0, 2**128 - 1)
    numbers = sorted([low, low + 1, *range(-300 if signed else 100, 300, 100), 2**64, high - 1, high])
    data = [number.to_bytes(16, "little", signed=signed) for number in numbers]
    array = pa.ExtensionArray.from_storage(kind, pa.array(data, pa.binary(16)))

    stored = encode(array, pa.field("c", kind)).to_pylist()

    assert stored == sorted(stored)
    assert len(set(stored)) == len(numbers)


def test_plain_values_are_not_copied() -> None:
    """Where storage is the type itself, the very array goes through."""
    array = pa.array([[1, None], []], pa.list_(pa.int64()))
    field = pa.field("c", array.type)

    assert encode(array, field) is array
    assert decode(array, field) is array


def test_chunks_are_joined() -> None:
    """A chunked array becomes one array, whatever each chunk's dictionary."""
    chunks = pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    field = pa.field("c", chunks.type)

    stored = encode(chunks, field)

    assert stored.equals(pa.array(["a", "b"]))
    assert decode(pa.chunked_array([stored, stored]), field).to_pylist() == ["a", "b", "a", "b"]
    assert decode(pa.chunked_array([], pa.string()), field).to_pylist() == []


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([1], pa.timestamp("us", "Asia/Tokyo")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us", "Europe/Paris")),
        (pa.array(["x"], pa.large_string()), pa.string()),
        (pa.array(["x"], pa.string_view()), pa.large_string()),
        (pa.array([[1]], pa.list_(pa.field("element", pa.int32(), nullable=False))), pa.list_(pa.int32())),
        (pa.array([{"col-1": 1}], pa.struct([("col-1", pa.int16())])), pa.struct([("a", pa.uint8())])),
        (pa.array([1000], pa.time64("ns")), pa.time64("us")),
        (pa.array([1], pa.duration("us")), pa.duration("us")),
    ],
)
def test_layouts_of_files_and_results_are_understood(stored: pa.Array, kind: pa.DataType) -> None:
    """Spark and Parquet name items otherwise, give other zones, and physical names of struct fields."""
    exact = decode(stored, pa.field("c", kind))

    assert exact.type.equals(kind, check_metadata=True)
    assert exact.is_valid().to_pylist() == [True]


def test_months_of_spark_are_intervals() -> None:
    """A plain column of months reads as the one interval type of DuckDB."""
    exact = decode(pa.array([14, None], pa.int32()), pa.field("c", pa.month_day_nano_interval()))

    assert exact.to_pylist() == [pa.MonthDayNano([14, 0, 0]), None]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([-1], pa.int16()), pa.uint8()),
        (pa.array(["00112233-4455-6677-8899-AABBCCDDEEFF"]), pa.uuid()),
        (pa.array(["00112233-4455-6677-8899+aabbccddeeff"]), pa.uuid()),
        (pa.array(["short"]), pa.uuid()),
        (pa.array([b"short"]), HUGEINT),
        (pa.array([b"short"]), pa.binary(3)),
        (pa.array([[1]]), pa.list_(pa.int64(), 2)),
        (pa.array([True]), pa.null()),
        (pa.array([{"micros": -1, "offset_seconds": 0}]), TIME_TZ),
        (pa.array([{"micros": 0, "offset_seconds": 60_000}]), TIME_TZ),
        (pa.array([{"tag": 9, "n": 1, "t": None}]), SAMPLES["sparse union"].type),
        (pa.array([{"tag": 0, "n": 1}]), SAMPLES["sparse union"].type),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.uint8()), ("b", pa.uint8())])),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
    ],
)
def test_values_that_others_wrote_and_do_not_fit_are_named(stored: pa.Array, kind: pa.DataType) -> None:
    """A stored value that the exact type does not have is an error with the column's name."""
    with pytest.raises(StoredValueError, match=r"column 'c' of type .* holds an invalid value"):
        decode(stored, pa.field("c", kind))


def test_null_where_a_union_cannot_be_null() -> None:
    """A null struct that somebody else wrote reads as a null of the first member."""
    field = pa.field("c", SAMPLES["dense union"].type)
    stored = encode(SAMPLES["dense union"], field)

    assert decode(pa.nulls(1, stored.type), field).to_pylist() == [None]


def test_a_date_in_the_middle_of_a_day_is_refused() -> None:
    """A date64 is whole days by specification; no other value is put in its place."""
    array = pa.array([1], pa.int64()).view(pa.date64())

    with pytest.raises(InvalidRequestError, match="a date64 value is not a whole day"):
        encode(array, pa.field("c", pa.date64()))


def test_a_date_beyond_spark_is_refused() -> None:
    """Days have 32 bits on storage."""
    array = pa.array([2**31 * 86_400_000], pa.int64()).view(pa.date64())

    with pytest.raises(InvalidRequestError, match="column 'c' cannot be stored"):
        encode(array, pa.field("c", pa.date64()))


def test_values_of_another_type_are_refused() -> None:
    """Encoding is by the table's field, so the values must have its type."""
    with pytest.raises(SchemaMismatchError, match="column 'c' is int64, not int32"):
        encode(pa.array([1], pa.int32()), pa.field("c", pa.int64()))


def schema_of(**columns: pa.DataType) -> pa.Schema:
    """Return a schema of nullable columns."""
    return pa.schema(list(columns.items()))


def test_a_projection_can_be_decoded() -> None:
    """A batch may have some of the table's columns, in any order."""
    arrow_schema = schema_of(a=pa.uint8(), b=pa.uuid(), c=pa.string_view())
    batch = pa.record_batch(
        [pa.array([1], pa.uint8()), pa.array([b"x" * 16], pa.uuid()), pa.array(["t"], pa.string_view())],
        schema=arrow_schema,
    )

    stored = encode_batch(batch, arrow_schema)

    assert stored.schema == schema_of(a=pa.int16(), b=pa.string(), c=pa.string())
    assert decode_batch(stored.select(["c", "a"]), arrow_schema) == batch.select(["c", "a"])


def test_a_batch_without_columns_keeps_its_rows() -> None:
    """Counting needs no column."""
    empty = pa.record_batch([pa.array([1, 2])], ["a"]).select([])

    assert decode_batch(empty, pa.schema([])).num_rows == 2


@pytest.mark.parametrize(
    ("kind", "parts"),
    [(pa.dictionary(pa.int8(), pa.string()), 4), (pa.run_end_encoded(pa.int16(), pa.string()), 1)],
)
def test_batches_are_split_where_a_type_cannot_count_them(kind: pa.DataType, parts: int) -> None:
    """Rows of many small dictionaries may meet in one batch of a file."""
    stored = pa.record_batch([pa.array([str(number) for number in range(300)])], ["c"])
    arrow_schema = schema_of(c=kind)

    batches = list(decode_batches(stored, arrow_schema))

    assert len(batches) == parts
    assert [row["c"] for batch in batches for row in batch.to_pylist()] == [str(n) for n in range(300)]


def test_more_runs_than_16_bits_count_are_refused_in_one_batch() -> None:
    """Whoever wants one array gets an error, and no wrong array."""
    kind = pa.run_end_encoded(pa.int16(), pa.bool_())

    with pytest.raises(BatchTooLargeError, match="cannot count to 40000 in one batch"):
        decode(pa.nulls(40_000, pa.bool_()), pa.field("c", kind))


def test_one_row_that_does_not_fit_is_an_error() -> None:
    """A list in one row cannot be split."""
    items: list[Any] = [str(number) for number in range(300)]
    stored = pa.record_batch([pa.array([items])], ["c"])

    with pytest.raises(BatchTooLargeError):
        list(decode_batches(stored, schema_of(c=pa.list_(pa.dictionary(pa.int8(), pa.string())))))


def test_an_empty_struct_is_a_boolean() -> None:
    """Parquet has no groups without fields."""
    array = pa.array([{}, None], pa.struct([]))

    assert encode(array, pa.field("c", array.type)).to_pylist() == [True, None]
    assert there_and_back(array).to_pylist() == [{}, None]


def test_maps_as_keys_come_back() -> None:
    """Spark has no such maps, so they are stored as arrays."""
    inner = pa.map_(pa.string(), pa.uint8())
    keys = pa.array([[("a", 1)], [("b", None)]], inner)
    array = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array([1, 2], pa.int8()))

    assert there_and_back(array).equals(array)


def test_keys_that_come_twice_come_back() -> None:
    """Arrow's maps may repeat a key."""
    array = pa.array([[(1, "a"), (1, "b")]], pa.map_(pa.uint8(), pa.string()))

    assert there_and_back(array).equals(array)


@pytest.mark.parametrize("inner", [pa.list_(pa.uint8()), pa.struct([("a", pa.uint8())])])
def test_runs_and_dictionaries_of_nested_values_come_back(inner: pa.DataType) -> None:
    """Arrow cannot find equal lists or structs, so each value stands for itself."""
    value: Any = [1] if pa.types.is_list(inner) else {"a": 1}
    values = pa.array([value, None], inner)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), values)
    words = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), values)

    assert there_and_back(runs).to_pylist() == [value, value, None]
    assert there_and_back(words).to_pylist() == [value, None, None, value]


def test_a_duckdb_type_over_another_storage_is_stored_as_that() -> None:
    """Only the layout that DuckDB itself uses is taken apart."""
    kind = pa.opaque(pa.large_binary(), "hugeint", "DuckDB")
    array = pa.ExtensionArray.from_storage(kind, pa.array([b"x", None], pa.large_binary()))

    assert encode(array, pa.field("c", kind)).to_pylist() == [b"x", None]
    assert there_and_back(array).equals(array)
