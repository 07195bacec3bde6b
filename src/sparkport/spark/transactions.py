"""One view of the warehouse for calls that belong together."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sparkport.catalog.call import Call
from sparkport.catalog.ledger import TransactionLedger
from sparkport.catalog.transactions import TransactionManager, TransactionMode, TransactionState
from sparkport.errors import TransactionNotActiveError, UnsupportedOperationError
from sparkport.spark.warehouse import Listing, Warehouse


@dataclass(slots=True)
class _View:
    """What a transaction sees: all tables as they were when it was first used, and its own writes."""

    listing: Listing | None = None
    own: dict[tuple[str, str], int] = field(default_factory=dict)


class SparkTransactions(TransactionManager):
    """All reads with one id see one moment of the whole warehouse.

    The moment is that of the transaction's first use. A transaction nobody uses for
    `idle_seconds` is aborted.
    """

    def __init__(self, warehouse: Warehouse, *, idle_seconds: float = 3600.0) -> None:
        self._warehouse = warehouse
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

    def version(self, call: Call, schema: str, table: str) -> int | None:
        """Return the version of a table that the call's transaction reads, None for the newest.

        A table made after the transaction's first use is most likely its own: CREATE TABLE carries
        no transaction id, yet the statements after it must see it.
        """
        if call.transaction_id is None:
            return None
        view = self._ledger.active(call, call.transaction_id).detail
        with self._lock:
            if view.listing is None:
                view.listing = self._warehouse.listing(fresh=True)
            own = view.own.get((schema, table))
        if own is not None:
            return own
        entry = view.listing.schemas.get(schema, {}).get(table)
        return entry.version if entry else None

    def wrote(self, call: Call, schema: str, table: str, version: int) -> None:
        """Let the call's transaction, if it is still there, see its own write from now on."""
        entry = self._ledger.present(call.transaction_id)
        if entry is not None:
            with self._lock:
                entry.detail.own[schema, table] = version

    def _end(self, call: Call, transaction_id: str, state: TransactionState) -> None:
        entry = self._ledger.find(call, transaction_id)
        if entry.state not in {TransactionState.ACTIVE, state}:
            raise TransactionNotActiveError(transaction_id, entry.state)
        self._ledger.end(entry, state)
