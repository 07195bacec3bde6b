"""Tickets: what DoGet needs to know, sealed so that only this server can make one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

import msgspec

from sparkport.catalog.lookup import TablePath
from sparkport.catalog.scan import ScanSlice, TimePoint, TimeUnit
from sparkport.errors import InvalidRequestError

_MAC_BYTES = 32


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A scan, fixed in every respect. `path` None reads the list of databases.

    With `function` it is a call of the table function at `path`, with msgpack
    parameters; or of one form of it, with parameters as an Arrow stream of one row.

    `presented` tells that the client wants the types DuckDB understands.
    """

    path: TablePath | None
    columns: tuple[str, ...] | None = None
    filters: bytes = b""
    time_unit: TimeUnit | None = None
    time_value: str = ""
    slice_index: int = 0
    slice_count: int = 1
    presented: bool = False
    function: bool = False
    parameters: bytes = b""
    named_parameters: bytes = b"\x80"
    form: str = ""

    @property
    def time_point(self) -> TimePoint | None:
        """The state to read."""
        return None if self.time_unit is None else TimePoint(self.time_unit, self.time_value)

    @property
    def slice(self) -> ScanSlice | None:
        """The part of the scan to read."""
        return None if self.slice_count == 1 else ScanSlice(self.slice_index, self.slice_count)


class TicketSigner:
    """Signs tickets for a principal and opens only its own."""

    def __init__(
        self,
        key: bytes | None = None,
        *,
        lifetime_seconds: float = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._key = key or secrets.token_bytes(32)
        self._lifetime = lifetime_seconds
        self._clock = clock

    def seal(self, ticket: Ticket, principal: str) -> bytes:
        """Return the ticket as opaque bytes."""
        expires = int(self._clock() + self._lifetime)
        payload = msgspec.msgpack.encode((expires, ticket))
        return self._mac(payload, principal) + payload

    def open(self, data: bytes, principal: str) -> Ticket:
        """Return the ticket. Raises InvalidRequestError if it is not this principal's or too old."""
        mac, payload = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(payload, principal)):
            raise InvalidRequestError("the ticket is not valid; ask for a new one with GetFlightInfo")
        try:
            expires, ticket = msgspec.msgpack.decode(payload, type=tuple[int, Ticket])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequestError("the ticket is of another version of the server") from error
        if self._clock() > expires:
            raise InvalidRequestError("the ticket has expired; ask for a new one with GetFlightInfo")
        return ticket

    def _mac(self, payload: bytes, principal: str) -> bytes:
        bound = len(principal.encode()).to_bytes(4, "big") + principal.encode() + payload
        return hmac.digest(self._key, bound, hashlib.sha256)
