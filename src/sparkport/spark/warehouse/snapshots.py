"""One view of the warehouse for calls that belong together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from sparkport.catalog.budget import ByteBudget, Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.transactions import TransactionManager, TransactionMode, TransactionState
from sparkport.errors import LimitExceededError, TransactionNotActiveError, UnsupportedOperationError
from sparkport.spark.commit.conflicts import Basis
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta.snapshots import DeltaSnapshot, TableHeader
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.warehouse.listing import Listing, TableEntry, Warehouse
from sparkport.toolkit.transaction_registry import TransactionRegistry

_POLL_SECONDS = 0.1
_MAX_ID_BYTES = 128 << 20  # for the ids of own writes, of all transactions


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A commit of a transaction's own.

    `changed` are the ids of the rows that it has changed or removed, None if they were too many to keep.
    `added` are those of the rows that it has put into new files, None for all rows in these. `is_certain`
    says whether it is known to have made this version, and not only to have committed at or before it.
    """

    version: int
    changed: Ids | None
    added: Ids | None = None
    is_certain: bool = True

    @property
    def size(self) -> int:
        """How many bytes its ids take."""
        return sum(ids.nbytes for ids in (self.changed, self.added) if ids is not None)


@dataclass(frozen=True, slots=True)
class TableView:
    """What a transaction sees of a table: a version of the table that has an id, and its own writes."""

    table_id: str
    version: int
    own: tuple[OwnWrite, ...] = ()

    @property
    def newest(self) -> int:
        """The version of the newest of its own writes, or else the one it began with."""
        return self.own[-1].version if self.own else self.version

    @property
    def is_alone(self) -> bool:
        """Whether there were no other commits than its own."""
        return self.newest - self.version == len(self.own)

    @property
    def basis(self) -> Basis:
        """The version that rows were read from, and the commits that were not of others."""
        if self.is_alone:
            return Basis(self.version, tuple(range(self.version + 1, self.newest + 1)))
        return Basis(self.version, tuple(write.version for write in self.own if write.is_certain))


@dataclass(slots=True)
class _View:
    """What a transaction sees: all tables as they were when it was first used, and its own writes.

    A table is pinned by its name until it is first read, and by its id from then on: another one may
    come to have the name.
    """

    held: Reservation
    listing: Listing | None = None
    tables: dict[tuple[str, str], TableView] = field(default_factory=dict)
    snapshots: dict[tuple[str, Basis], DeltaSnapshot] = field(default_factory=dict)
    settling: dict[tuple[str, str], threading.Event] = field(default_factory=dict)
    moved: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    scanned: set[tuple[str, str, int]] = field(default_factory=set)


class SparkTransactions(TransactionManager):
    """All reads with one id see one moment of the whole warehouse.

    The moment is that of the transaction's first use. A transaction nobody uses for
    `idle_seconds` is aborted.
    """

    def __init__(self, warehouse: Warehouse, *, idle_seconds: float = 3600.0) -> None:
        self._warehouse = warehouse
        self._ids = ByteBudget(_MAX_ID_BYTES)
        self._ledger: TransactionRegistry[_View] = TransactionRegistry(
            self._fresh_view, idle_seconds=idle_seconds
        )
        self._lock = threading.Lock()

    def begin_transaction(self, call: Call, mode: TransactionMode = TransactionMode.STATEMENT) -> str:
        """Start a transaction."""
        if mode is TransactionMode.STAGED:
            raise UnsupportedOperationError("engine", "spark", "staged transactions")
        return self._ledger.begin(call, mode, self._fresh_view())

    def _fresh_view(self) -> _View:
        return _View(Reservation(self._ids))

    def transaction_mode(self, call: Call, transaction_id: str) -> TransactionMode:
        """Return how an active transaction was begun."""
        return self._ledger.active(call, transaction_id).mode

    def commit_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction; doing it twice is fine."""
        self._end(call, transaction_id, TransactionState.COMMITTED)

    def rollback_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction; doing it twice is fine."""
        self._end(call, transaction_id, TransactionState.ABORTED)

    def transaction_status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id."""
        return self._ledger.status(call, transaction_id)

    def expirations(self) -> int:
        """Return how many transactions have expired so far."""
        return self._ledger.expirations()

    def check(self, call: Call) -> None:
        """Make sure that the call's transaction, if it has one, is the caller's and goes on."""
        if call.transaction_id is not None:
            self._ledger.active(call, call.transaction_id)

    def look(self, call: Call) -> None:
        """Fix the moment that the call's transaction sees, if it has one and this is its first use."""
        if call.transaction_id is not None:
            view = self._ledger.active(call, call.transaction_id).detail
            with self._lock:
                if view.listing is None:
                    view.listing = self._warehouse.listing(fresh=True)

    def view(self, call: Call, schema: str, table: str, log: DeltaLog) -> TableView | None:
        """Return what the call's transaction sees of a table, None without a transaction.

        A table made after the transaction's first use is most likely its own: CREATE TABLE carries
        no transaction id, yet the statements after it must see it. It is seen as it is when it is first
        used. That goes for one that has the name of another, too, which was dropped.
        """
        if call.transaction_id is None:
            return None
        self.look(call)
        view = self._ledger.active(call, call.transaction_id).detail
        self._wait_settled(call, view, schema, table)
        with self._lock:
            known = view.tables.get((schema, table))
        assert view.listing is not None
        listed = view.listing.schemas.get(schema, {}).get(table)
        current = None
        if known is not None or listed is not None:
            current = _still_there(log, known) if known else _first_view(log, listed)
        if current is None:
            newest = log.header()
            current = TableView(newest.metadata.table_id, newest.version)
        with self._lock:
            if view.tables.get((schema, table)) is known:  # no write of its own came in between
                view.tables[schema, table] = current
            return view.tables[schema, table]

    def private_view(self, transaction_id: str, schema: str, table: str) -> TableView | None:
        """Return what a transaction has seen of a table, for whoever has its pin; None if it is over."""
        entry = self._ledger.present(transaction_id)
        with self._lock:
            return None if entry is None else entry.detail.tables.get((schema, table))

    def snapshot(
        self, transaction_id: str, view: TableView, make: Callable[[TableView], DeltaSnapshot]
    ) -> DeltaSnapshot:
        """Return the snapshot that a transaction sees of a table; one that nobody else has is kept."""
        entry = self._ledger.present(transaction_id)
        key = view.table_id, view.basis
        with self._lock:
            kept = None if entry is None else entry.detail.snapshots.get(key)
        if kept is None:
            kept = make(view)
            if kept.own_writes and entry is not None:
                with self._lock:
                    entry.detail.snapshots[key] = kept
        return kept

    @contextlib.contextmanager
    def settling(self, call: Call, schema: str, table: str) -> Iterator[None]:
        """Let the reads of the call's transaction wait: a version that is being made will be theirs.

        DuckDB may scan a table while the server still prepares the statement that the scan is for.
        """
        entry = self._ledger.present(call.transaction_id)
        if entry is None:
            yield
            return
        settled = threading.Event()
        with self._lock:
            entry.detail.settling[schema, table] = settled
        try:
            yield
        finally:
            with self._lock:
                if entry.detail.settling.get((schema, table)) is settled:
                    del entry.detail.settling[schema, table]
            settled.set()

    def wrote(self, call: Call, schema: str, table: str, made: TableHeader, write: OwnWrite) -> None:
        """Let the call's transaction, if it is still there, see its own write from now on."""
        entry = self._ledger.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                known = entry.detail.tables.get((schema, table))
                if known is None or known.table_id != made.metadata.table_id:
                    view = TableView(made.metadata.table_id, write.version)
                else:
                    own = (*known.own, _kept(write, entry.detail.held))
                    view = replace(known, own=tuple(sorted(own, key=lambda one: one.version)))
                entry.detail.tables[schema, table] = view

    def renamed(self, call: Call, schema: str, old: str, new: str) -> None:
        """Let the call's transaction see a table under another name as it has seen it before."""
        entry = self._ledger.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                known = entry.detail.tables.pop((schema, old), None)
                if known is not None:
                    entry.detail.tables[schema, new] = known

    def moved(self, call: Call, schema: str, table: str, old: TableView, made: TableHeader) -> None:
        """Let the call's transaction see a later version, also in scans that are planned but not begun."""
        entry = self._ledger.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                entry.detail.tables[schema, table] = TableView(made.metadata.table_id, made.version)
                entry.detail.moved[schema, table] = old.version, made.version

    def has_scanned(self, call: Call, schema: str, table: str) -> bool:
        """Tell whether the call's transaction has read rows of a table."""
        entry = self._ledger.present(call.transaction_id)
        if entry is None:
            return False
        with self._lock:
            return any(place[:2] == (schema, table) for place in entry.detail.scanned)

    def scanned_version(self, call: Call, schema: str, table: str, planned: int) -> int:
        """Return the version that a scan reads which was planned for one.

        The parts of a scan never mix versions: once one has been read, that is read on.
        """
        entry = self._ledger.present(call.transaction_id)
        if entry is None:
            return planned
        view = entry.detail
        self._wait_settled(call, view, schema, table)
        with self._lock:
            old, new = view.moved.get((schema, table), (planned, planned))
            if old == planned and (schema, table, planned) not in view.scanned:
                planned = new
            view.scanned.add((schema, table, planned))
            return planned

    def _wait_settled(self, call: Call, view: _View, schema: str, table: str) -> None:
        with self._lock:
            settled = view.settling.get((schema, table))
        while settled is not None and not settled.wait(_POLL_SECONDS):
            call.check()

    def _end(self, call: Call, transaction_id: str, state: TransactionState) -> None:
        entry = self._ledger.find(call, transaction_id)
        if entry.state not in {TransactionState.ACTIVE, state}:
            raise TransactionNotActiveError(transaction_id, entry.state)
        self._ledger.end(entry, state)


def _kept(write: OwnWrite, held: Reservation) -> OwnWrite:
    """Return a write with its ids if there is room for them: DuckDB never ends its transactions."""
    try:
        held.add(write.size)
    except LimitExceededError:
        return replace(write, changed=None, added=None)
    return write


def _first_view(log: DeltaLog, listed: TableEntry | None) -> TableView | None:
    """Return the view of a table as it was listed, None if another has taken its place since."""
    assert listed is not None
    if listed.version > log.newest_version():
        return None
    stamp = log.stamp(listed.version)
    if stamp is not None and listed.stamp is not None and stamp != listed.stamp:
        return None
    return TableView(log.header(listed.version).metadata.table_id, listed.version)


def _still_there(log: DeltaLog, view: TableView) -> TableView | None:
    if view.version > log.newest_version():
        return None
    return view if log.header(view.version).metadata.table_id == view.table_id else None
