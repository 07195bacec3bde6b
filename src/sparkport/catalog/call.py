"""The call: who asks, within which transaction, until when."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from sparkport.catalog.budget import UNLIMITED, Resources
from sparkport.catalog.meter import Meter
from sparkport.catalog.principal import Principal
from sparkport.errors import CancelledError, DeadlineExceededError

ANONYMOUS = "anonymous"

_CLIENTS_DEADLINE = "the deadline of the call has passed"
_POLL_SECONDS = 0.05  # a cancellation wakes nobody who waits for something else

T = TypeVar("T")


class Call:
    """What every catalog method learns about the request it serves.

    A call is made at the edge of the server and handed down explicitly. It is
    safe to use from any thread. Long work calls `check()` between steps. A statement with an
    `idempotency_key` that the table has seen was already executed (see `toolkit.repeats`). An UPDATE or
    DELETE with `if_version` is a conflict if its rows were changed since that snapshot of the table. `peer`
    is the address of the client's end of the connection, as gRPC says it. `meter` counts what the call does
    and `deadline_text` says whose the deadline is, if it is not the client's.
    """

    __slots__ = (
        "_callbacks",
        "_cancelled",
        "_lock",
        "deadline",
        "deadline_text",
        "idempotency_key",
        "if_version",
        "meter",
        "peer",
        "principal",
        "resources",
        "trace_id",
        "transaction_id",
    )

    def __init__(
        self,
        principal: str = ANONYMOUS,
        *,
        transaction_id: str | None = None,
        timeout: float | None = None,
        trace_id: str = "",
        idempotency_key: str | None = None,
        if_version: str | None = None,
        resources: Resources = UNLIMITED,
        peer: str = "",
        meter: Meter | None = None,
        deadline_text: str | None = None,
    ) -> None:
        self.deadline_text = deadline_text
        self.meter = Meter() if meter is None else meter
        self.peer = peer
        self.if_version = if_version
        self.resources = resources
        self.idempotency_key = idempotency_key
        self.principal = principal if isinstance(principal, Principal) else Principal(principal)
        self.transaction_id = transaction_id
        self.trace_id = trace_id
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether the client has gone away."""
        return self._cancelled.is_set()

    def remaining(self) -> float | None:
        """Return the seconds left until the deadline, or None without one."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def check(self) -> None:
        """Raise CancelledError or DeadlineExceededError when the call is over."""
        self.check_cancelled()
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineExceededError(self.deadline_text or _CLIENTS_DEADLINE)

    def check_cancelled(self) -> None:
        """Raise CancelledError when the call is cancelled, however late it is."""
        if self._cancelled.is_set():
            raise CancelledError

    def outside_transaction(self) -> Call:
        """Return a call that is over when this one is, but belongs to no transaction."""
        return self._part()

    def detached(self) -> Call:
        """Return a call of the same caller and transaction that goes on when this one is over.

        For what has to follow something that is done and cannot be undone.
        """
        return Call(
            self.principal,
            transaction_id=self.transaction_id,
            trace_id=self.trace_id,
            resources=self.resources,
            peer=self.peer,
            meter=self.meter,
        )

    def on_behalf_of(self, principal: Principal) -> Call:
        """Return this call as that of another principal, or of the same with a view of a catalog."""
        part = self._part(
            transaction_id=self.transaction_id,
            idempotency_key=self.idempotency_key,
            if_version=self.if_version,
        )
        part.principal = principal
        return part

    def based_on(self, if_version: str | None) -> Call:
        """Return this call for a statement on rows that were read in a snapshot."""
        return self._part(
            transaction_id=self.transaction_id, idempotency_key=self.idempotency_key, if_version=if_version
        )

    def in_transaction(self, transaction_id: str | None) -> Call:
        """Return this call within a transaction, None for its own."""
        if transaction_id is None:
            return self
        return self._part(transaction_id=transaction_id, idempotency_key=self.idempotency_key)

    def _part(
        self,
        *,
        transaction_id: str | None = None,
        idempotency_key: str | None = None,
        if_version: str | None = None,
    ) -> Call:
        """Return a call of the same caller that is over when this one is."""
        other = Call(
            self.principal,
            transaction_id=transaction_id,
            timeout=self.remaining(),
            trace_id=self.trace_id,
            idempotency_key=idempotency_key,
            if_version=if_version,
            resources=self.resources,
            peer=self.peer,
            meter=self.meter,
            deadline_text=self.deadline_text,
        )
        self.on_cancel(other.cancel)
        return other

    def checked(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield the parts, and check the call before each. Raises what `check` does."""
        for part in parts:
            self.check()
            yield part

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, check the call before each, and count their rows as sent."""
        for batch in batches:
            self.check()
            self.meter.rows_out += batch.num_rows
            self.meter.given_at = time.monotonic()
            yield batch
            self.meter.given_at = None
        # A table that stops because the call is over has not given all its rows.
        self.check_cancelled()

    def cancel(self) -> None:
        """Mark the call as cancelled and run the callbacks, once."""
        with self._lock:
            if self._cancelled.is_set():
                return
            self._cancelled.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the call is cancelled, at once if it already is."""
        with self._lock:
            if not self._cancelled.is_set():
                self._callbacks.append(callback)
                return
        callback()

    @contextlib.contextmanager
    def cancelling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Run `callback` if the call is cancelled while the block runs."""
        self.on_cancel(callback)
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

    def wait_cancelled(self, seconds: float) -> bool:
        """Wait up to `seconds` for a cancellation and return whether it came."""
        return self._cancelled.wait(seconds)

    def wait_for(
        self, condition: threading.Condition, predicate: Callable[[], bool], timeout: float | None = None
    ) -> bool:
        """Wait until the predicate is true; return False if it is not within `timeout` seconds.

        The caller holds the condition, as for `Condition.wait_for`. Raises what `check` does.
        """
        end = None if timeout is None else time.monotonic() + timeout
        self.check()
        while not predicate():
            if end is not None and time.monotonic() >= end:
                return False
            condition.wait(_POLL_SECONDS)
            self.check()
        return True

    @contextlib.contextmanager
    def holding(self, lock: threading.Lock | threading.RLock) -> Iterator[None]:
        """Hold a lock while the block runs. Raises what `check` does while it waits for the lock."""
        while not lock.acquire(timeout=_POLL_SECONDS):
            self.check()
        try:
            yield
        finally:
            lock.release()
