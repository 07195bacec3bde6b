"""Snapshots for calls that belong together."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkport.catalog.call import Call
from sparkport.catalog.transactions import TransactionManager, TransactionState
from sparkport.errors import NotFoundError, TransactionNotActiveError
from sparkport.memory.versions import Commits, History, Version

_MOST_TRANSACTIONS = 100_000


@dataclass(slots=True)
class _Transaction:
    principal: str
    sequence: int
    last_used: float
    state: TransactionState = TransactionState.ACTIVE
    own: dict[str, int] = field(default_factory=dict)


class MemoryTransactions(TransactionManager):
    """All reads with one id see one moment of the whole catalog, and their own writes.

    Each statement commits by itself; ending a transaction only ends its view.
    A transaction nobody uses for `idle_seconds` is aborted.
    """

    def __init__(
        self,
        commits: Commits,
        *,
        idle_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commits = commits
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Both in the order of their last use, so that expiring looks at the front only.
        self._transactions: OrderedDict[str, _Transaction] = OrderedDict()
        self._expired: OrderedDict[str, _Transaction] = OrderedDict()
        self._expirations = 0

    def begin_transaction(self, call: Call) -> str:
        """Start a transaction that sees what is committed now."""
        transaction_id = secrets.token_urlsafe(18)
        with self._commits.lock:
            sequence = self._commits.sequence
        with self._lock:
            self._expire()
            self._transactions[transaction_id] = _Transaction(call.principal, sequence, self._clock())
        return transaction_id

    def commit_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction; its statements are committed already."""
        self._end(call, transaction_id, TransactionState.COMMITTED)

    def rollback_transaction(self, call: Call, transaction_id: str) -> None:
        """End the transaction's view."""
        self._end(call, transaction_id, TransactionState.ABORTED)

    def transaction_status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id."""
        with self._lock:
            self._expire()
            try:
                return self._find(call, transaction_id).state
            except NotFoundError:
                return None

    def expirations(self) -> int:
        """Return how many transactions have expired so far."""
        with self._lock:
            self._expire()
            return self._expirations

    def version(self, call: Call, table_id: str, history: History) -> Version:
        """Return the version of a table that the call reads."""
        if call.transaction_id is None:
            return history.newest
        transaction = self._active(call, call.transaction_id)
        if table_id in transaction.own:
            return history.as_written(transaction.own[table_id])
        # A table made after the transaction began is most likely its own: CREATE
        # TABLE carries no transaction id, yet the statements after it must see it.
        return history.as_of(transaction.sequence) or history.newest

    def changes_by_others(self, call: Call, history: History, base: Version) -> list[Version]:
        """Return what others committed since the call's transaction took its snapshot.

        `base` counts for a table that is younger than the transaction.
        """
        if call.transaction_id is None:
            return []
        snapshot = history.as_of(self._active(call, call.transaction_id).sequence) or base
        return [later for later in history.since(snapshot) if later.writer != call.transaction_id]

    def wrote(self, call: Call, table_id: str, version: Version) -> None:
        """Let the call's transaction, if it is still there, see its own write from now on."""
        with self._lock:
            transaction = self._transactions.get(call.transaction_id or "")
            if transaction is not None:
                transaction.own[table_id] = version.number

    def _active(self, call: Call, transaction_id: str) -> _Transaction:
        with self._lock:
            self._expire()
            transaction = self._find(call, transaction_id)
            if transaction.state is not TransactionState.ACTIVE:
                raise TransactionNotActiveError(transaction_id, transaction.state)
            transaction.last_used = self._clock()
            self._transactions.move_to_end(transaction_id)
            return transaction

    def _end(self, call: Call, transaction_id: str, state: TransactionState) -> None:
        with self._lock:
            self._expire()
            transaction = self._find(call, transaction_id)
            if transaction.state not in {TransactionState.ACTIVE, state}:
                raise TransactionNotActiveError(transaction_id, transaction.state)
            transaction.state = state

    def _find(self, call: Call, transaction_id: str) -> _Transaction:
        transaction = self._transactions.get(transaction_id) or self._expired.get(transaction_id)
        if transaction is None or transaction.principal != call.principal:
            raise NotFoundError("transaction", transaction_id)
        return transaction

    def _expire(self) -> None:
        """Forget what nobody used for long; DuckDB never says that a transaction is over."""
        oldest_allowed = self._clock() - self._idle_seconds
        while self._transactions:
            oldest = next(iter(self._transactions))
            crowded = len(self._transactions) > _MOST_TRANSACTIONS
            if self._transactions[oldest].last_used >= oldest_allowed and not crowded:
                return
            transaction = self._transactions.pop(oldest)
            self._expirations += 1
            transaction.own.clear()
            if transaction.state is TransactionState.ACTIVE:
                transaction.state = TransactionState.ABORTED
            self._expired[oldest] = transaction
            if len(self._expired) > _MOST_TRANSACTIONS:
                self._expired.popitem(last=False)
