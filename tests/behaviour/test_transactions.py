"""Transactions: one snapshot for calls that belong together, and who came first wins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    ChangeColumnType,
    DynamicSchema,
    RemoveColumn,
    RenameColumn,
    ScanOptions,
    TableChange,
    TimePoint,
    TransactionState,
)
from sparkport.catalog.rowid import without_rowid
from sparkport.errors import ConflictError, NotFoundError, TransactionNotActiveError
from tests.behaviour.engine import (
    FullCatalog,
    FullTable,
    add,
    create,
    delete,
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


def begin(catalog: FullCatalog, principal: str = "ann") -> Call:
    """Return a call within a new transaction."""
    return Call(principal, transaction_id=catalog.transactions.begin_transaction(Call(principal)))


def begin_with(catalog: FullCatalog, table: FullTable) -> Call:
    """Return a call within a transaction that has used a table, which fixes what it sees of all tables."""
    call = begin(catalog)
    table.snapshot(call, None)
    return call


def end(catalog: FullCatalog, call: Call) -> None:
    """Commit the transaction of a call."""
    assert call.transaction_id is not None
    catalog.transactions.commit_transaction(Call(call.principal), call.transaction_id)


def test_all_tables_are_read_as_of_one_moment(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A table first touched late in a transaction is read as of the transaction's first use too."""
    first, second = numbers(schema, 1, name="a"), numbers(schema, 1, name="b")
    call = begin_with(catalog, first)
    insert(first, [{"n": 2}])
    insert(second, [{"n": 2}])

    assert values(first, call=call) == [1]
    assert values(second, call=call) == [1]
    assert values(second) == [1, 2]


def test_own_writes_are_visible(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A transaction reads what it wrote, statement by statement."""
    table = numbers(schema, 1, 2)
    call = begin(catalog)
    insert(table, [{"n": 3}], call)
    update(table, [id_of(table, "n", 1, call)], {"n": [10]}, call)
    delete(table, [id_of(table, "n", 2, call)], call)

    assert values(table, call=call) == [10, 3]
    snapshot = table.snapshot(call, None)
    assert snapshot.row_count == 2


def test_writes_of_others_stay_hidden_after_an_own_write(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Writing does not let the commits of others into a transaction's view."""
    table = numbers(schema, 1, 2)
    call = begin_with(catalog, table)
    insert(table, [{"n": 100}])
    delete(table, [id_of(table, "n", 2)])
    insert(table, [{"n": 3}], call)
    insert(table, [{"n": 101}])
    insert(table, [{"n": 4}], call)

    assert values(table, call=call) == [1, 2, 3, 4]
    assert sorted(values(table)) == [1, 3, 4, 100, 101]
    statistics = table.column_statistics(call, "n")
    assert (statistics.minimum.as_py(), statistics.maximum.as_py()) == (1, 4)


def test_own_view_can_be_pinned(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """The snapshot of a transaction's own view is read as it was."""
    table = numbers(schema, 1)
    call = begin_with(catalog, table)
    insert(table, [{"n": 100}])
    insert(table, [{"n": 2}], call)
    pin = table.snapshot(call, None)
    insert(table, [{"n": 3}], call)

    assert pin.row_count == 2
    assert sorted(table.scan(Call(), options_at(pin.time_point)).read_all()["n"].to_pylist()) == [1, 2]
    assert table.snapshot(Call(), pin.time_point) == pin


def options_at(time_point: TimePoint) -> ScanOptions:
    """Return a scan of a time point."""
    return ScanOptions(time_point=time_point)


def test_same_row_is_changed_by_the_first_only(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A row that another changed since the transaction was first used is a conflict."""
    table = numbers(schema, 1, 2)
    row = ids(table)[0]
    call = begin_with(catalog, table)
    update(table, [row], {"n": [10]})
    before = version(table)

    with pytest.raises(
        ConflictError, match=r"^conflict on table 't': another transaction changed the same rows;"
    ):
        update(table, [row], {"n": [20]}, call)
    with pytest.raises(ConflictError):
        delete(table, [row], call)
    assert values(table) == [10, 2]
    assert version(table) == before


def test_row_deleted_by_another_is_a_conflict(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Deleting counts as changing."""
    table = numbers(schema, 1, 2)
    row = ids(table)[0]
    call = begin_with(catalog, table)
    delete(table, [row])

    with pytest.raises(ConflictError):
        update(table, [row], {"n": [20]}, call)


def test_conflict_is_seen_after_an_own_write_too(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """An own write does not make the transaction forget what others changed before it."""
    table = numbers(schema, 1, 2)
    first, second = ids(table)
    call = begin_with(catalog, table)
    update(table, [first], {"n": [10]})
    update(table, [second], {"n": [20]}, call)

    with pytest.raises(ConflictError):
        update(table, [first], {"n": [30]}, call)
    assert values(table) == [10, 20]


def test_distinct_rows_do_not_conflict(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Two transactions may change different rows of one table."""
    table = numbers(schema, 1, 2)
    first, second = ids(table)
    one, other = begin_with(catalog, table), begin_with(catalog, table)
    update(table, [first], {"n": [10]}, one)
    update(table, [second], {"n": [20]}, other)
    insert(table, [{"n": 3}], one)
    end(catalog, one)
    end(catalog, other)

    assert values(table) == [10, 20, 3]


def test_own_row_is_changed_again_and_again(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A transaction does not conflict with itself."""
    table = numbers(schema, 1)
    call = begin(catalog)
    for value in (2, 3, 4):
        update(table, ids(table, call), {"n": [value]}, call)

    assert values(table, call=call) == [4]


def test_table_made_within_a_transaction_is_usable(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """CREATE TABLE carries no transaction id, yet the statements after it see the table."""
    call = begin_with(catalog, numbers(schema, 7, name="other"))
    table = numbers(schema)
    insert(table, [{"n": 1}], call)

    assert values(table, call=call) == [1]


def test_columns_altered_within_a_transaction_can_be_written(
    catalog: FullCatalog, schema: DynamicSchema
) -> None:
    """ALTER carries no transaction id either: the next statement goes on from the altered table."""
    table = numbers(schema, 1)
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    table.alter(Call(), add("m", pa.int64()))
    insert(table, [{"n": 3, "m": 4}], call)

    assert rows(table, call) == [{"n": 1, "m": None}, {"n": 2, "m": None}, {"n": 3, "m": 4}]


ALTERATIONS: dict[str, tuple[TableChange, dict[str, object]]] = {
    "add": (add("m", pa.int64()), {"n": 2, "k": 20, "m": None}),
    "add with default": (add("m", pa.int64(), "7"), {"n": 2, "k": 20, "m": 7}),
    "add rowid": (add("rowid", pa.int64()), {"n": 2, "k": 20, "rowid": None}),
    "rename": (RenameColumn("k", "m"), {"n": 2, "m": 20}),
    "drop": (RemoveColumn("k"), {"n": 2}),
    "type": (ChangeColumnType("k", pa.string(), "'v' || k"), {"n": 2, "k": "v20"}),
}


def written(catalog: FullCatalog, schema: DynamicSchema) -> tuple[FullTable, Call]:
    """Return a table of two columns and a call within a transaction that has added the third row."""
    table = create(schema, {"n": pa.int64(), "k": pa.int64()})
    insert(table, [{"n": 1, "k": 10}, {"n": 2, "k": 20}])
    call = begin(catalog)
    insert(table, [{"n": 3, "k": 30}], call)
    return table, call


@pytest.mark.parametrize("kind", ALTERATIONS)
def test_an_alter_is_no_change_of_rows(catalog: FullCatalog, schema: DynamicSchema, kind: str) -> None:
    """Rows can be changed within a transaction after an ALTER, and are returned with the new columns."""
    change, second = ALTERATIONS[kind]
    table, call = written(catalog, schema)
    table.alter(Call(), change)
    first, other, third = ids(table)
    deleting = table.begin_delete(call, returning=True)
    deleted = deleting.write(pa.record_batch({"rowid": [other]}))
    counts = [deleting.commit()]
    table.alter(Call(), add("last", pa.string()))
    updating = table.begin_update(call, ("n",), returning=True)
    updated = updating.write(pa.record_batch({"n": [100, 300], "rowid": [first, third]}))
    counts.append(updating.commit())

    assert counts == [1, 2]
    assert deleted is not None
    assert without_rowid(deleted.schema).names == list(second)
    assert pa.Table.from_batches([deleted]).select(list(second)).to_pylist() == [second]
    assert updated is not None
    assert without_rowid(updated.schema).names == [*second, "last"]
    assert values(table, call=call) == [100, 300]
    assert values(table) == [100, 300]


@pytest.mark.parametrize("kind", ["add", "rename", "type"])
@pytest.mark.parametrize("column", ["n", "k"])
def test_rows_changed_by_another_conflict_across_an_alter(
    catalog: FullCatalog, schema: DynamicSchema, kind: str, column: str
) -> None:
    """An ALTER hides no change that another has made before it or after it."""
    change, _ = ALTERATIONS[kind]
    table, call = written(catalog, schema)
    first, second, third = ids(table)
    update(table, [first], {column: [100]})
    table.alter(Call(), change)
    update(table, [second], {"n": [200]})

    for row in (first, second):
        with pytest.raises(ConflictError, match="another transaction changed the same rows"):
            update(table, [row], {"n": [5]}, call)
        with pytest.raises(ConflictError, match="another transaction changed the same rows"):
            delete(table, [row], call)
    assert update(table, [third], {"n": [5]}, call) == 1


def test_rows_added_by_another_before_an_alter_can_be_changed(
    catalog: FullCatalog, schema: DynamicSchema
) -> None:
    """After an ALTER a transaction goes on from the altered table, with the rows that are in it."""
    table, call = written(catalog, schema)
    insert(table, [{"n": 4, "k": 40}])
    table.alter(Call(), add("m", pa.int64()))

    assert update(table, ids(table), {"m": [1, 2, 3, 4]}, call) == 4
    assert values(table, "m") == [1, 2, 3, 4]


def test_an_alter_during_an_update_is_a_conflict(schema: DynamicSchema) -> None:
    """A statement that began before an ALTER does not go on with other columns."""
    table = create(schema, {"n": pa.int64(), "k": pa.int64()})
    insert(table, [{"n": 1, "k": 10}])
    statement = table.begin_update(Call(), ("n",), returning=True)
    table.alter(Call(), RemoveColumn("k"))

    with pytest.raises(ConflictError, match="its columns were altered meanwhile"):
        _ = statement.write(pa.record_batch({"n": [2], "rowid": ids(table)})), statement.commit()
    assert values(table) == [1]


def test_committed_transaction_is_over(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Committing twice is fine; anything else with the id is not."""
    table = numbers(schema, 1)
    call = begin(catalog)
    key = call.transaction_id or ""
    end(catalog, call)
    end(catalog, call)

    assert catalog.transactions.transaction_status(Call("ann"), key) is TransactionState.COMMITTED
    expected = f"^transaction {key} is not active \\(state: committed\\)$"
    with pytest.raises(TransactionNotActiveError, match=expected):
        read(table, call)
    with pytest.raises(TransactionNotActiveError, match=expected):
        insert(table, [{"n": 2}], call)
    with pytest.raises(TransactionNotActiveError, match=expected):
        catalog.transactions.rollback_transaction(Call("ann"), key)


def test_aborted_transaction_is_over(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rolling back twice is fine; anything else with the id is not."""
    table = numbers(schema, 1)
    call = begin(catalog)
    key = call.transaction_id or ""
    catalog.transactions.rollback_transaction(Call("ann"), key)
    catalog.transactions.rollback_transaction(Call("ann"), key)

    assert catalog.transactions.transaction_status(Call("ann"), key) is TransactionState.ABORTED
    with pytest.raises(TransactionNotActiveError, match=r"is not active \(state: aborted\)$"):
        read(table, call)
    with pytest.raises(TransactionNotActiveError):
        catalog.transactions.commit_transaction(Call("ann"), key)


def test_statement_does_not_outlive_its_transaction(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """What is refused because the transaction is over is not written either."""
    table = numbers(schema, 1)
    call = begin(catalog)
    statement = table.begin_insert(call, returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    catalog.transactions.rollback_transaction(Call("ann"), call.transaction_id or "")

    with pytest.raises(TransactionNotActiveError):
        statement.commit()
    assert values(table) == [1]


def test_status_of_a_running_transaction(catalog: FullCatalog) -> None:
    """Asking changes nothing."""
    call = begin(catalog)
    key = call.transaction_id or ""

    assert catalog.transactions.transaction_status(Call("ann"), key) is TransactionState.ACTIVE
    assert catalog.transactions.transaction_status(Call("ann"), key) is TransactionState.ACTIVE


def test_ids_are_never_the_same(catalog: FullCatalog) -> None:
    """An id names one transaction for ever."""
    assert len({catalog.transactions.begin_transaction(Call()) for _ in range(100)}) == 100


@pytest.mark.parametrize("key", ["", "no-such-transaction"])
def test_unknown_transaction_is_not_found(catalog: FullCatalog, schema: DynamicSchema, key: str) -> None:
    """An id that was never given out is an error that names it."""
    table = numbers(schema, 1)

    assert catalog.transactions.transaction_status(Call(), key) is None
    with pytest.raises(NotFoundError, match=f"^transaction '{key}' not found$"):
        catalog.transactions.commit_transaction(Call(), key)
    with pytest.raises(NotFoundError):
        catalog.transactions.rollback_transaction(Call(), key)
    with pytest.raises(NotFoundError):
        read(table, Call(transaction_id=key))


def test_transaction_of_another_principal_is_not_found(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """An id is worth nothing to anybody else, and betrays nothing."""
    table = numbers(schema, 1)
    key = begin(catalog, "ann").transaction_id or ""
    stranger = Call("bob", transaction_id=key)

    assert catalog.transactions.transaction_status(Call("bob"), key) is None
    with pytest.raises(NotFoundError):
        read(table, stranger)
    with pytest.raises(NotFoundError):
        insert(table, [{"n": 2}], stranger)
    with pytest.raises(NotFoundError):
        catalog.transactions.commit_transaction(Call("bob"), key)
    with pytest.raises(NotFoundError):
        catalog.transactions.rollback_transaction(Call("bob"), key)
    assert catalog.transactions.transaction_status(Call("ann"), key) is TransactionState.ACTIVE


def test_empty_table_can_be_read_in_a_transaction(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """No rows are rows enough."""
    table = create(schema, {"n": pa.int64()})
    call = begin_with(catalog, table)
    insert(table, [{"n": 1}])

    assert values(table, call=call) == []
