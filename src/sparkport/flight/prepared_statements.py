"""Prepared statements: what clients refer to by a handle."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

import pyarrow as pa

from sparkport.catalog.sql import SqlDescription, SqlStatement
from sparkport.errors import NotFoundError
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_CALLERS = 1000
_MAX_STATEMENTS = 1000


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """A statement that was analysed, with the parameters that were bound last."""

    statement: SqlStatement
    transaction_id: str | None
    description: SqlDescription
    parameters: pa.RecordBatch | None = None


class PreparedStatements:
    """Keeps the statements of each caller; of too many the one that was not used for longest is closed."""

    def __init__(self) -> None:
        self._callers: BoundedCache[str, BoundedCache[bytes, PreparedStatement]] = BoundedCache(_MAX_CALLERS)

    def add(self, principal: str, prepared: PreparedStatement) -> bytes:
        """Keep a statement and return its handle."""
        statements = self._callers.get(principal)
        if statements is None:
            statements = BoundedCache(_MAX_STATEMENTS)
            self._callers.put(principal, statements)
        handle = secrets.token_hex(16).encode()
        statements.put(handle, prepared)
        return handle

    def get(self, principal: str, handle: bytes) -> PreparedStatement:
        """Return a statement of a caller. Raises NotFoundError."""
        statements = self._callers.get(principal)
        prepared = statements.get(handle) if statements is not None else None
        if prepared is None:
            raise NotFoundError("prepared statement", handle.decode("ascii", errors="replace")[:64])
        return prepared

    def bind(self, principal: str, handle: bytes, parameters: pa.RecordBatch | None) -> None:
        """Replace the parameters of a statement. Raises NotFoundError."""
        prepared = self.get(principal, handle)
        statements = self._callers.get(principal)
        if statements is not None:
            statements.put(handle, replace(prepared, parameters=parameters))

    def close(self, principal: str, handle: bytes) -> None:
        """Forget a statement; one that is not there is closed already."""
        statements = self._callers.get(principal)
        if statements is not None:
            statements.pop(handle)
