"""The stage of a transaction: changes applied to its own view, and again to the newest version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    ScanOptions,
    TimePoint,
    TimeUnit,
    TransactionMode,
    TransactionState,
)
from sparkport.errors import CancelledError, ConflictError, NotFoundError, TransactionNotActiveError
from sparkport.memory import MemoryCatalog
from sparkport.memory.commits import Commits
from sparkport.memory.rows import RowIds
from sparkport.memory.staging import StagedTable
from sparkport.memory.table import MemoryTable
from sparkport.memory.versions import Change, History, TableState, Version

SCHEMA = pa.schema([("n", pa.int64())])


def appending(value: int, touched: int) -> Change:
    """Return a change that appends a row and says that it touched another."""

    def change(call: Call, version: Version) -> tuple[TableState, RowIds, int]:
        del call
        batch = pa.record_batch([pa.array([value], pa.int64())], schema=SCHEMA)
        rows = version.state.rows.append(batch, np.array([value], np.int64))
        return replace(version.state, rows=rows), np.array([touched], np.int64), 1

    return change


def refusing(call: Call, version: Version) -> tuple[TableState, RowIds, int]:
    """Be a change that never fits."""
    del call, version
    raise ConflictError("t", "it never fits")


def numbers(state: TableState) -> list[int]:
    """Return the values of a state."""
    found: list[int] = state.rows.table(SCHEMA).column("n").to_pylist()
    return found


@pytest.fixture
def history() -> History:
    """Return the history of an empty table."""
    return History(Commits(), TableState(SCHEMA))


def test_stage_starts_with_its_base(history: History) -> None:
    """Before the first change a transaction sees the version it began with."""
    staged = StagedTable(history, history.newest)

    assert staged.newest is history.newest


def test_each_change_makes_a_labelled_version(history: History) -> None:
    """Every statement is a state of its own, under a name that no published version has."""
    staged = StagedTable(history, history.newest)
    staged.add(Call(), appending(1, 0), "tx")
    staged.add(Call(), appending(2, 0), "tx")

    assert [version.label for version in staged.versions] == ["tx.0", "tx.1"]
    assert [numbers(version.state) for version in staged.versions] == [[1], [1, 2]]
    assert numbers(history.newest.state) == []


def test_published_state_builds_on_the_newest(history: History) -> None:
    """At the commit the changes are applied again, to what others have made meanwhile."""
    staged = StagedTable(history, history.newest)
    staged.add(Call(), appending(1, 7), "tx")
    staged.add(Call(), appending(2, 5), "tx")
    history.add(appending(9, 0)(Call(), history.newest)[0])
    state, touched = staged.apply_to_newest(Call())

    assert numbers(state) == [9, 1, 2]
    assert touched.tolist() == [5, 7]
    assert numbers(staged.newest.state) == [1, 2]


def test_change_that_does_not_fit_is_not_kept(history: History) -> None:
    """A statement that fails leaves the stage as it was."""
    staged = StagedTable(history, history.newest)
    staged.add(Call(), appending(1, 0), "tx")

    with pytest.raises(ConflictError):
        staged.add(Call(), refusing, "tx")
    assert numbers(staged.newest.state) == [1]
    assert len(staged.changes) == 1


def test_cancelled_call_stages_nothing(history: History) -> None:
    """A call that was cancelled while its change was computed leaves the stage as it was."""
    staged = StagedTable(history, history.newest)
    call = Call()
    call.cancel()

    with pytest.raises(CancelledError):
        staged.add(call, appending(1, 0), "tx")
    assert staged.changes == []
    assert staged.versions == []


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock at zero."""
    return Clock()


@pytest.fixture
def catalog(clock: Clock) -> MemoryCatalog:
    """Return a catalog whose transactions live for ten idle seconds."""
    made = MemoryCatalog(transaction_idle_seconds=10)
    made.transactions._registry._clock = clock
    return made


@pytest.fixture
def table(catalog: MemoryCatalog) -> MemoryTable:
    """Return an empty table of numbers."""
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    return schema.create_table(Call(), "t", SCHEMA, CreateTableOptions())


def begin(catalog: MemoryCatalog) -> tuple[str, Call]:
    """Begin a staged transaction."""
    transaction_id = catalog.transactions.begin_transaction(Call(), TransactionMode.STAGED)
    return transaction_id, Call(transaction_id=transaction_id)


def insert(table: MemoryTable, value: int, call: Call) -> None:
    """Insert one number."""
    table.insert(call, pa.table([[value]], schema=SCHEMA).to_reader())


def read(table: MemoryTable, call: Call) -> list[int]:
    """Return the numbers that a call sees."""
    found: list[int] = table.scan(call, ScanOptions()).read_all().column("n").to_pylist()
    return found


def test_idle_transaction_is_aborted(catalog: MemoryCatalog, table: MemoryTable, clock: Clock) -> None:
    """A transaction that is idle for too long is aborted, and what it staged is discarded."""
    transaction_id, call = begin(catalog)
    insert(table, 1, call)
    clock.now = 10.1

    assert catalog.transactions.transaction_status(Call(), transaction_id) is TransactionState.ABORTED
    with pytest.raises(TransactionNotActiveError, match=r"\(state: aborted\)$"):
        catalog.transactions.commit_transaction(Call(), transaction_id)
    with pytest.raises(TransactionNotActiveError):
        read(table, call)
    catalog.transactions.rollback_transaction(Call(), transaction_id)
    assert read(table, Call()) == []


def test_every_use_keeps_a_transaction_alive(
    catalog: MemoryCatalog, table: MemoryTable, clock: Clock
) -> None:
    """Reading and writing count as use; asking for the state does not."""
    transaction_id, call = begin(catalog)
    for moment in (8.0, 16.0, 24.0):
        clock.now = moment
        insert(table, int(moment), call)
    clock.now = 32.0
    assert read(table, call) == [8, 16, 24]
    clock.now = 41.0
    assert catalog.transactions.transaction_status(Call(), transaction_id) is TransactionState.ACTIVE
    clock.now = 42.1

    assert catalog.transactions.transaction_status(Call(), transaction_id) is TransactionState.ABORTED


def test_committed_state_outlives_the_idle_time(
    catalog: MemoryCatalog, table: MemoryTable, clock: Clock
) -> None:
    """What became of a transaction can be asked for long after."""
    transaction_id, call = begin(catalog)
    insert(table, 1, call)
    catalog.transactions.commit_transaction(Call(), transaction_id)
    clock.now = 1000.0

    assert catalog.transactions.transaction_status(Call(), transaction_id) is TransactionState.COMMITTED
    catalog.transactions.commit_transaction(Call(), transaction_id)
    assert read(table, Call()) == [1]


def test_made_up_snapshot_is_not_found(catalog: MemoryCatalog, table: MemoryTable) -> None:
    """The name of a staged state cannot be guessed from the names of others."""
    transaction_id, call = begin(catalog)
    insert(table, 1, call)

    for value in (
        f"{table.table_id}:{transaction_id}.7",
        f"{table.table_id}:nobody.0",
        f"other:{transaction_id}.0",
        f"{table.table_id}:.",
        "",
    ):
        with pytest.raises(NotFoundError):
            table.snapshot(call, TimePoint(TimeUnit.SNAPSHOT, value))


def test_ids_of_a_rolled_back_insert_are_not_used_again(catalog: MemoryCatalog, table: MemoryTable) -> None:
    """A row id is handed out once, whatever becomes of its row."""
    transaction_id, call = begin(catalog)
    insert(table, 1, call)
    staged_ids = table.scan(call, ScanOptions()).read_all().column("rowid").to_pylist()
    catalog.transactions.rollback_transaction(Call(), transaction_id)
    insert(table, 2, Call())

    assert table.scan(Call(), ScanOptions()).read_all().column("rowid").to_pylist() != staged_ids


def test_single_statement_ends_its_transaction_as_it_is_published(
    catalog: MemoryCatalog, table: MemoryTable
) -> None:
    """An auto-commit transaction ends the moment its statement is visible."""
    transaction_id = catalog.transactions.begin_transaction(Call(), TransactionMode.AUTO_COMMIT)
    call = Call(transaction_id=transaction_id)
    insert(table, 1, call)

    assert catalog.transactions.transaction_status(Call(), transaction_id) is TransactionState.COMMITTED
    with pytest.raises(TransactionNotActiveError):
        insert(table, 2, call)
    with pytest.raises(TransactionNotActiveError):
        catalog.transactions.rollback_transaction(Call(), transaction_id)
    assert read(table, Call()) == [1]
