"""What a caller's open transactions may hold, and when it is free again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions
from sparkport.catalog.budget import ByteBudget, CallerBudgets, Resources
from sparkport.catalog.transactions import TransactionMode
from sparkport.errors import LimitExceededError
from sparkport.memory import MemoryCatalog
from sparkport.memory.table import MemoryTable
from sparkport.memory.transactions import MemoryTransactions

ROWS = pa.table({"n": pa.array(range(100), pa.int64())})
HELD = 2 * ROWS.nbytes  # the rows and their ids


class Caller:
    """A caller with memory for three statements, of which two may be staged, and three open transactions."""

    def __init__(self) -> None:
        self.now = 0.0
        self.catalog = MemoryCatalog()
        self.catalog.transactions = MemoryTransactions(
            self.catalog.commits, idle_seconds=60, clock=lambda: self.now
        )
        schema = self.catalog.create_schema(Call(), "s", CreateSchemaOptions())
        self.table: MemoryTable = schema.create_table(Call(), "t", ROWS.schema, CreateTableOptions())
        self.resources = Resources(ByteBudget(3 * HELD), CallerBudgets(2 * HELD), 3)

    def call(self, transaction: str | None = None) -> Call:
        """Return a call, perhaps in a transaction."""
        return Call("user", transaction_id=transaction, resources=self.resources)

    def begin(self, mode: TransactionMode = TransactionMode.STAGED) -> str:
        """Begin a transaction."""
        return self.catalog.transactions.begin_transaction(self.call(), mode)

    def insert(self, transaction: str | None = None) -> None:
        """Insert a hundred rows."""
        self.table.insert(self.call(transaction), ROWS.to_reader())

    @property
    def held(self) -> tuple[int, int]:
        """The bytes held in all, and staged."""
        return self.resources.rows.held, self.resources.staged.of("user").held


@pytest.fixture
def caller() -> Caller:
    """Make a catalog with a table, and someone who calls it."""
    return Caller()


def test_committed_statement_holds_nothing(caller: Caller) -> None:
    """Rows count while they wait, and are the table's when they are committed."""
    statement = caller.table.begin_insert(caller.call(), returning=False)
    statement.write(ROWS.to_batches()[0])
    waiting = caller.held
    statement.commit()

    assert (waiting, caller.held) == ((HELD, 0), (0, 0))


def test_statement_without_memory_fails_and_holds_nothing(caller: Caller) -> None:
    """What does not fit is refused, and leaves the table as it was."""
    statement = caller.table.begin_insert(caller.call(), returning=False)
    for _ in range(3):
        statement.write(ROWS.to_batches()[0])
    with pytest.raises(LimitExceededError, match=r"^no memory is left for the rows of all calls"):
        statement.write(ROWS.to_batches()[0])
    statement.abort()

    assert caller.held == (0, 0)
    assert caller.table.snapshot(Call(), None).row_count == 0


@pytest.mark.parametrize("end", ["commit", "rollback", "expire"])
def test_staged_rows_count_until_their_transaction_ends(caller: Caller, end: str) -> None:
    """Two transactions have staged all that their caller may; when one ends there is room for a third."""
    first, second, third = caller.begin(), caller.begin(), caller.begin()
    caller.insert(first)
    caller.insert(second)
    with pytest.raises(LimitExceededError, match=r"^no memory is left for what the transactions"):
        caller.insert(third)
    full = caller.held
    if end == "commit":
        caller.catalog.transactions.commit_transaction(caller.call(), first)
    elif end == "rollback":
        caller.catalog.transactions.rollback_transaction(caller.call(), first)
    else:
        caller.now = 50.0
        caller.catalog.transactions.transaction_mode(caller.call(), second)
        caller.catalog.transactions.transaction_mode(caller.call(), third)
        caller.now = 100.0
    caller.insert(third)

    assert full == caller.held == (2 * HELD, 2 * HELD)


def test_expired_transactions_make_room_for_statements_of_others(caller: Caller) -> None:
    """A statement outside of any transaction is not refused for what an idle one holds."""
    caller.resources = Resources(ByteBudget(HELD))
    caller.insert(caller.begin())
    with pytest.raises(LimitExceededError):
        caller.insert()
    caller.now = 100.0
    caller.insert()

    assert caller.held == (0, 0)


def test_open_transactions_are_limited(caller: Caller) -> None:
    """A caller has three transactions that wait for a commit; DuckDB's, which never end, do not count."""
    transactions = [caller.begin(), caller.begin(TransactionMode.AUTO_COMMIT), caller.begin()]
    with pytest.raises(LimitExceededError, match=r"^3 transactions of this caller are open"):
        caller.begin()
    caller.begin(TransactionMode.STATEMENT)
    caller.insert(transactions[1])  # ends the one that commits by itself
    caller.begin()
    caller.catalog.transactions.rollback_transaction(caller.call(), transactions[0])
    caller.catalog.transactions.rollback_transaction(caller.call(), transactions[0])
    caller.begin()

    with pytest.raises(LimitExceededError):
        caller.begin()
    caller.now = 100.0
    assert [caller.begin() for _ in range(3)]
