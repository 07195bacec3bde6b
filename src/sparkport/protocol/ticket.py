"""Tickets: everything that DoGet needs, signed so that only the server can issue one."""

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
from sparkport.protocol.decoding import decode_msgpack

_MAC_BYTES = 32


class StatementTicket(msgspec.Struct, frozen=True, array_like=True):
    """A query in SQL, or a part of its rows: with its parameters as an Arrow stream, and its session."""

    sql: str
    catalog: str
    schema: str = ""
    transaction_id: str | None = None
    parameters: bytes = b""
    time_zone: str = ""
    part: str = ""
    settings: tuple[tuple[str, str], ...] = ()


class Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A slice of a scan, the call of a table function, or a command of Flight SQL.

    Without a `path` it reads the list of databases. With `function` it calls the table function at
    `path`: with msgpack parameters, or in one `form` of it with parameters as an Arrow stream of one row.
    With `duckdb_types` the rows are sent in types that DuckDB reads. With a `row_count` there is nothing to
    read: the client only counts the rows, of which there are so many. With `is_rest` it reads what the
    client does not read by itself. With a `command` it reads the metadata that a command of Flight SQL asks
    for, with a `statement` the rows of a query.
    """

    path: TablePath | None
    columns: tuple[str, ...] | None = None
    filters: bytes = b""
    time_unit: TimeUnit | None = None
    time_value: str = ""
    slice_index: int = 0
    slice_count: int = 1
    duckdb_types: bool = False
    function: bool = False
    parameters: bytes = b""
    named_parameters: bytes = b"\x80"
    form: str = ""
    row_count: int | None = None
    is_rest: bool = False
    command: bytes = b""
    statement: StatementTicket | None = None

    @property
    def time_point(self) -> TimePoint | None:
        """The time point to read."""
        return None if self.time_unit is None else TimePoint(self.time_unit, self.time_value)

    @property
    def slice(self) -> ScanSlice | None:
        """The slice of the scan to read."""
        return None if self.slice_count == 1 else ScanSlice(self.slice_index, self.slice_count)


class TicketSigner:
    """Signs tickets for a principal, and verifies them."""

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

    @property
    def expires(self) -> int:
        """When a ticket that is signed now expires, in seconds since 1970."""
        return int(self._clock() + self._lifetime)

    def sign(self, ticket: Ticket, principal: str) -> bytes:
        """Return the ticket as signed bytes."""
        payload = msgspec.msgpack.encode((self.expires, ticket))
        return self._mac(payload, principal) + payload

    def verify(self, data: bytes, principal: str) -> Ticket:
        """Return the ticket. Raises InvalidRequestError if it is another principal's or has expired."""
        mac, payload = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(payload, principal)):
            raise InvalidRequestError("the ticket is not valid; request a new one with GetFlightInfo")
        try:
            expires, ticket = decode_msgpack(payload, tuple[int, Ticket])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequestError(
                "the ticket was issued by another version of the server; request a new one with GetFlightInfo"
            ) from error
        if self._clock() > expires:
            raise InvalidRequestError("the ticket has expired; request a new one with GetFlightInfo")
        return ticket

    def _mac(self, payload: bytes, principal: str) -> bytes:
        bound = len(principal.encode()).to_bytes(4, "big") + principal.encode() + payload
        return hmac.digest(self._key, bound, hashlib.sha256)
