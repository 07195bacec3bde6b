"""A statement on rows that were read without a transaction: nobody may have changed them since."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DynamicSchema, TransactionalCatalog
from sparkport.errors import ConflictError
from tests.behaviour.engine import FullTable, create, delete, id_of, insert, numbers, update, values


def version_of(table: FullTable) -> str:
    """Return the snapshot that a scan would read now."""
    point = table.snapshot(Call(), None).time_point
    assert point is not None
    return point.value


def since(version: str) -> Call:
    """Return the call of a client that has read a snapshot."""
    return Call(if_version=version)


def test_rows_that_others_changed_since_are_a_conflict(schema: DynamicSchema) -> None:
    """Of two clients that read and write the same row, the second gets a conflict and changes nothing."""
    table = numbers(schema, 1, 2, 3)
    read = version_of(table)
    first, second, third = (id_of(table, "n", number) for number in (1, 2, 3))
    update(table, [first], {"n": [10]})
    delete(table, [second])

    with pytest.raises(ConflictError):
        update(table, [first], {"n": [100]}, since(read))
    with pytest.raises(ConflictError):
        update(table, [third, first], {"n": [300, 100]}, since(read))
    with pytest.raises(ConflictError):
        delete(table, [first], since(read))
    with pytest.raises(ConflictError):
        delete(table, [third, second], since(read))
    assert values(table) == [10, 3]
    assert update(table, [third], {"n": [30]}, since(read)) == 1
    assert update(table, [first], {"n": [11]}, since(version_of(table))) == 1
    assert values(table) == [11, 30]


def test_new_rows_of_others_are_no_conflict(schema: DynamicSchema) -> None:
    """Rows that are only added meanwhile were not read; one's own can be changed without reading them."""
    table = numbers(schema, 1)
    read = version_of(table)
    insert(table, [{"n": 2}])
    added = id_of(table, "n", 2)

    assert update(table, [added], {"n": [20]}, since(read)) == 1
    assert values(table) == [1, 20]


def test_version_of_another_table_is_a_conflict(schema: DynamicSchema) -> None:
    """Rows that were read in a table which is not there any more, or never was, cannot be checked."""
    table, other = numbers(schema, 1), numbers(schema, 1, name="other")
    row_id = id_of(table, "n", 1)
    owner, _, number = version_of(table).rpartition(":")

    for version in (version_of(other), f"{owner}:{int(number) + 1}", f"{owner}:", "", "x:1", f"{owner}:-1"):
        with pytest.raises(ConflictError):
            update(table, [row_id], {"n": [2]}, since(version))
    assert values(table) == [1]


def test_statement_tells_which_version_may_be_written_next(schema: DynamicSchema) -> None:
    """It goes on with one's own statement, but not past a change of others that one has not read."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}, {"n": 2}])
    read = version_of(table)
    mine, theirs = id_of(table, "n", 1), id_of(table, "n", 2)
    insert(table, [{"n": 3}])

    def written(version: str, row_id: int, number: int) -> str:
        statement = table.begin_update(since(version), ("n",), returning=False)
        statement.write(pa.record_batch({"n": pa.array([number], pa.int64()), "rowid": [row_id]}))
        statement.commit()
        assert statement.version is not None
        return statement.version

    own = written(read, mine, 10)
    assert own == version_of(table)
    assert written(own, mine, 11) == version_of(table)
    own = version_of(table)
    update(table, [theirs], {"n": [20]})
    assert written(own, mine, 12) == own
    with pytest.raises(ConflictError):
        written(own, theirs, 21)
    assert sorted(values(table)) == [3, 12, 20]


def test_transaction_has_its_own_check(catalog: TransactionalCatalog, schema: DynamicSchema) -> None:
    """Within a transaction what it has read counts, and a version that is sent along does not."""
    table = numbers(schema, 1)
    row_id = id_of(table, "n", 1)
    old = version_of(table)
    update(table, [row_id], {"n": [2]})
    begun = catalog.transactions.begin_transaction(Call())
    values(table, call=Call(transaction_id=begun))

    assert update(table, [row_id], {"n": [3]}, Call(transaction_id=begun, if_version=old)) == 1
    assert values(table) == [3]
