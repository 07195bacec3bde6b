"""A request at the edge: the call and what its headers say."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from sparkport.catalog.budget import UNLIMITED, Reservation, Resources
from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError
from sparkport.flight.access_log import AccessLog

# A cancelled stream could look like a finished one for a moment: the end of the input and the cancellation
# are two events. In thousands of tries the cancellation came first, but nobody promises that.
_TURN_SECONDS = 0.001
_LATE_SECONDS = 0.0003
_MAX_TURNS = 5


IDEMPOTENCY_KEY = "x-idempotency-key"
_KEY = re.compile("[!-~]{1,128}")
# Of later versions than 00 only what they have in common is read. Ids of zeros stand for none.
_TRACEPARENT = re.compile(
    "(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.{0,200})?"
)


class Headers:
    """Request headers by lower-case name; of repeated ones the last counts."""

    __slots__ = ("_values",)

    def __init__(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        self._values = {key: value for key, value in metadata if isinstance(value, str)}

    def get(self, name: str, default: str = "") -> str:
        """Return a header, or the default."""
        return self._values.get(name, default)

    def starting_with(self, prefix: str) -> dict[str, str]:
        """Return the headers whose names begin so."""
        return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    def optional(self, name: str) -> str | None:
        """Return a header, or None."""
        return self._values.get(name)


class RpcContext(Protocol):
    """The part of a gRPC call that is needed here."""

    @property
    def connection(self) -> str:
        """The address of the client's end of the connection, with its port."""
        raise NotImplementedError

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline."""
        raise NotImplementedError

    def send_initial_metadata(self, initial_metadata: tuple[tuple[str, str], ...]) -> None:
        """Send headers before the answer."""
        raise NotImplementedError

    def take_events(self, seconds: float) -> None:
        """Take what happens to the call, for so long or until nothing more will."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler knows of the request beside its decoded body."""

    call: Call
    headers: Headers
    rpc: RpcContext
    access_log: AccessLog = field(default_factory=AccessLog)
    incoming: Reservation = field(default_factory=lambda: Reservation(UNLIMITED.rows))
    """The memory of the message that is being worked on."""
    outgoing: Reservation = field(default_factory=lambda: Reservation(UNLIMITED.rows))
    """The memory of an answer that is kept until the client has taken it."""

    def check_alive(self) -> None:
        """Raise CancelledError if the client is gone, at the moment before a commit.

        Waits until this thread was woken in time: then the others, and with them one that
        brings a cancellation, had their turn too.
        """
        for _ in range(_MAX_TURNS):
            started = time.perf_counter()
            # To wait for gRPC's events would not tell: it rounds up to milliseconds.
            time.sleep(_TURN_SECONDS)
            late = time.perf_counter() - started - _TURN_SECONDS
            self.rpc.take_events(0)
            if self.call.cancelled or late < _LATE_SECONDS:
                break
        self.call.check()

    @property
    def is_airport(self) -> bool:
        """Whether DuckDB's Airport extension is calling."""
        return self.headers.optional("airport-user-agent") is not None


def make_request(
    headers: Headers,
    principal: str,
    resources: Resources,
    access_log: AccessLog,
    rpc: RpcContext,
    max_seconds: float | None = None,
) -> Request:
    """Return the request of an authenticated caller, which may take `max_seconds`.

    Raises InvalidRequestError for a malformed key.
    """
    remaining = rpc.time_remaining()
    has_own_limit = max_seconds is not None and (remaining is None or max_seconds < remaining)
    transaction = headers.get("airport-transaction-id") or headers.get("x-transaction-id")
    call = Call(
        principal,
        transaction_id=transaction or None,
        timeout=max_seconds if has_own_limit else remaining,
        trace_id=access_log.trace,
        idempotency_key=_idempotency_key(headers),
        resources=resources,
        peer=rpc.connection,
        deadline_text=timeout_text(max_seconds) if max_seconds and has_own_limit else None,
    )
    return Request(call, headers, rpc, access_log, Reservation(resources.rows), Reservation(resources.rows))


def timeout_text(seconds: float) -> str:
    """Return what a client is told whose statement took longer than the server allows."""
    return (
        f"the statement took longer than {seconds:g} seconds, the limit of this server (--statement-timeout)"
    )


def _idempotency_key(headers: Headers) -> str | None:
    key = headers.optional(IDEMPOTENCY_KEY)
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequestError(f"header {IDEMPOTENCY_KEY} must have 1 to 128 visible ASCII characters")
    return key


def open_log(method: str, headers: Headers) -> AccessLog:
    """Return the log line of a request, with the client's trace id if it sent one, else a new one.

    That is the id of `traceparent` as W3C writes it, else what DuckDB sends, which is a UUID.
    """
    parent = headers.optional("traceparent")
    if parent is not None:
        found = _TRACEPARENT.fullmatch(parent)
        if found is not None:
            return AccessLog(method, str(uuid.UUID(found[1])), parent)
    given = headers.optional("airport-trace-id")
    if given is not None:
        with contextlib.suppress(ValueError):
            return AccessLog(method, str(uuid.UUID(given)))
    return AccessLog(method, str(uuid.uuid4()))
