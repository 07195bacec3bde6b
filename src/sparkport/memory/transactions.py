"""The transactions of the in-memory engine: snapshots, own writes and staged changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.scan import TimePoint, TimeUnit
from sparkport.catalog.transactions import TransactionManager, TransactionMode, TransactionState
from sparkport.errors import TransactionNotActiveError
from sparkport.memory.commits import Commits
from sparkport.memory.staging import StagedTable
from sparkport.memory.versions import Change, History, Version
from sparkport.toolkit.transaction_registry import TransactionRegistry


@dataclass(slots=True)
class _Detail:
    """What a transaction sees and has staged; without a `sequence` it has not been used yet."""

    sequence: int | None = None
    own: dict[str, int] = field(default_factory=dict)
    staged: dict[str, tuple[StagingTable, StagedTable]] = field(default_factory=dict)
    held: list[Reservation] = field(default_factory=list)

    def discard(self) -> None:
        """Release the memory of what was staged."""
        for reservation in self.held:
            reservation.release()


class StagingTable(Protocol):
    """What a transaction needs of a table it stages changes for."""

    @property
    def table_id(self) -> str:
        """The table's identity."""
        raise NotImplementedError

    @property
    def history(self) -> History:
        """The table's versions."""
        raise NotImplementedError

    def check_present(self) -> None:
        """Raise NotFoundError if the table was dropped."""
        raise NotImplementedError


class MemoryTransactions(TransactionManager):
    """Gives all reads of a transaction one snapshot of the whole catalog, and their own writes.

    Writes are published statement by statement or, staged, all at once: then the
    first to commit wins. A transaction that is idle for `idle_seconds` is aborted.
    """

    def __init__(
        self,
        commits: Commits,
        *,
        idle_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commits = commits
        self._registry: TransactionRegistry[_Detail] = TransactionRegistry(
            _Detail, discard=_Detail.discard, idle_seconds=idle_seconds, clock=clock
        )

    def begin_transaction(self, call: Call, mode: TransactionMode = TransactionMode.STATEMENT) -> str:
        """Start a transaction that sees what is committed now, or when it is first used."""
        detail = _Detail()
        if mode is not TransactionMode.STAGED_FROM_FIRST_USE:
            self._sequence(detail)
        return self._registry.begin(call, mode, detail)

    def _sequence(self, detail: _Detail) -> int:
        """Return the commit up to which a transaction sees others: the last one if this is its first use."""
        with self._commits.lock:
            if detail.sequence is None:
                detail.sequence = self._commits.sequence
            return detail.sequence

    def transaction_mode(self, call: Call, transaction_id: str) -> TransactionMode:
        """Return how an active transaction was begun."""
        return self._registry.active(call, transaction_id).mode

    def commit_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction and publish what it has staged, all tables or none."""
        transaction = self._registry.find(call, transaction_id)
        try:
            with call.meter.committing():
                self._commits.publish(call, lambda: self._commit(call, transaction_id))
        except BaseException:
            with self._commits.lock:
                if transaction.state is TransactionState.ACTIVE:
                    self._registry.end(transaction, TransactionState.ABORTED)
            raise

    def _commit(self, call: Call, transaction_id: str) -> None:
        """Publish what a transaction has staged; the caller holds the commit lock."""
        transaction = self._registry.find(call, transaction_id)
        if transaction.state is TransactionState.COMMITTED:
            return
        if transaction.state is not TransactionState.ACTIVE:
            raise TransactionNotActiveError(transaction_id, transaction.state)
        self._publish(call, transaction.detail)
        self._registry.end(transaction, TransactionState.COMMITTED)

    def rollback_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction and discard what it has staged."""
        with self._commits.lock:
            transaction = self._registry.find(call, transaction_id)
            if transaction.state is TransactionState.COMMITTED:
                raise TransactionNotActiveError(transaction_id, transaction.state)
            self._registry.end(transaction, TransactionState.ABORTED)

    def transaction_status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id."""
        return self._registry.status(call, transaction_id)

    def expirations(self) -> int:
        """Return how many transactions have expired so far."""
        return self._registry.expirations()

    def version(self, call: Call, table_id: str, history: History) -> Version:
        """Return the version of a table that the call reads."""
        if call.transaction_id is None:
            return history.newest
        transaction = self._registry.active(call, call.transaction_id).detail
        if table_id in transaction.staged:
            return transaction.staged[table_id][1].newest
        if table_id in transaction.own:
            return history.as_written(transaction.own[table_id])
        # A table made after the transaction began is most likely its own: CREATE
        # TABLE carries no transaction id, yet the statements after it must see it.
        return history.as_of(self._sequence(transaction)) or history.newest

    def changes_by_others(self, call: Call, history: History, base: Version) -> list[Version]:
        """Return what others committed since the call's transaction took its snapshot.

        `base` counts for a table that is younger than the transaction.
        """
        if call.transaction_id is None:
            return []
        transaction = self._registry.active(call, call.transaction_id).detail
        snapshot = history.as_of(self._sequence(transaction)) or base
        return [later for later in history.since(snapshot) if later.writer != call.transaction_id]

    def stage(self, call: Call, table: StagingTable, change: Change, held: Reservation) -> int | None:
        """Stage a change in the call's transaction and return its count; None if it is not a staged one.

        The caller holds the commit lock. The transaction takes over the memory that the statement holds,
        which counts towards what its caller may stage. Raises LimitExceededError.
        """
        if call.transaction_id is None:
            return None
        entry = self._registry.active(call, call.transaction_id)
        if not entry.mode.is_staged:
            return None
        transaction = entry.detail
        existing = transaction.staged.get(table.table_id)
        staged = (
            existing[1]
            if existing
            else StagedTable(table.history, self.version(call, table.table_id, table.history))
        )
        share = Reservation(call.resources.staged.of(call.principal))
        share.resize(held.size)
        try:
            count = staged.add(call, change, call.transaction_id)
        except BaseException:
            share.release()
            raise
        transaction.staged[table.table_id] = (table, staged)
        transaction.held += [held, share]
        return count

    def staged_version(self, call: Call, table_id: str, time_point: TimePoint) -> Version | None:
        """Return the staged version that a time point names, None for any other time point."""
        owner, _, label = time_point.value.rpartition(":")
        if time_point.unit is not TimeUnit.SNAPSHOT or owner != table_id or "." not in label:
            return None
        transaction = self._registry.active(call, label.rpartition(".")[0]).detail
        versions = transaction.staged[table_id][1].versions if table_id in transaction.staged else []
        return next((version for version in versions if version.label == label), None)

    def record_write(self, call: Call, table_id: str, version: Version) -> None:
        """Make the call's transaction, if it is still active, see its own write from now on.

        One in auto-commit mode ends here, under the commit lock that the caller
        holds, so that no second statement and no rollback can come in between.
        """
        transaction = self._registry.present(call.transaction_id)
        if transaction is None:
            return
        transaction.detail.own[table_id] = version.number
        if transaction.mode is TransactionMode.AUTO_COMMIT:
            self._registry.end(transaction, TransactionState.COMMITTED)

    def _publish(self, call: Call, transaction: _Detail) -> None:
        """Make everything staged visible under one sequence; the caller holds the commit lock."""
        ready = []
        for table, staged in transaction.staged.values():
            table.check_present()
            ready.append((staged.history, *staged.apply_to_newest(call)))
        call.check()
        if not ready:
            return
        sequence = self._commits.next()
        for history, state, touched in ready:
            history.add(state, touched, sequence=sequence)
