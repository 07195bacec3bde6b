"""The snapshots that transactions see: all calls of one transaction share one view of the warehouse."""

from __future__ import annotations

import contextlib
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sparkport.catalog.budget import ByteBudget, Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.transactions import TransactionManager, TransactionMode, TransactionState
from sparkport.errors import (
    LimitExceededError,
    PreconditionError,
    TransactionNotActiveError,
    UnavailableError,
    UnsupportedOperationError,
)
from sparkport.spark.commit.conflicts import Basis
from sparkport.spark.commit.journal import Journal, UnfinishedTransactionError
from sparkport.spark.delta.commit.private_log import PrivateLog
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot, TableHeader
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.warehouse.listing import Listing, TableEntry, Warehouse
from sparkport.toolkit.transaction_registry import TransactionRegistry

_MAX_LOOKS = 1000
_MAX_ID_BYTES = 128 << 20  # for the ids of rows that transactions wrote, all together


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A commit that a transaction has made itself.

    `changed` are the ids of the rows that it changed or removed, None if they were too many to keep.
    `added` are those of the rows that it wrote to new files, None for all rows in these. With `is_certain`
    it is known to have made exactly this version, else to have committed at or before it.
    """

    version: int
    changed: Ids | None
    added: Ids | None = None
    is_certain: bool = True

    @property
    def size(self) -> int:
        """The size of its ids in bytes."""
        return sum(ids.nbytes for ids in (self.changed, self.added) if ids is not None)


@dataclass(frozen=True, slots=True)
class TableView:
    """What a transaction sees of a table: the version that it began with, and its own writes.

    Those of a staged transaction are not committed: `staged` is the version with them.
    """

    table_id: str
    version: int
    own: tuple[OwnWrite, ...] = ()
    staged: DeltaSnapshot | None = None

    @property
    def newest(self) -> int:
        """The version of its newest own write, or else the one that it began with."""
        return self.own[-1].version if self.own else self.version

    @property
    def is_alone(self) -> bool:
        """Whether all commits since it began are its own."""
        return self.newest - self.version == len(self.own)

    @property
    def basis(self) -> Basis:
        """The version that rows were read from, and the transaction's own commits since."""
        if self.is_alone:
            return Basis(self.version, tuple(range(self.version + 1, self.newest + 1)))
        return Basis(self.version, tuple(write.version for write in self.own if write.is_certain))


class StagedChanges(Protocol):
    """What a transaction has staged for one table."""

    @property
    @abstractmethod
    def table_id(self) -> str:
        """What tells the table from others that were, or will be, in its folder."""
        raise NotImplementedError

    @property
    @abstractmethod
    def count(self) -> int:
        """How many statements there are."""
        raise NotImplementedError

    @abstractmethod
    def state(self, count: int | None = None) -> DeltaSnapshot:
        """Return what the transaction sees now, or saw after so many statements."""
        raise NotImplementedError

    @abstractmethod
    def discard(self) -> None:
        """Remove all of it."""
        raise NotImplementedError


Publish = Callable[[Call, Sequence[StagedChanges]], None]
"""Commits what was staged for some tables, all or nothing."""


@dataclass(slots=True)
class _View:
    """What a transaction sees: all tables as they were at its first use, and its own writes.

    A table is pinned by its name until it is first read, and by its id from then on: another table may
    get the name later.
    """

    held: Reservation
    listing: Listing | None = None
    tables: dict[tuple[str, str], TableView] = field(default_factory=dict)
    snapshots: dict[tuple[str, Basis], DeltaSnapshot] = field(default_factory=dict)
    paused_reads: Counter[tuple[str, str]] = field(default_factory=Counter)
    advanced: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    scanned: set[tuple[str, str, int]] = field(default_factory=set)
    staged: dict[tuple[str, str], StagedChanges] = field(default_factory=dict)
    logs: dict[str, PrivateLog] = field(default_factory=dict)
    # Statements in SQL run one after the other; all of them are staged so.
    running: threading.Lock = field(default_factory=threading.Lock)
    changing: threading.RLock = field(default_factory=threading.RLock)
    is_publishing: bool = False

    def begin_at(self, listing: Listing) -> None:
        """Fix what the transaction sees, unless another of its calls was faster."""
        if self.listing is None:
            self.listing = listing

    def end_publishing(self) -> None:
        """Remove what was staged, also if the transaction has expired meanwhile."""
        self.is_publishing = False
        self.discard()

    def discard(self) -> None:
        """Remove what was staged, unless it is being committed."""
        if not self.is_publishing:
            for staged in self.staged.values():
                staged.discard()
            for log in self.logs.values():
                log.discard()


class SparkTransactions(TransactionManager):
    """Gives all reads of a transaction one snapshot of the whole warehouse.

    The snapshot is taken at the transaction's first use. A transaction that is idle for
    `idle_seconds` is aborted.
    """

    def __init__(
        self, warehouse: Warehouse, journal: Journal | None, *, idle_seconds: float = 3600.0
    ) -> None:
        """Transactions are staged where there is a journal: on a local disk."""
        self._warehouse = warehouse
        self._journal = journal
        self._ids = ByteBudget(_MAX_ID_BYTES)
        self._registry: TransactionRegistry[_View] = TransactionRegistry(
            self._fresh_view, discard=_View.discard, idle_seconds=idle_seconds
        )
        self._lock = threading.Lock()
        self._reads_resumed = threading.Condition(self._lock)
        self._publish: Publish | None = None

    @property
    def offers_staged_sql(self) -> bool:
        """Whether statements in SQL take part in transactions."""
        return self._journal is not None

    def publish_by(self, publish: Publish) -> None:
        """Let staged changes be committed by a function of a higher layer."""
        self._publish = publish

    def begin_transaction(self, call: Call, mode: TransactionMode = TransactionMode.STATEMENT) -> str:
        """Start a transaction; a staged one sees the moment in which it begins, or is first used."""
        view = self._fresh_view()
        if mode.is_staged:
            if self._journal is None:
                raise UnsupportedOperationError(
                    "engine", "spark", "staged transactions: the warehouse is not on a local disk"
                )
            if mode is not TransactionMode.STAGED_FROM_FIRST_USE:
                with self._journal.reading(call):
                    view.listing = self._one_moment(call)
        return self._registry.begin(call, mode, view)

    def _one_moment(self, call: Call) -> Listing:
        """Return a listing that did not change while it was made: all versions in it were there at once."""
        listing = self._warehouse.listing(fresh=True)
        for _ in range(_MAX_LOOKS):
            call.check()
            again = self._warehouse.listing(fresh=True)
            if again is listing:
                return listing
            listing = again
        raise UnavailableError("too many tables change at once to see one moment of them all; try again")

    def _fresh_view(self) -> _View:
        return _View(Reservation(self._ids))

    def transaction_mode(self, call: Call, transaction_id: str) -> TransactionMode:
        """Return how an active transaction was begun."""
        return self._registry.active(call, transaction_id).mode

    def commit_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction, and publish what it has staged; a second commit does nothing."""
        entry = self._registry.find(call, transaction_id)
        if not entry.mode.is_staged:
            self._end(call, transaction_id, TransactionState.COMMITTED)
            return
        view = entry.detail
        try:
            with call.meter.committing(), call.holding(view.changing):
                self._commit_staged(call, transaction_id)
        except BaseException:
            with view.changing:
                if self._registry.find(call, transaction_id).state is TransactionState.ACTIVE:
                    self._registry.end(entry, TransactionState.ABORTED)
            raise

    def _commit_staged(self, call: Call, transaction_id: str) -> None:
        """Publish what a transaction has staged; the caller keeps its statements out."""
        entry = self._registry.find(call, transaction_id)
        if entry.state is TransactionState.COMMITTED:
            return
        if entry.state is not TransactionState.ACTIVE:
            raise TransactionNotActiveError(transaction_id, entry.state)
        view = entry.detail
        call.check()
        changes = [staged for staged in view.staged.values() if staged.count]
        view.is_publishing = True
        try:
            if changes and self._publish is not None:
                self._publish(call, changes)
        except UnfinishedTransactionError:
            self._registry.end(entry, TransactionState.COMMITTED)  # its files are still needed
            raise
        except BaseException:
            view.end_publishing()
            raise
        view.end_publishing()
        self._registry.end(entry, TransactionState.COMMITTED)

    def rollback_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction; a second rollback does nothing."""
        with call.holding(self._registry.find(call, transaction_id).detail.changing):
            self._end(call, transaction_id, TransactionState.ABORTED)

    def is_staged(self, call: Call) -> bool:
        """Tell whether the statements of a call are staged."""
        if call.transaction_id is None:
            return False
        return self._registry.active(call, call.transaction_id).mode.is_staged

    def refuse_in_staged(self, call: Call, what: str) -> None:
        """Raise PreconditionError for what a staged transaction cannot have."""
        if self.is_staged(call):
            raise PreconditionError(f"{what} is not possible in a transaction; run it outside of one")

    def staged(self, call: Call, schema: str, table: str, make: Callable[[], StagedChanges]) -> StagedChanges:
        """Return what the call's transaction has staged for a table; nothing yet is made by `make`."""
        assert call.transaction_id is not None
        view = self._registry.active(call, call.transaction_id).detail
        with self._lock:
            found = view.staged.get((schema, table))
        if found is None:
            made = make()
            with self._lock:
                found = view.staged.setdefault((schema, table), made)
        return found

    def private_log(self, call: Call, state: DeltaSnapshot, make: Callable[[], PrivateLog]) -> PrivateLog:
        """Return the log of a table for the call's transaction, with a state as its newest version.

        The first time it is made by `make`.
        """
        assert call.transaction_id is not None
        view = self._registry.active(call, call.transaction_id).detail
        table_id = state.metadata.table_id
        with self._lock:
            log = view.logs.get(table_id)
            if log is None:
                log = view.logs[table_id] = make()
        log.show(state)
        if self._registry.find(call, call.transaction_id).detail is not view:  # it has ended meanwhile
            log.discard()
        self._registry.active(call, call.transaction_id)
        return log

    @contextlib.contextmanager
    def one_statement(self, call: Call) -> Iterator[None]:
        """Let the statements in SQL of a staged transaction run one after the other: each sees the last."""
        if not self.is_staged(call):
            yield
            return
        assert call.transaction_id is not None
        with call.holding(self._registry.active(call, call.transaction_id).detail.running):
            yield

    @contextlib.contextmanager
    def changing(self, call: Call) -> Iterator[None]:
        """Be the only statement of the call's staged transaction; it is active in the block."""
        assert call.transaction_id is not None
        entry = self._registry.active(call, call.transaction_id)
        view = entry.detail
        with call.holding(view.changing):
            self._registry.active(call, call.transaction_id)
            try:
                yield
            finally:
                if entry.detail is not view:  # it has expired meanwhile, and nobody removes what came since
                    view.discard()
            self._registry.active(call, call.transaction_id)

    def staged_state(
        self, call: Call, transaction_id: str, table_id: str, count: int
    ) -> DeltaSnapshot | None:
        """Return what a staged transaction of the caller saw after so many statements, None if it is none.

        Raises NotFoundError and TransactionNotActiveError.
        """
        entry = self._registry.present(transaction_id)
        if entry is None or not entry.mode.is_staged:
            return None
        view = self._registry.active(call, transaction_id).detail
        with self._lock:
            found = [staged for staged in view.staged.values() if staged.table_id == table_id]
        return found[0].state(count) if found and count <= found[0].count else None

    def transaction_status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id."""
        return self._registry.status(call, transaction_id)

    def expirations(self) -> int:
        """Return how many transactions have expired so far."""
        return self._registry.expirations()

    def check(self, call: Call) -> None:
        """Check that the call's transaction, if it has one, is active and belongs to the caller."""
        if call.transaction_id is not None:
            self._registry.active(call, call.transaction_id)

    def look(self, call: Call) -> None:
        """Take the snapshot that the call's transaction sees, if it has one and this is its first use."""
        if call.transaction_id is None:
            return
        entry = self._registry.active(call, call.transaction_id)
        view = entry.detail
        if view.listing is not None:
            return
        # Not in the middle of a commit to several tables: all of them are changed, or none.
        with self._journal.reading(call) if self._journal else contextlib.nullcontext():
            is_exact = entry.mode.is_staged
            listing = self._one_moment(call) if is_exact else self._warehouse.listing(fresh=True)
        with self._lock:
            view.begin_at(listing)

    def view(self, call: Call, schema: str, table: str, log: DeltaLog) -> TableView | None:
        """Return what the call's transaction sees of a table, None without a transaction.

        A table created after the transaction's first use is most likely its own: CREATE TABLE carries
        no transaction id, yet the statements after it must see the table. Its version is pinned when the
        transaction first uses it. The same holds for a table that replaces a dropped one of its name.
        """
        if call.transaction_id is None:
            return None
        self.look(call)
        view = self._registry.active(call, call.transaction_id).detail
        self._wait_until_resumed(call, view, schema, table)
        with self._lock:
            pinned = view.tables.get((schema, table))
        assert view.listing is not None
        listed = view.listing.schemas.get(schema, {}).get(table)
        current = None
        if pinned is not None or listed is not None:
            current = _if_present(log, pinned) if pinned else _first_view(log, listed)
        if current is None:
            newest = log.header()
            current = TableView(newest.metadata.table_id, newest.version)
        with self._lock:
            if view.tables.get((schema, table)) is pinned:  # no own write came in between
                view.tables[schema, table] = current
            seen = view.tables[schema, table]
            staged = view.staged.get((schema, table))
            if staged is not None and staged.count and staged.table_id == seen.table_id:
                return replace(seen, staged=staged.state())
            return seen

    def private_view(self, transaction_id: str, schema: str, table: str) -> TableView | None:
        """Return what a transaction sees of a table, for a pinned snapshot; None if it has ended."""
        entry = self._registry.present(transaction_id)
        with self._lock:
            return None if entry is None else entry.detail.tables.get((schema, table))

    def snapshot(
        self, transaction_id: str, view: TableView, make: Callable[[TableView], DeltaSnapshot]
    ) -> DeltaSnapshot:
        """Return the snapshot that a transaction sees of a table; one with own writes is cached."""
        entry = self._registry.present(transaction_id)
        key = view.table_id, view.basis
        with self._lock:
            snapshot = None if entry is None else entry.detail.snapshots.get(key)
        if snapshot is None:
            snapshot = make(view)
            if snapshot.own_writes and entry is not None:
                with self._lock:
                    entry.detail.snapshots[key] = snapshot
        return snapshot

    @contextlib.contextmanager
    def pause_reads(self, call: Call, schema: str, table: str) -> Iterator[None]:
        """Make the reads of the call's transaction wait while a version is made that they are to see.

        DuckDB may scan a table while the server still prepares the statement that the scan is for.
        """
        entry = self._registry.present(call.transaction_id)
        if entry is None:
            yield
            return
        with self._lock:
            entry.detail.paused_reads[schema, table] += 1
        try:
            yield
        finally:
            with self._lock:
                entry.detail.paused_reads[schema, table] -= 1
                self._reads_resumed.notify_all()

    def record_write(self, call: Call, schema: str, table: str, made: TableHeader, write: OwnWrite) -> None:
        """Make the call's transaction, if it is still active, see its own write from now on."""
        entry = self._registry.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                seen = entry.detail.tables.get((schema, table))
                if seen is None or seen.table_id != made.metadata.table_id:
                    view = TableView(made.metadata.table_id, write.version)
                else:
                    own = (*seen.own, _reserve_ids(write, entry.detail.held))
                    view = replace(seen, own=tuple(sorted(own, key=lambda commit: commit.version)))
                entry.detail.tables[schema, table] = view

    def record_rename(self, call: Call, schema: str, old: str, new: str) -> None:
        """Make the call's transaction see a renamed table as it has seen it before."""
        entry = self._registry.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                view = entry.detail.tables.pop((schema, old), None)
                if view is not None:
                    entry.detail.tables[schema, new] = view

    def advance(self, call: Call, schema: str, table: str, old: TableView, made: TableHeader) -> None:
        """Make the call's transaction see a later version, also in scans that are planned but not begun."""
        entry = self._registry.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                entry.detail.tables[schema, table] = TableView(made.metadata.table_id, made.version)
                entry.detail.advanced[schema, table] = old.version, made.version

    def has_scanned(self, call: Call, schema: str, table: str) -> bool:
        """Return whether the call's transaction has read rows of a table."""
        entry = self._registry.present(call.transaction_id)
        if entry is None:
            return False
        with self._lock:
            return any(scan[:2] == (schema, table) for scan in entry.detail.scanned)

    def scanned_version(self, call: Call, schema: str, table: str, planned: int) -> int:
        """Return the version to read for a scan that was planned for version `planned`.

        The slices of a scan never mix versions: once one slice was read, the others read the same version.
        """
        entry = self._registry.present(call.transaction_id)
        if entry is None:
            return planned
        view = entry.detail
        self._wait_until_resumed(call, view, schema, table)
        with self._lock:
            old, new = view.advanced.get((schema, table), (planned, planned))
            if old == planned and (schema, table, planned) not in view.scanned:
                planned = new
            view.scanned.add((schema, table, planned))
            return planned

    def _wait_until_resumed(self, call: Call, view: _View, schema: str, table: str) -> None:
        with self._lock:
            call.wait_for(self._reads_resumed, lambda: not view.paused_reads[schema, table])

    def _end(self, call: Call, transaction_id: str, state: TransactionState) -> None:
        entry = self._registry.find(call, transaction_id)
        if entry.state not in {TransactionState.ACTIVE, state}:
            raise TransactionNotActiveError(transaction_id, entry.state)
        self._registry.end(entry, state)


def _reserve_ids(write: OwnWrite, held: Reservation) -> OwnWrite:
    """Return a write, without its ids if the budget has no room: DuckDB never ends its transactions."""
    try:
        held.add(write.size)
    except LimitExceededError:
        return replace(write, changed=None, added=None)
    return write


def _first_view(log: DeltaLog, listed: TableEntry | None) -> TableView | None:
    """Return the view of a table as it was listed, None if another table has replaced it since."""
    assert listed is not None
    if listed.version > log.newest_version():
        return None
    stamp = log.stamp(listed.version)
    if stamp is not None and listed.stamp is not None and stamp != listed.stamp:
        return None
    return TableView(log.header(listed.version).metadata.table_id, listed.version)


def _if_present(log: DeltaLog, view: TableView) -> TableView | None:
    """Return the view, None if another table has replaced the one that it is of."""
    # Where the commit still is, there is no need to list the others.
    if log.stamp(view.version) is None and view.version > log.newest_version():
        return None
    return view if log.header(view.version).metadata.table_id == view.table_id else None
