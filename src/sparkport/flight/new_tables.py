"""CREATE TABLE AS, which DuckDB sends as two calls: drop the new table if the INSERT fails.

The CREATE TABLE carries no transaction id, but belongs to the transaction that its process began last, and
the INSERT of the same statement carries the id of that transaction. If both are separate statements of one
transaction of the user, that transaction has failed too.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import RevertibleSchema
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Table, VersionedTable
from sparkport.errors import SparkportError
from sparkport.flight.request import Request
from sparkport.toolkit.bounded_cache import BoundedCache

_log = structlog.get_logger("sparkport")

_SESSION = "airport-client-session-id"
_MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True)
class _New:
    transaction: str
    schema: RevertibleSchema
    name: str
    made: TimePoint


class NewTables:
    """Remembers which tables the latest transactions of DuckDB created."""

    def __init__(self) -> None:
        self._newest: BoundedCache[tuple[str, str], str] = BoundedCache(_MAX_COUNT)
        self._tables: BoundedCache[tuple[str, str, str], _New] = BoundedCache(_MAX_COUNT)

    def began(self, request: Request, transaction: str) -> None:
        """Record that a process began a transaction."""
        self._newest.put(_process(request), transaction)

    def made(self, request: Request, catalog: str, schema: object, table: Table) -> None:
        """Record that a process created a table."""
        transaction = self._newest.get(_process(request))
        if transaction is None or not isinstance(schema, RevertibleSchema):
            return
        if not isinstance(table, VersionedTable):
            return
        pin = table.snapshot(request.call, None).time_point
        key = catalog, schema.name.lower(), table.name.lower()
        self._tables.put(key, _New(transaction, schema, table.name, pin))

    def failed(self, request: Request, catalog: str, schema: str, table: str) -> None:
        """Drop the table of a failed INSERT if the same transaction created it."""
        key = (catalog, schema.lower(), table.lower())
        new = self._tables.get(key)
        if new is None or new.transaction != request.call.transaction_id or self._tables.pop(key) is not new:
            return
        try:
            # The client's own call may have ended.
            reverted = new.schema.revert_create(Call(request.call.principal), new.name, new.made)
        except SparkportError as error:
            _log.warning(
                "cannot drop the table of a failed CREATE TABLE AS",
                table=f"{schema}.{table}",
                reason=str(error),
            )
        else:
            _log.info("CREATE TABLE reverted", table=f"{schema}.{table}", reverted=reverted)


def _process(request: Request) -> tuple[str, str]:
    return request.call.principal, request.headers.get(_SESSION)
