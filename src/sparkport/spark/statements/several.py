"""Run a MERGE or an INSERT OVERWRITE: several statements of a table in one commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from sparkport.catalog.call import Call
from sparkport.catalog.dml import Statement
from sparkport.catalog.transactions import TransactionMode
from sparkport.errors import ConflictError, UnsupportedOperationError
from sparkport.spark.commit.conflicts import FinalConflictError, retry_on_conflict
from sparkport.spark.statements.change_runs import Queries, Written, fill, lower
from sparkport.spark.statements.changes import MergeDelete, MergeInsert, MergePart, MergeUpdate, Several
from sparkport.spark.table import DeltaTable
from sparkport.spark.write.staged_table import reason_against, staged_table
from sparkport.sql.changes import Delete, Insert

_MAX_TRIES = 4


def run_several(call: Call, queries: Queries, change: Several, table: DeltaTable) -> int:
    """Run changes as one statement of the call's staged transaction, or else as one of their own.

    One of their own is begun again if others were faster. Returns how many rows changed. Raises ConflictError
    after some tries, and UnsupportedOperationError for a table that cannot be written to in a transaction.
    """
    if call.idempotency_key is not None:
        raise UnsupportedOperationError(
            "table", table.name, "MERGE and INSERT OVERWRITE with an idempotency key"
        )
    if table.versions.engine.transactions.is_staged(call):
        return _run_inside(call, queries, change, table, is_exact=False)
    if call.transaction_id is not None:
        raise UnsupportedOperationError(
            "table", table.name, "MERGE and INSERT OVERWRITE in a transaction of DuckDB's"
        )
    return retry_on_conflict(call, lambda _: _run_once(call, queries, change, table), max_tries=_MAX_TRIES)


def _run_once(call: Call, queries: Queries, change: Several, table: DeltaTable) -> int:
    if any(_operation(part) != "INSERT" for part in change.parts):
        table.begin_delete(call, returning=False).abort()  # gives ids to the rows that have none
    transactions = table.versions.engine.transactions
    transaction = transactions.begin_transaction(call, TransactionMode.STAGED)
    inside = call.in_transaction(transaction)
    try:
        affected = _run_inside(inside, queries, change, table, is_exact=True)
        transactions.commit_transaction(inside, transaction)
    except BaseException as error:
        transactions.rollback_transaction(call.detached(), transaction)
        if isinstance(error, FinalConflictError):
            # Nothing of it was answered: it may run on the newer rows.
            raise ConflictError(table.name, "others changed its rows each time") from error
        raise
    return affected


def _run_inside(call: Call, queries: Queries, change: Several, table: DeltaTable, *, is_exact: bool) -> int:
    """Run changes within a staged transaction: all of them or none."""
    transactions = table.versions.engine.transactions
    _check_possible(call, table, {_operation(part) for part in change.parts})
    staged = staged_table(call, table.versions, "MERGE")
    assert staged is not None
    staged.is_exact = staged.is_exact or is_exact
    statements: list[Statement] = []
    try:
        # All queries read the rows as they are before the first of them is changed.
        for part in change.parts:
            lowered = lower(call, queries, part, Written(table), is_run=True)
            statements.append(lowered.begin())
            fill(call, queries, lowered, statements[-1])
        with transactions.changing(call), staged.all_or_none():
            call.check()
            return sum(statement.commit() for statement in statements)
    except BaseException:
        for statement in statements:
            statement.abort()
        raise


def _check_possible(call: Call, table: DeltaTable, operations: Iterable[str]) -> None:
    base = table.versions.at(call, None)
    for operation in operations:
        reason = reason_against(table.versions, base, operation)
        if reason is not None:
            raise UnsupportedOperationError("table", table.name, f"MERGE and INSERT OVERWRITE: {reason}")


def _operation(part: Insert | Delete | MergePart) -> str:
    match part:
        case Insert() | MergeInsert():
            return "INSERT"
        case Delete() | MergeDelete():
            return "DELETE"
        case MergeUpdate():
            return "UPDATE"
        case _:
            assert_never(part)
