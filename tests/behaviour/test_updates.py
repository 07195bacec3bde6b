"""UPDATE by row id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema
from sparkport.errors import InvalidRequestError, NotFoundError, RowNotFoundError, SchemaMismatchError
from tests.behaviour.engine import (
    FullTable,
    create,
    id_of,
    ids,
    insert,
    numbers,
    read,
    rows,
    update,
    values,
    version,
)


def people(schema: DynamicSchema) -> FullTable:
    """Make a table with three rows."""
    table = create(schema, {"name": pa.string(), "age": pa.int16()})
    insert(table, [{"name": "ann", "age": 1}, {"name": "bob", "age": 2}, {"name": "cid", "age": None}])
    return table


def test_only_named_columns_of_named_rows_change(schema: DynamicSchema) -> None:
    """The rest of the row, and the other rows, stay."""
    table = people(schema)

    assert update(table, [id_of(table, "name", "bob")], {"age": [9]}) == 1
    assert rows(table) == [{"name": "ann", "age": 1}, {"name": "bob", "age": 9}, {"name": "cid", "age": None}]


def test_values_go_with_their_ids(schema: DynamicSchema) -> None:
    """Rows may be named in any order."""
    table = people(schema)
    a, b, c = ids(table)

    assert update(table, [c, a, b], {"age": [30, 10, 20], "name": ["C", "A", "B"]}) == 3
    assert rows(table) == [{"name": "A", "age": 10}, {"name": "B", "age": 20}, {"name": "C", "age": 30}]


def test_update_may_set_null(schema: DynamicSchema) -> None:
    """NULL is a value like others."""
    table = people(schema)
    update(table, ids(table), {"age": [None, None, 3]})

    assert values(table, "age") == [None, None, 3]


def test_update_returns_what_is_stored(schema: DynamicSchema) -> None:
    """RETURNING gives whole rows, in the order named, with the table's types."""
    table = people(schema)
    order = [id_of(table, "name", "cid"), id_of(table, "name", "ann")]
    changes = pa.table({"age": pa.array([7, 8], pa.int64())})
    result = table.update(Call(), pa.array(order), changes.to_reader(), returning=True)

    assert result.affected_rows == 2
    assert result.returning_data is not None
    returned = result.returning_data.read_all()
    assert returned.schema == table.arrow_schema
    assert returned.to_pylist() == [
        {"name": "cid", "age": 7, "rowid": order[0]},
        {"name": "ann", "age": 8, "rowid": order[1]},
    ]
    assert rows(table)[2] == {"name": "cid", "age": 7}


def test_missing_row_stops_the_statement(schema: DynamicSchema) -> None:
    """One unknown id, and nothing changes."""
    table = people(schema)
    before = version(table)
    first = ids(table)[0]

    with pytest.raises(RowNotFoundError, match=r"^row_id 999 not found in table$"):
        update(table, [first, 999], {"age": [5, 6]})
    assert values(table, "age") == [1, 2, None]
    assert version(table) == before


def test_last_value_for_a_row_wins(schema: DynamicSchema) -> None:
    """A row named twice is one row changed."""
    table = people(schema)
    first = ids(table)[0]
    statement = table.begin_update(Call(), ("age",), returning=False)
    statement.write(pa.record_batch({"age": [5, 6], "rowid": [first, first]}))
    statement.write(pa.record_batch({"age": [7], "rowid": [first]}))

    assert statement.commit() == 1
    assert values(table, "age") == [7, 2, None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint64()])
def test_row_ids_may_be_any_integers(schema: DynamicSchema, kind: pa.DataType) -> None:
    """What counts is the number."""
    table = people(schema)
    statement = table.begin_update(Call(), ("age",), returning=False)
    statement.write(pa.record_batch({"age": [5], "rowid": pa.array(ids(table)[:1], kind)}))

    assert statement.commit() == 1


def test_unknown_column_is_refused_at_once(schema: DynamicSchema) -> None:
    """The columns of an UPDATE are known before its rows."""
    with pytest.raises(NotFoundError, match=r"^column 'agee' not found. Did you mean 'age'\?$"):
        people(schema).begin_update(Call(), ("agee",), returning=False)


@pytest.mark.parametrize("columns", [(), ("age", "AGE")])
def test_update_sets_each_column_once(schema: DynamicSchema, columns: tuple[str, ...]) -> None:
    """An UPDATE of nothing, or of one column twice, makes no sense."""
    with pytest.raises(InvalidRequestError):
        people(schema).begin_update(Call(), columns, returning=False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"age": [1]}, "schema mismatch: UPDATE sets 1 columns by row id, input has 1"),
        (
            {"age": [1], "b": [1], "rowid": [0]},
            "schema mismatch: UPDATE sets 1 columns by row id, input has 3",
        ),
        ({"age": ["x"], "rowid": [0]}, "schema mismatch: column 'age' has type int16, input has string"),
        ({"age": [70000], "rowid": [0]}, "schema mismatch: column 'age' has type int16, input has int64"),
        ({"age": [1], "rowid": ["x"]}, "schema mismatch: the row id must be an integer, not string"),
        ({"age": [1], "rowid": [0.5]}, "schema mismatch: the row id must be an integer, not double"),
    ],
)
def test_update_of_other_columns_is_refused(
    schema: DynamicSchema, data: dict[str, list[object]], message: str
) -> None:
    """The error says what was expected and what came in."""
    statement = people(schema).begin_update(Call(), ("age",), returning=False)

    with pytest.raises(SchemaMismatchError) as caught:
        statement.write(pa.record_batch(data))
    assert str(caught.value) == message


def test_row_id_must_not_be_null(schema: DynamicSchema) -> None:
    """A row without an id is no row."""
    statement = people(schema).begin_update(Call(), ("age",), returning=False)

    with pytest.raises(InvalidRequestError, match=r"^a row id must not be NULL$"):
        statement.write(pa.record_batch({"age": [1], "rowid": pa.array([None], pa.int64())}))


def test_ids_and_rows_are_as_many(schema: DynamicSchema) -> None:
    """An id without a row, or a row without an id, is refused."""
    table = people(schema)

    with pytest.raises(InvalidRequestError, match=r"^an UPDATE has 3 row ids, but 2 rows$"):
        update(table, ids(table), {"age": [1, 2]})
    assert values(table, "age") == [1, 2, None]


def test_empty_update_changes_nothing(schema: DynamicSchema) -> None:
    """No rows, no change."""
    table = people(schema)

    assert update(table, [], {"age": []}) == 0
    assert values(table, "age") == [1, 2, None]


def test_own_column_called_rowid_can_be_updated(schema: DynamicSchema) -> None:
    """The hidden id stays apart from a user's column of that name."""
    table = create(schema, {"rowid": pa.int64()})
    insert(table, [{"rowid": 100}, {"rowid": 200}])

    assert update(table, ids(table), {"rowid": [300, 400]}) == 2
    assert values(table, "rowid") == [300, 400]


def test_row_deleted_meanwhile_is_missing(schema: DynamicSchema) -> None:
    """A statement applies to the newest state."""
    table = numbers(schema, 1, 2)
    first = ids(table)[0]
    statement = table.begin_update(Call(), ("n",), returning=False)
    statement.write(pa.record_batch({"n": [5], "rowid": [first]}))
    table.delete(Call(), pa.array([first]))

    with pytest.raises(RowNotFoundError):
        statement.commit()
    assert read(table)["n"].to_pylist() == [2]
