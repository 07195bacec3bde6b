"""Reading: columns, filter, limit, slices, batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema, ScanOptions, ScanSlice
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant, Unknown
from sparkport.errors import NotFoundError
from tests.behaviour.engine import (
    FullTable,
    at_version,
    create,
    delete,
    ids,
    insert,
    numbers,
    read,
    rows,
    values,
)

TRIPLE = {"a": pa.int64(), "b": pa.string(), "c": pa.float64()}


def triples(schema: DynamicSchema) -> FullTable:
    """Make a table with three columns and four rows."""
    table = create(schema, TRIPLE)
    insert(table, [{"a": number, "b": str(number), "c": number / 2} for number in range(4)])
    return table


def test_columns_come_in_the_order_asked_for(schema: DynamicSchema) -> None:
    """A projection gives at least its columns, with their types, whatever the case asked in."""
    table = triples(schema)
    found = read(table, options=ScanOptions(columns=("c", "A")))

    assert found.select(["c", "a"]).to_pylist()[1] == {"c": 0.5, "a": 1}
    assert found.schema.field("c").type == pa.float64()


def test_row_id_alone_can_be_read(schema: DynamicSchema) -> None:
    """The row id is a column like others."""
    table = triples(schema)

    assert read(table, options=ScanOptions(columns=("rowid",)))["rowid"].to_pylist() == ids(table)


def test_scan_of_no_columns_counts_rows(schema: DynamicSchema) -> None:
    """COUNT(*) needs no values."""
    table = triples(schema)
    reader = table.scan(Call(), ScanOptions(columns=()))

    assert sum(batch.num_rows for batch in reader) == 4


def test_missing_column_is_named_in_the_error(schema: DynamicSchema) -> None:
    """A projection of what is not there is an error."""
    with pytest.raises(NotFoundError, match=r"^column 'zzz' not found$"):
        read(triples(schema), options=ScanOptions(columns=("a", "zzz")))


@pytest.mark.parametrize(("limit", "count"), [(None, 4), (0, 4), (-1, 4), (1, 1), (3, 3), (4, 4), (100, 4)])
def test_limit_is_the_most_rows_that_come(schema: DynamicSchema, limit: int | None, count: int) -> None:
    """Zero or less means no limit."""
    found = rows(triples(schema), options=ScanOptions(limit=limit, batch_size=2))

    assert len(found) == count


def test_filter_keeps_every_row_that_matches(schema: DynamicSchema) -> None:
    """A filter may leave out rows, but never one that matches."""
    table = triples(schema)
    wanted = Comparison(ComparisonOperator.GREATER, Column("a"), Constant(pa.scalar(1)))
    found = rows(table, options=ScanOptions(columns=("a",), filter=wanted))

    assert {2, 3} <= {row["a"] for row in found}


def test_filter_may_read_columns_that_are_not_delivered(schema: DynamicSchema) -> None:
    """Filter and projection are independent."""
    wanted = Comparison(ComparisonOperator.EQUAL, Column("b"), Constant(pa.scalar("2")))
    found = rows(triples(schema), options=ScanOptions(columns=("a",), filter=wanted))

    assert 2 in [row["a"] for row in found]


@pytest.mark.parametrize(
    "predicate",
    [
        Unknown("something new"),
        Comparison(ComparisonOperator.EQUAL, Column("zzz"), Constant(pa.scalar(1))),
        Comparison(ComparisonOperator.EQUAL, Column("a"), Constant(pa.scalar([1]))),
    ],
)
def test_filter_that_makes_no_sense_keeps_all_rows(
    schema: DynamicSchema, predicate: Unknown | Comparison
) -> None:
    """What is not understood filters nothing."""
    assert len(rows(triples(schema), options=ScanOptions(filter=predicate))) == 4


def test_limit_does_not_cut_what_the_filter_may_need(schema: DynamicSchema) -> None:
    """A filter is applied again by the client, so a limit may only count rows that pass it."""
    table = triples(schema)
    found = rows(table, options=ScanOptions(filter=Unknown("a = 3"), limit=1))

    assert {"a": 3, "b": "3", "c": 1.5} in found


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16])
def test_slices_together_are_the_whole_scan(schema: DynamicSchema, count: int) -> None:
    """Slices are disjoint and miss nothing, also when there are more than rows."""
    table = create(schema, {"n": pa.int64()})
    for start in range(0, 12, 4):
        insert(table, [{"n": start + i} for i in range(4)])
    delete(table, ids(table)[3:5])
    parts = [rows(table, options=ScanOptions(slice=ScanSlice(i, count), batch_size=2)) for i in range(count)]

    assert sorted(row["n"] for part in parts for row in part) == sorted(values(table))


@pytest.mark.parametrize("piece", [ScanSlice(2, 2), ScanSlice(-1, 2)])
def test_slice_out_of_range_is_not_found(schema: DynamicSchema, piece: ScanSlice) -> None:
    """A slice that is not there is an error, not an empty part."""
    with pytest.raises(NotFoundError, match=f"^slice '{piece.index}' not found$"):
        read(triples(schema), options=ScanOptions(slice=piece))


def test_small_table_is_one_slice(schema: DynamicSchema) -> None:
    """There is always at least one."""
    assert triples(schema).slice_count(Call(), ScanOptions()) == 1
    assert numbers(schema, name="empty").slice_count(Call(), ScanOptions()) == 1


def test_slices_of_a_pinned_scan_belong_together(schema: DynamicSchema) -> None:
    """Slices read at different times give one state when the scan is pinned."""
    table = numbers(schema, *range(10))
    pin = table.snapshot(Call(), None).time_point
    first = rows(table, options=ScanOptions(slice=ScanSlice(0, 2), time_point=pin))
    delete(table, ids(table)[:7])
    insert(table, [{"n": 99}])
    second = rows(table, options=ScanOptions(slice=ScanSlice(1, 2), time_point=pin))

    assert [row["n"] for row in first + second] == list(range(10))


def test_batch_size_is_respected_or_ignored_but_loses_nothing(schema: DynamicSchema) -> None:
    """The size of batches is a hint."""
    table = numbers(schema, *range(10))
    batches = list(table.scan(Call(), ScanOptions(batch_size=3)))

    assert [n for batch in batches for n in batch.column("n").to_pylist()] == list(range(10))


def test_reading_goes_on_while_others_write(schema: DynamicSchema) -> None:
    """An open stream keeps its state."""
    table = numbers(schema, 1, 2, 3)
    reader = table.scan(Call(), ScanOptions(batch_size=1))
    reader.read_next_batch()
    delete(table, ids(table))
    insert(table, [{"n": 4}])

    assert reader.read_all()["n"].to_pylist() == [2, 3]


def test_empty_version_can_be_scanned(schema: DynamicSchema) -> None:
    """No rows come with all columns."""
    found = read(triples(schema), options=ScanOptions(time_point=at_version(0)))

    assert found.num_rows == 0
    assert found.schema.names == ["a", "b", "c", "rowid"]
