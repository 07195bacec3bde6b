"""Staged transactions: several calls belong together, and nobody else sees half of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateTableOptions,
    DropTableOptions,
    DynamicSchema,
    ScanOptions,
    TimePoint,
    TransactionMode,
    TransactionState,
)
from sparkport.errors import (
    CancelledError,
    ConflictError,
    ConstraintViolationError,
    NotFoundError,
    RowNotFoundError,
    TransactionNotActiveError,
)
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


def begin(
    catalog: FullCatalog, mode: TransactionMode = TransactionMode.STAGED, principal: str = "ann"
) -> Call:
    """Return a call within a new transaction."""
    return Call(principal, transaction_id=catalog.transactions.begin_transaction(Call(principal), mode))


def commit(catalog: FullCatalog, call: Call) -> None:
    """Commit the transaction of a call."""
    assert call.transaction_id is not None
    catalog.transactions.commit_transaction(Call(call.principal), call.transaction_id)


def rollback(catalog: FullCatalog, call: Call) -> None:
    """Roll the transaction of a call back."""
    assert call.transaction_id is not None
    catalog.transactions.rollback_transaction(Call(call.principal), call.transaction_id)


def state(catalog: FullCatalog, call: Call) -> TransactionState | None:
    """Return where the transaction of a call stands."""
    assert call.transaction_id is not None
    return catalog.transactions.transaction_status(Call(call.principal), call.transaction_id)


def test_staged_rows_are_seen_by_the_transaction_alone(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Until the commit only calls with the same id see what was written."""
    table = numbers(schema, 1)
    call, other = begin(catalog), begin(catalog)
    assert insert(table, [{"n": 2}], call) == 1

    assert values(table, call=call) == [1, 2]
    assert values(table, call=Call("ann", transaction_id=call.transaction_id)) == [1, 2]
    assert values(table) == [1]
    assert values(table, call=other) == [1]
    assert table.snapshot(call, None).row_count == 2


def test_commit_publishes_everything_as_one_version(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """All statements of a transaction on a table make one version of it."""
    table = numbers(schema, 1)
    before = version(table)
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    insert(table, [{"n": 3}], call)
    update(table, [id_of(table, "n", 1, call)], {"n": [10]}, call)
    assert version(table) == before
    commit(catalog, call)

    assert values(table) == [10, 2, 3]
    assert version(table) == before + 1
    assert state(catalog, call) is TransactionState.COMMITTED


def test_rows_of_the_same_transaction_can_be_changed(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A row may be inserted, updated and deleted within one transaction, by the id it got."""
    table = numbers(schema, 1)
    call = begin(catalog)
    insert(table, [{"n": 2}, {"n": 3}], call)
    kept, dropped = id_of(table, "n", 2, call), id_of(table, "n", 3, call)
    update(table, [kept, dropped], {"n": [20, 30]}, call)
    assert delete(table, [dropped], call) == 1
    update(table, [kept], {"n": [200]}, call)
    assert values(table, call=call) == [1, 200]
    commit(catalog, call)

    assert values(table) == [1, 200]
    assert id_of(table, "n", 200) == kept


def test_row_that_was_deleted_in_the_transaction_is_gone(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """An update of a row that the same transaction has deleted finds nothing."""
    table = numbers(schema, 1, 2)
    first = id_of(table, "n", 1)
    call = begin(catalog)
    delete(table, [first], call)

    with pytest.raises(RowNotFoundError):
        update(table, [first], {"n": [5]}, call)
    assert delete(table, [first], call) == 0
    commit(catalog, call)
    assert values(table) == [2]


def test_failed_statement_leaves_the_others_of_its_transaction(
    catalog: FullCatalog, schema: DynamicSchema
) -> None:
    """A staged transaction goes on after a statement that failed, without that statement."""
    table = create(schema, {"n": pa.int64()}, options=CreateTableOptions(unique_constraints=(0,)))
    call = begin(catalog)
    insert(table, [{"n": 1}], call)
    with pytest.raises(ConstraintViolationError):
        insert(table, [{"n": 2}, {"n": 1}], call)
    insert(table, [{"n": 3}], call)
    commit(catalog, call)

    assert values(table) == [1, 3]


def test_rollback_drops_everything(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """After a rollback it is as if the transaction had never been."""
    table = numbers(schema, 1, 2)
    before, was = version(table), ids(table)
    call = begin(catalog)
    insert(table, [{"n": 3}], call)
    delete(table, [was[0]], call)
    rollback(catalog, call)
    rollback(catalog, call)

    assert values(table) == [1, 2]
    assert (version(table), ids(table)) == (before, was)
    assert state(catalog, call) is TransactionState.ABORTED


def test_commit_twice_is_fine(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """The second commit does nothing."""
    table = numbers(schema)
    call = begin(catalog)
    insert(table, [{"n": 1}], call)
    commit(catalog, call)
    after = version(table)
    commit(catalog, call)

    assert values(table) == [1]
    assert version(table) == after


def test_commit_without_writes_changes_nothing(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A transaction that only read adds no version and no catalog version."""
    table = numbers(schema, 1)
    before, listing = version(table), catalog.catalog_version(Call())
    call = begin(catalog)
    assert values(table, call=call) == [1]
    commit(catalog, call)

    assert version(table) == before
    assert catalog.catalog_version(Call()) == listing


@pytest.mark.parametrize("end", [commit, rollback])
def test_finished_transaction_takes_no_more_calls(
    catalog: FullCatalog, schema: DynamicSchema, end: Callable[[FullCatalog, Call], None]
) -> None:
    """Reads and writes with a finished id are refused with its state."""
    table = numbers(schema, 1)
    call = begin(catalog)
    end(catalog, call)
    word = "committed" if end is commit else "aborted"
    message = rf"^transaction {call.transaction_id} is not active \(state: {word}\)$"

    with pytest.raises(TransactionNotActiveError, match=message):
        insert(table, [{"n": 2}], call)
    with pytest.raises(TransactionNotActiveError, match=message):
        read(table, call)
    other = rollback if end is commit else commit
    with pytest.raises(TransactionNotActiveError, match=message):
        other(catalog, call)
    assert values(table) == [1]


def test_several_tables_are_published_at_once(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """What a transaction wrote to two tables carries one place in the order of commits."""
    first, second = numbers(schema, name="a"), numbers(schema, name="b")
    call, reader = begin(catalog), begin(catalog)
    insert(first, [{"n": 1}], call)
    insert(second, [{"n": 1}], call)
    commit(catalog, call)
    later = begin(catalog)

    assert (values(first, call=reader), values(second, call=reader)) == ([], [])
    assert (values(first, call=later), values(second, call=later)) == ([1], [1])


def test_no_reader_sees_half_of_a_transaction(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """While transactions move money between two tables, every snapshot has the same total."""
    first, second = numbers(schema, 100, name="a"), numbers(schema, 0, name="b")
    stop = threading.Event()
    totals: set[int] = set()

    def watch() -> None:
        while not stop.is_set():
            call = begin(catalog)
            totals.add(sum(values(first, call=call)) + sum(values(second, call=call)))
            rollback(catalog, call)

    watchers = [threading.Thread(target=watch) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    for moved in range(1, 60):
        call = begin(catalog)
        update(first, ids(first, call), {"n": [100 - moved]}, call)
        update(second, ids(second, call), {"n": [moved]}, call)
        commit(catalog, call)
    stop.set()
    for watcher in watchers:
        watcher.join()

    assert totals == {100}


def test_first_committer_wins(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Of two transactions that changed the same row the second to commit is refused, by table name."""
    table = numbers(schema, 1, name="stock")
    row = ids(table)
    one, two = begin(catalog), begin(catalog)
    update(table, row, {"n": [10]}, one)
    update(table, row, {"n": [20]}, two)
    commit(catalog, two)

    with pytest.raises(ConflictError, match=r"^conflict on table 'stock': another transaction changed"):
        commit(catalog, one)
    assert state(catalog, one) is TransactionState.ABORTED
    assert values(table) == [20]


def test_conflict_in_one_table_keeps_the_other_unchanged(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A commit that fails on one table publishes nothing on any other."""
    free, fought = numbers(schema, name="free"), numbers(schema, 1, name="fought")
    row = ids(fought)
    call = begin(catalog)
    insert(free, [{"n": 1}], call)
    delete(fought, row, call)
    update(fought, row, {"n": [2]})

    with pytest.raises(ConflictError, match="'fought'"):
        commit(catalog, call)
    assert (values(free), values(fought)) == ([], [2])


def test_writes_to_different_rows_do_not_conflict(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Two transactions may change different rows of a table, and both insert."""
    table = numbers(schema, 1, 2)
    first, second = ids(table)
    one, two = begin(catalog), begin(catalog)
    update(table, [first], {"n": [10]}, one)
    insert(table, [{"n": 11}], one)
    update(table, [second], {"n": [20]}, two)
    insert(table, [{"n": 21}], two)
    commit(catalog, one)
    commit(catalog, two)

    assert sorted(values(table)) == [10, 11, 20, 21]


def test_delete_against_delete_conflicts(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A row can be deleted by one of two transactions only."""
    table = numbers(schema, 1)
    row = ids(table)
    one, two = begin(catalog), begin(catalog)
    assert delete(table, row, one) == 1
    assert delete(table, row, two) == 1
    commit(catalog, one)

    with pytest.raises(ConflictError):
        commit(catalog, two)


def test_unique_key_is_checked_again_at_the_commit(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Two transactions that insert the same key: the second aborts."""
    table = create(schema, {"n": pa.int64()}, options=CreateTableOptions(unique_constraints=(0,)))
    one, two = begin(catalog), begin(catalog)
    insert(table, [{"n": 1}], one)
    insert(table, [{"n": 1}], two)
    commit(catalog, one)

    with pytest.raises(ConstraintViolationError, match="UNIQUE"):
        commit(catalog, two)
    assert state(catalog, two) is TransactionState.ABORTED
    assert values(table) == [1]


def test_column_added_meanwhile_is_a_conflict(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rows staged for other columns than the table has at the commit are refused."""
    table = numbers(schema, 1, name="moved")
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    table.alter(Call(), add("extra", pa.string()))

    assert rows(table, call) == [{"n": 1}, {"n": 2}]
    with pytest.raises(ConflictError, match="'moved': its columns were altered meanwhile"):
        commit(catalog, call)
    assert values(table) == [1]


def test_table_dropped_meanwhile_aborts(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A commit to a table that is gone names it, and the other tables stay as they were."""
    gone, kept = numbers(schema, name="gone"), numbers(schema, name="kept")
    call = begin(catalog)
    insert(kept, [{"n": 1}], call)
    insert(gone, [{"n": 1}], call)
    schema.drop_table(Call(), "gone", DropTableOptions())

    with pytest.raises(NotFoundError, match=r"gone' not found$"):
        commit(catalog, call)
    assert state(catalog, call) is TransactionState.ABORTED
    assert values(kept) == []


def test_table_dropped_and_made_again_is_another_table(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Rows staged for a table never land in a new one of the same name."""
    old = numbers(schema, name="again")
    call = begin(catalog)
    insert(old, [{"n": 1}], call)
    schema.drop_table(Call(), "again", DropTableOptions())
    new = numbers(schema, name="again")

    with pytest.raises(NotFoundError):
        commit(catalog, call)
    assert values(new) == []


def test_table_made_after_the_beginning_can_be_written(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A transaction can fill a table that was made after it began."""
    call = begin(catalog)
    table = numbers(schema)
    insert(table, [{"n": 1}], call)
    assert values(table) == []
    commit(catalog, call)

    assert values(table) == [1]


def test_staged_state_can_be_pinned(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A snapshot within a transaction keeps its rows when the transaction writes on."""
    table = numbers(schema, 1)
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    pin = table.snapshot(call, None).time_point
    insert(table, [{"n": 3}], call)

    assert values_at(table, call, pin) == [1, 2]
    assert table.snapshot(call, pin).row_count == 2
    assert values(table, call=call) == [1, 2, 3]


def test_pin_of_a_staged_state_belongs_to_its_owner(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Nobody else can read a staged state by its name, and after the end nobody at all."""
    table = numbers(schema, 1)
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    pin = table.snapshot(call, None).time_point

    with pytest.raises(NotFoundError):
        values_at(table, Call("bob"), pin)
    rollback(catalog, call)
    with pytest.raises(TransactionNotActiveError):
        values_at(table, Call("ann"), pin)


def test_statistics_are_those_of_the_own_view(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A transaction's statistics count its staged rows, and everybody else's do not."""
    table = numbers(schema, 1, 2)
    call = begin(catalog)
    insert(table, [{"n": 3}], call)
    first = table.column_statistics(call, "n").maximum.as_py()
    insert(table, [{"n": 4}], call)
    second = table.column_statistics(call, "n").maximum.as_py()

    assert (first, second) == (3, 4)
    assert table.column_statistics(Call(), "n").maximum.as_py() == 2


def test_transaction_of_another_principal_is_unknown(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """An id is of use only to the one who began it."""
    table = numbers(schema, 1)
    call = begin(catalog)
    stranger = Call("bob", transaction_id=call.transaction_id)

    assert state(catalog, stranger) is None
    for attempt in (commit, rollback):
        with pytest.raises(NotFoundError, match=r"^transaction '"):
            attempt(catalog, stranger)
    with pytest.raises(NotFoundError):
        insert(table, [{"n": 2}], stranger)
    assert state(catalog, call) is TransactionState.ACTIVE


def test_cancelled_commit_publishes_nothing(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """A caller that is gone by the time of the commit has committed nothing."""
    table = numbers(schema, 1)
    call = begin(catalog)
    insert(table, [{"n": 2}], call)
    gone = Call("ann")
    gone.cancel()
    assert call.transaction_id is not None

    with pytest.raises(CancelledError):
        catalog.transactions.commit_transaction(gone, call.transaction_id)
    assert values(table) == [1]
    assert state(catalog, call) is TransactionState.ABORTED


def test_mode_is_known_while_the_transaction_is_active(catalog: FullCatalog) -> None:
    """A transaction remembers how it was begun."""
    for mode in TransactionMode:
        call = begin(catalog, mode)
        assert call.transaction_id is not None
        assert catalog.transactions.transaction_mode(call, call.transaction_id) is mode


def test_concurrent_increments_lose_nothing(catalog: FullCatalog, schema: DynamicSchema) -> None:
    """Transactions that read, add one and write, repeated on conflict, count every one."""
    table = numbers(schema, 0)
    row = ids(table)

    def increment() -> None:
        done = 0
        while done < 15:
            call = begin(catalog)
            (now,) = values(table, call=call)
            update(table, row, {"n": [now + 1]}, call)
            try:
                commit(catalog, call)
            except ConflictError:
                continue
            done += 1

    workers = [threading.Thread(target=increment) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert values(table) == [45]


def test_concurrent_commits_of_one_transaction_publish_once(
    catalog: FullCatalog, schema: DynamicSchema
) -> None:
    """However many callers commit the same transaction at once, it is published once."""
    table = numbers(schema)
    call = begin(catalog)
    insert(table, [{"n": 1}], call)
    before = version(table)
    workers = [threading.Thread(target=commit, args=(catalog, call)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert values(table) == [1]
    assert version(table) == before + 1


def values_at(table: FullTable, call: Call, pin: TimePoint) -> list[int]:
    """Return the numbers of a pinned state."""
    options = ScanOptions(time_point=pin)
    found: list[int] = table.scan(call, options).read_all().column("n").to_pylist()
    return found


def test_key_of_a_staged_statement_stands_and_falls_with_it(
    catalog: FullCatalog, schema: DynamicSchema
) -> None:
    """Within its transaction a repetition is known at once, after a rollback it is none, and never twice."""
    table = numbers(schema, 1)
    one, other = begin(catalog), begin(catalog)
    for call in (one, other):
        call.idempotency_key = "k"
    assert [insert(table, [{"n": 2}], one), insert(table, [{"n": 2}], one)] == [1, 1]
    rollback(catalog, one)
    assert insert(table, [{"n": 3}], other) == 1
    assert insert(table, [{"n": 3}], Call("ann", idempotency_key="k")) == 1
    commit(catalog, other)

    assert values(table) == [1, 3]
