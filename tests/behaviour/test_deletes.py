"""DELETE by row id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema
from sparkport.errors import InvalidRequestError, SchemaMismatchError
from tests.behaviour.engine import create, delete, ids, insert, numbers, rows, values


def test_named_rows_go(schema: DynamicSchema) -> None:
    """The other rows stay in their order."""
    table = numbers(schema, 1, 2, 3, 4)
    _, second, _, fourth = ids(table)

    assert delete(table, [fourth, second]) == 2
    assert values(table) == [1, 3]


def test_missing_ids_are_ignored_and_not_counted(schema: DynamicSchema) -> None:
    """The count is of rows that were there."""
    table = numbers(schema, 1, 2)
    first = ids(table)[0]

    assert delete(table, [first, 999, -1]) == 1
    assert delete(table, [first]) == 0
    assert values(table) == [2]


def test_row_named_twice_is_deleted_once(schema: DynamicSchema) -> None:
    """Count and RETURNING speak of rows, not of ids sent."""
    table = numbers(schema, 1, 2)
    first = ids(table)[0]
    statement = table.begin_delete(Call(), returning=True)
    answers = [
        statement.write(pa.record_batch({"rowid": [first, first]})),
        statement.write(pa.record_batch({"rowid": [first]})),
    ]

    assert [answer.num_rows for answer in answers if answer is not None] == [1, 0]
    assert statement.commit() == 1
    assert values(table) == [2]


def test_delete_returns_the_rows_that_go(schema: DynamicSchema) -> None:
    """RETURNING gives whole rows, in the order named, without those missing."""
    table = create(schema, {"a": pa.int64(), "b": pa.string()})
    insert(table, [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "z"}])
    first, second, third = ids(table)
    result = table.delete(Call(), pa.array([third, 999, first]), returning=True)

    assert result.affected_rows == 2
    assert result.returning_data is not None
    assert result.returning_data.read_all().to_pylist() == [
        {"a": 3, "b": "z", "rowid": third},
        {"a": 1, "b": "x", "rowid": first},
    ]
    assert ids(table) == [second]


def test_delete_without_returning_returns_nothing(schema: DynamicSchema) -> None:
    """Rows come back only if they are asked for."""
    table = numbers(schema, 1)

    assert table.delete(Call(), pa.array(ids(table))).returning_data is None


def test_all_rows_can_go(schema: DynamicSchema) -> None:
    """An empty table takes rows again."""
    table = numbers(schema, 1, 2)
    delete(table, ids(table))

    assert rows(table) == []
    insert(table, [{"n": 3}])
    assert values(table) == [3]


def test_delete_of_nothing_returns_no_rows(schema: DynamicSchema) -> None:
    """RETURNING of nothing is an empty stream with the table's columns."""
    table = numbers(schema, 1)
    result = table.delete(Call(), pa.array([], pa.int64()), returning=True)

    assert result.affected_rows == 0
    assert result.returning_data is not None
    assert result.returning_data.read_all().num_rows == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pa.record_batch({"n": [1], "rowid": [0]}), SchemaMismatchError),
        (pa.record_batch({"rowid": ["x"]}), SchemaMismatchError),
        (pa.record_batch({"rowid": pa.array([None], pa.int64())}), InvalidRequestError),
    ],
)
def test_delete_takes_row_ids_only(
    schema: DynamicSchema, data: pa.RecordBatch, error: type[Exception]
) -> None:
    """Anything else is refused."""
    statement = numbers(schema, 1).begin_delete(Call(), returning=False)

    with pytest.raises(error):
        statement.write(data)
