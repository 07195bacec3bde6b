"""Which transactions there are, whose they are, and in what state."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkport.catalog.call import Call
from sparkport.catalog.measures import MEASURES
from sparkport.catalog.transactions import TransactionMode, TransactionState
from sparkport.errors import LimitExceededError, NotFoundError, TransactionNotActiveError

_MAX_TRANSACTIONS = 100_000

D = TypeVar("D")


@dataclass(slots=True)
class RegisteredTransaction(Generic[D]):
    """A transaction; `detail` is what its engine keeps for it, gone when the transaction is over."""

    principal: str
    mode: TransactionMode
    detail: D
    last_used: float
    state: TransactionState = TransactionState.ACTIVE


class TransactionRegistry(Generic[D]):
    """Keeps the transactions of a catalog. Safe to use from many threads.

    A transaction nobody uses for `idle_seconds` is aborted, because DuckDB never says that one is
    over. `fresh` makes the detail of a transaction that has none (any more), `discard` gets the one it had.
    """

    def __init__(
        self,
        fresh: Callable[[], D],
        *,
        discard: Callable[[D], None] = lambda _: None,
        idle_seconds: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fresh = fresh
        self._discard = discard
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Both in the order of their last use, so that expiring looks at the front only.
        self._entries: OrderedDict[str, RegisteredTransaction[D]] = OrderedDict()
        self._expired: OrderedDict[str, RegisteredTransaction[D]] = OrderedDict()
        self._expirations = 0
        self._open: Counter[str] = Counter()  # by principal, without those of DuckDB, which never end

    def begin(self, call: Call, mode: TransactionMode, detail: D) -> str:
        """Add a transaction and return its id. Raises LimitExceededError for a caller with too many open."""
        transaction_id = secrets.token_urlsafe(18)
        with self._lock:
            self._expire()
            if mode is not TransactionMode.STATEMENT:
                if self._open[call.principal] >= call.resources.open_transactions:
                    raise LimitExceededError(
                        f"{call.resources.open_transactions} transactions of this caller are open, which is"
                        " the limit; commit some or roll them back"
                    )
                self._open[call.principal] += 1
                MEASURES.count("open_transactions")
            self._entries[transaction_id] = RegisteredTransaction(call.principal, mode, detail, self._clock())
        return transaction_id

    def find(self, call: Call, transaction_id: str) -> RegisteredTransaction[D]:
        """Return a transaction of the caller's in any state. Raises NotFoundError."""
        with self._lock:
            self._expire()
            return self._find(call, transaction_id)

    def active(self, call: Call, transaction_id: str) -> RegisteredTransaction[D]:
        """Return a transaction for use. Raises NotFoundError and TransactionNotActiveError."""
        with self._lock:
            self._expire()
            entry = self._find(call, transaction_id)
            if entry.state is not TransactionState.ACTIVE:
                raise TransactionNotActiveError(transaction_id, entry.state)
            entry.last_used = self._clock()
            self._entries.move_to_end(transaction_id)
            return entry

    def status(self, call: Call, transaction_id: str) -> TransactionState | None:
        """Return the state, or None for an unknown id."""
        try:
            return self.find(call, transaction_id).state
        except NotFoundError:
            return None

    def present(self, transaction_id: str | None) -> RegisteredTransaction[D] | None:
        """Return a transaction that has not expired, whoever asks and whatever its state."""
        with self._lock:
            return self._entries.get(transaction_id or "")

    def end(self, entry: RegisteredTransaction[D], state: TransactionState) -> None:
        """Set the last state of a transaction and let its detail go."""
        with self._lock:
            self._close(entry, state)

    def expirations(self) -> int:
        """Return how many transactions have expired so far."""
        with self._lock:
            self._expire()
            return self._expirations

    def _find(self, call: Call, transaction_id: str) -> RegisteredTransaction[D]:
        entry = self._entries.get(transaction_id) or self._expired.get(transaction_id)
        if entry is None or entry.principal != call.principal:
            raise NotFoundError("transaction", transaction_id)
        return entry

    def _close(self, entry: RegisteredTransaction[D], state: TransactionState) -> None:
        if entry.state is TransactionState.ACTIVE and entry.mode is not TransactionMode.STATEMENT:
            self._open[entry.principal] -= 1
            MEASURES.count("open_transactions", -1)
            if not self._open[entry.principal]:
                del self._open[entry.principal]
        detail, entry.detail = entry.detail, self._fresh()
        entry.state = state
        self._discard(detail)

    def _expire(self) -> None:
        oldest_allowed = self._clock() - self._idle_seconds
        while self._entries:
            oldest = next(iter(self._entries))
            crowded = len(self._entries) > _MAX_TRANSACTIONS
            if self._entries[oldest].last_used >= oldest_allowed and not crowded:
                return
            entry = self._entries.pop(oldest)
            self._expirations += 1
            is_active = entry.state is TransactionState.ACTIVE
            self._close(entry, TransactionState.ABORTED if is_active else entry.state)
            self._expired[oldest] = entry
            if len(self._expired) > _MAX_TRANSACTIONS:
                self._expired.popitem(last=False)
