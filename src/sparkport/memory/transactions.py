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
        self._expired: OrderedDict[str, None] = OrderedDict()

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
            if transaction_id in self._expired:
                return TransactionState.ABORTED
            found = self._transactions.get(transaction_id)
        return found.state if found and found.principal == call.principal else None

    def version(self, call: Call, table_id: str, history: History) -> Version:
        """Return the version of a table that the call reads."""
        if call.transaction_id is None:
            return history.newest
        transaction = self._active(call, call.transaction_id)
        if table_id in transaction.own:
            return history.numbered(transaction.own[table_id])
        # A table made after the transaction began is most likely its own: CREATE
        # TABLE carries no transaction id, yet the statements after it must see it.
        return history.as_of(transaction.sequence) or history.newest

    def wrote(self, call: Call, table_id: str, version: Version) -> None:
        """Let the call's transaction see its own write from now on."""
        if call.transaction_id is not None:
            self._active(call, call.transaction_id).own[table_id] = version.number

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
        if transaction_id in self._expired:
            raise TransactionNotActiveError(transaction_id, TransactionState.ABORTED)
        transaction = self._transactions.get(transaction_id)
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
            del self._transactions[oldest]
            self._expired[oldest] = None
            if len(self._expired) > _MOST_TRANSACTIONS:
                self._expired.popitem(last=False)
