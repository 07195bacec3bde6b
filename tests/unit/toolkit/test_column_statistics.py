from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from sparkport.toolkit.column_statistics import column_statistics


def test_nan_makes_the_range_unknown() -> None:
    """SQL orders NaN last and Arrow leaves it out, so that nothing is promised."""
    found = column_statistics(pa.chunked_array([[1.0, float("nan"), None]]))

    assert not found.minimum.is_valid
    assert not found.maximum.is_valid
    assert (found.has_null, found.has_not_null) == (True, True)


def test_infinities_are_numbers() -> None:
    """They are the ends of the range."""
    found = column_statistics(pa.chunked_array([[float("-inf"), 1.0, float("inf")]]))

    assert (found.minimum.as_py(), found.maximum.as_py()) == (float("-inf"), float("inf"))


def test_uuid_range_has_the_column_type() -> None:
    """Extension types sort as their bytes do."""
    low, high = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([high.bytes, low.bytes, None], pa.binary(16)))
    found = column_statistics(pa.chunked_array([array]))

    assert found.minimum.type == pa.uuid()
    assert (found.minimum.as_py(), found.maximum.as_py()) == (low, high)
    assert found.distinct_count == 2


def test_opaque_types_have_no_range() -> None:
    """Little-endian and packed layouts do not sort by their bytes."""
    kind = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
    array = pa.ExtensionArray.from_storage(kind, pa.array([b"\0" * 16, b"\xff" * 16], pa.binary(16)))
    found = column_statistics(pa.chunked_array([array]))

    assert not found.minimum.is_valid
    assert found.minimum.type == kind
    assert found.distinct_count == 2


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_tell_their_length_in_bytes(kind: pa.DataType) -> None:
    """The length counts bytes, and letters beyond ASCII are detected."""
    found = column_statistics(pa.chunked_array([pa.array(["ä🦆", "abc", None], kind)]))
    plain = column_statistics(pa.chunked_array([pa.array(["abc", ""], kind)]))

    assert (found.max_string_length, found.contains_unicode) == (6, True)
    assert (plain.max_string_length, plain.contains_unicode) == (3, False)


def test_bytes_tell_their_length() -> None:
    """Bytes have a length, but no letters."""
    found = column_statistics(pa.chunked_array([pa.array([b"\xff\0", b""])]))

    assert (found.max_string_length, found.contains_unicode) == (2, None)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.string(), pa.float16(), pa.uuid(), pa.list_(pa.int8()), pa.null()], ids=str
)
def test_no_rows_promise_nothing(kind: pa.DataType) -> None:
    """Neither null nor value, and no range."""
    found = column_statistics(pa.chunked_array([], kind))

    assert (found.has_null, found.has_not_null, found.distinct_count) == (False, False, 0)
    assert not found.minimum.is_valid


def test_only_nulls() -> None:
    """A column of nulls has no range and no values."""
    found = column_statistics(pa.chunked_array([pa.nulls(3, pa.int64())]))

    assert (found.has_null, found.has_not_null, found.distinct_count) == (True, False, 0)


def test_null_inside_a_union_is_a_null() -> None:
    """A union has no bitmap of its own, yet has nulls."""
    union = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, None])], ["n"])

    assert column_statistics(pa.chunked_array([union])).has_null


def test_long_lists_are_distinguished() -> None:
    """Distinct values are counted by all of their elements."""
    lists = [list(range(100)), [*range(50), -1, *range(51, 100)], list(range(100))]

    assert column_statistics(pa.chunked_array([pa.array(lists)])).distinct_count == 2


def test_distinct_values_of_large_columns_are_not_counted() -> None:
    """Counting them takes seconds, and a planner can do without; the range stays exact."""
    small = column_statistics(pa.chunked_array([pa.array(range(1000))]))
    large = column_statistics(pa.chunked_array([pa.array(range(100_001))]))

    assert small.distinct_count == 1000
    assert large.distinct_count == 0
    assert (large.minimum.as_py(), large.maximum.as_py()) == (0, 100_000)
