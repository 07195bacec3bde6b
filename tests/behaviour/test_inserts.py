"""INSERT: what goes in, what comes back, what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema, ScanOptions
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import InvalidRequestError, SchemaMismatchError
from tests.behaviour.engine import (
    create,
    ids,
    insert,
    numbers,
    read,
    rows,
    values,
    version,
)
from tests.behaviour.samples import empty_lists

PAIR = {"a": pa.int64(), "b": pa.string()}


def test_inserted_rows_are_read_back_in_order(schema: DynamicSchema) -> None:
    """Statements add rows at the end."""
    table = create(schema, PAIR)

    assert insert(table, [{"a": 1, "b": "x"}, {"a": 2, "b": None}]) == 2
    assert insert(table, [{"a": 3, "b": ""}]) == 1
    assert rows(table) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": ""}]


def test_columns_are_matched_by_name(schema: DynamicSchema) -> None:
    """The order and case of incoming columns do not matter."""
    table = create(schema, PAIR)
    table.insert(Call(), pa.table({"B": ["x"], "a": [1]}).to_reader())

    assert rows(table) == [{"a": 1, "b": "x"}]


def test_insert_without_returning_returns_nothing(schema: DynamicSchema) -> None:
    """Rows come back only if they are asked for."""
    table = numbers(schema)

    assert table.insert(Call(), pa.table({"n": [1]}).to_reader()).returning_data is None
    statement = table.begin_insert(Call(), returning=False)
    assert statement.write(pa.record_batch({"n": [1]})) is None
    assert statement.commit() == 1


def test_insert_returns_what_is_stored(schema: DynamicSchema) -> None:
    """RETURNING gives the rows with the table's types and their row ids."""
    table = create(schema, {"a": pa.int8(), "b": pa.large_string()})
    result = table.insert(Call(), pa.table({"b": ["x", None], "a": [1, 2]}).to_reader(), returning=True)

    assert result.affected_rows == 2
    assert result.returning_data is not None
    returned = result.returning_data.read_all()
    assert returned.schema == table.arrow_schema
    assert returned.equals(read(table))


def test_each_batch_is_answered_before_the_next(schema: DynamicSchema) -> None:
    """A statement answers batch by batch; nothing is visible before its end."""
    table = numbers(schema)
    statement = table.begin_insert(Call(), returning=True)
    first = statement.write(pa.record_batch({"n": [1, 2]}))
    second = statement.write(pa.record_batch({"n": [3]}))

    assert rows(table) == []
    assert statement.commit() == 3
    assert first is not None
    assert second is not None
    assert pa.Table.from_batches([first, second]).equals(read(table))


def test_empty_insert_is_a_statement(schema: DynamicSchema) -> None:
    """No rows are fine: nothing changes, and the statement counts as a version."""
    table = numbers(schema, 1)
    before = version(table)

    assert insert(table, []) == 0
    assert values(table) == [1]
    assert version(table) == before + 1


def test_empty_insert_returns_no_rows(schema: DynamicSchema) -> None:
    """RETURNING of nothing is an empty stream with the table's columns."""
    table = numbers(schema)
    result = table.insert(Call(), pa.table({"n": pa.array([], pa.int64())}).to_reader(), returning=True)

    assert result.affected_rows == 0
    assert result.returning_data is not None
    assert result.returning_data.schema.names == ["n", "rowid"]
    assert result.returning_data.read_all().num_rows == 0


@pytest.mark.parametrize(
    ("incoming", "message"),
    [
        (pa.table({"a": [1]}), "schema mismatch: column mismatch: table has 2 columns, input has 1"),
        (
            pa.table({"a": [1], "b": ["x"], "c": [1]}),
            "schema mismatch: column mismatch: table has 2 columns, input has 3",
        ),
        (pa.table({"a": [1], "c": ["x"]}), "schema mismatch: column 'b' is missing in the input"),
        (
            pa.table({"a": ["text"], "b": ["x"]}),
            "schema mismatch: column 'a' has type int64, input has string",
        ),
        (
            pa.table({"a": [[1]], "b": ["x"]}),
            "schema mismatch: column 'a' has type int64, input has list<item: int64>",
        ),
        (
            pa.table({"a": [1.5], "b": ["x"]}),
            "schema mismatch: column 'a' has type int64, input has double",
        ),
        (
            pa.table([pa.array([1]), pa.array([1]), pa.array(["x"])], ["a", "a", "b"]).drop_columns([]),
            "schema mismatch: column mismatch: table has 2 columns, input has 3",
        ),
    ],
)
def test_rows_of_other_columns_are_refused(schema: DynamicSchema, incoming: pa.Table, message: str) -> None:
    """The error says what the table has and what came in."""
    table = create(schema, PAIR)

    with pytest.raises(SchemaMismatchError) as caught:
        table.insert(Call(), incoming.to_reader())
    assert str(caught.value) == message
    assert rows(table) == []


def test_finished_statement_takes_no_more(schema: DynamicSchema) -> None:
    """A statement is finished after commit or abort; aborting it again does nothing."""
    table = numbers(schema)
    statement = table.begin_insert(Call(), returning=False)
    statement.commit()
    statement.abort()
    statement.abort()

    with pytest.raises(InvalidRequestError, match=r"^statement already finished$"):
        statement.write(pa.record_batch({"n": [1]}))
    with pytest.raises(InvalidRequestError, match=r"^statement already finished$"):
        statement.commit()
    assert rows(table) == []


def test_many_small_batches_become_one_statement(schema: DynamicSchema) -> None:
    """The cut of the stream does not matter."""
    table = numbers(schema)
    data = pa.table({"n": range(1000)})

    assert table.insert(Call(), data.to_reader(max_chunksize=7)).affected_rows == 1000
    assert values(table) == list(range(1000))
    assert version(table) == 2


def test_ids_of_overlapping_inserts_find_their_rows(schema: DynamicSchema) -> None:
    """Whichever statement commits first, an id leads to its own row."""
    table = numbers(schema)
    first = table.begin_insert(Call(), returning=False)
    second = table.begin_insert(Call(), returning=False)
    first.write(pa.record_batch({"n": [1, 2]}))
    second.write(pa.record_batch({"n": [3, 4]}))
    second.commit()
    first.commit()
    by_id = dict(zip(ids(table), values(table), strict=True))
    result = table.delete(Call(), pa.array(sorted(by_id), pa.int64()), returning=True)

    assert result.returning_data is not None
    returned = result.returning_data.read_all()
    assert dict(zip(returned["rowid"].to_pylist(), returned["n"].to_pylist(), strict=True)) == by_id


def test_empty_lists_without_offsets(schema: DynamicSchema) -> None:
    """Arrow lets the offsets of no lists be missing; what is before them in memory is nobody's."""
    lists = empty_lists()
    table = create(schema, {"l": lists.type})
    returned = table.insert(Call(), pa.table({"l": lists}).to_reader(), returning=True)
    table.insert(Call(), pa.table({"l": pa.array([[[[1]]]], lists.type)}).to_reader())

    assert returned.returning_data is not None
    assert returned.returning_data.read_all()["l"].to_pylist() == [[], [], None, []]
    assert values(table, "l") == [[], [], None, [], [[[1]]]]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_the_end_of_a_day_is_a_time(schema: DynamicSchema, unit: str) -> None:
    """DuckDB's TIME 24:00:00 comes back as it went in, found by a filter and counted by statistics."""
    day = 86_400_000_000 * (1000 if unit == "ns" else 1)
    kind = pa.time64(unit)
    times = pa.array([day, 0, None], pa.int64()).view(kind)
    table = create(schema, {"v": kind})
    table.insert(Call(), pa.table({"v": times}).to_reader())
    equal = Comparison(ComparisonOperator.EQUAL, Column("v"), Constant(times[0]))
    found = [read(table, options=ScanOptions(columns=("v",), filter=test)) for test in (None, equal)]
    stored, matching = (rows.column("v").combine_chunks().view(pa.int64()).to_pylist() for rows in found)

    assert stored == [day, 0, None]
    assert day in matching
    assert table.column_statistics(Call(), "v").maximum.value in {day, None}
