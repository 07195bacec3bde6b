"""One view of the warehouse for calls that belong together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sparkport.catalog.call import Call
from sparkport.catalog.ledger import TransactionLedger
from sparkport.catalog.transactions import TransactionManager, TransactionMode, TransactionState
from sparkport.errors import TransactionNotActiveError, UnsupportedOperationError
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta.snapshots import Heading
from sparkport.spark.warehouse import Listing, Warehouse

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Pin:
    """A version of the table that has an id."""

    version: int
    table_id: str


@dataclass(slots=True)
class _View:
    """What a transaction sees: all tables as they were when it was first used, and its own writes.

    A table is pinned by its name until it is first read, and by its id from then on: another one may
    come to have the name.
    """

    listing: Listing | None = None
    moment_ms: int = 0
    pins: dict[tuple[str, str], _Pin] = field(default_factory=dict)
    settling: dict[tuple[str, str], threading.Event] = field(default_factory=dict)
    moved: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    scanned: set[tuple[str, str, int]] = field(default_factory=set)


class SparkTransactions(TransactionManager):
    """All reads with one id see one moment of the whole warehouse.

    The moment is that of the transaction's first use. A transaction nobody uses for
    `idle_seconds` is aborted.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        *,
        idle_seconds: float = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._warehouse = warehouse
        self._clock = clock
        self._ledger: TransactionLedger[_View] = TransactionLedger(_View, idle_seconds=idle_seconds)
        self._lock = threading.Lock()

    def begin_transaction(self, call: Call, mode: TransactionMode = TransactionMode.STATEMENT) -> str:
        """Start a transaction."""
        if mode is TransactionMode.STAGED:
            raise UnsupportedOperationError("engine", "spark", "staged transactions")
        return self._ledger.begin(call, mode, _View())

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
                    view.moment_ms = int(self._clock() * 1000)

    def version(self, call: Call, schema: str, table: str, log: DeltaLog) -> int | None:
        """Return the version of a table that the call's transaction reads, None for the newest.

        A table made after the transaction's first use is most likely its own: CREATE TABLE carries
        no transaction id, yet the statements after it must see it. That goes for one that has the
        name of another, too, which was dropped.
        """
        if call.transaction_id is None:
            return None
        self.look(call)
        view = self._ledger.active(call, call.transaction_id).detail
        self._wait_settled(call, view, schema, table)
        with self._lock:
            pin = view.pins.get((schema, table))
        assert view.listing is not None
        listed = view.listing.schemas.get(schema, {}).get(table)
        if pin is None and listed is None:
            return None
        found = _found(log, pin, listed.version if listed else 0, view.moment_ms)
        with self._lock:
            if view.pins.get((schema, table)) is pin:  # no write of its own came in between
                view.pins[schema, table] = found
            return view.pins[schema, table].version

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

    def wrote(
        self, call: Call, schema: str, table: str, made: Heading, *, instead_of: int | None = None
    ) -> None:
        """Let the call's transaction, if it is still there, see its own write from now on.

        With `instead_of`, also in scans that were planned for that version and have not begun.
        """
        entry = self._ledger.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                entry.detail.pins[schema, table] = _Pin(made.version, made.metadata.table_id)
                if instead_of is not None:
                    entry.detail.moved[schema, table] = instead_of, made.version

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


def _found(log: DeltaLog, pin: _Pin | None, listed_version: int, moment_ms: int) -> _Pin:
    """Return the version to read: the pinned or listed one, the newest if that was of another table."""
    version = pin.version if pin else listed_version
    if version <= log.newest_version():
        heading = log.heading(version)
        is_same = heading.metadata.table_id == pin.table_id if pin else heading.timestamp_ms <= moment_ms
        if is_same:
            return _Pin(version, heading.metadata.table_id)
    newest = log.heading()
    return _Pin(newest.version, newest.metadata.table_id)
