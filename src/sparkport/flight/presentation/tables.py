"""Describe tables in the form that clients get."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import TablePath, current_arrow_schema
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import (
    ConstrainedTable,
    HasDescription,
    StatisticsTable,
    Table,
    TableDescription,
    VersionedTable,
)
from sparkport.errors import PreconditionError
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights, schemas
from sparkport.protocol.descriptor import TableAddress
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_INFOS = 100_000
_MAX_LAYOUTS = 1000


class _Layouts:
    """A cache of columns as clients see them, with their fingerprint.

    By identity: a table gives the same schema object until its columns change, and to compare schemas by
    value takes as long as to make the fingerprint.
    """

    def __init__(self) -> None:
        self._layouts: BoundedCache[tuple[int, bool], tuple[pa.Schema, pa.Schema, str]] = BoundedCache(
            _MAX_LAYOUTS
        )

    def get(self, arrow_schema: pa.Schema, *, duckdb_types: bool) -> tuple[pa.Schema, str]:
        """Return the columns of a schema and their fingerprint."""
        key = id(arrow_schema), duckdb_types
        cached = self._layouts.get(key)
        # What is cached is alive, so that no other object has its id.
        if cached is None or cached[0] is not arrow_schema:
            columns = schemas.to_duckdb_types(arrow_schema) if duckdb_types else arrow_schema
            cached = arrow_schema, columns, schemas.fingerprint(columns)
            self._layouts.put(key, cached)
        return cached[1], cached[2]


_LAYOUTS = _Layouts()


@dataclass(frozen=True, slots=True)
class LocatedTable:
    """A table and the name of its schema, as the server spells it."""

    schema: str
    table: Table


def client_schema(request: Request, table: Table, time_point: TimePoint | None = None) -> pa.Schema:
    """Return the columns of a table in the types that this client reads."""
    arrow_schema = current_arrow_schema(request.call, table, time_point)
    return schemas.to_duckdb_types(arrow_schema) if request.is_airport else arrow_schema


def airport_info(request: Request, table: Table, catalog: str, schema: str) -> bytes:
    """Return the FlightInfo that the Airport client keeps for a table; others get it in exact types.

    Its descriptor carries a fingerprint of the columns, which the client sends back with each request.
    """
    path, entry = TablePath(catalog, schema, table.name), _entry(request, table)
    return _info(path, entry, duckdb_types=request.is_airport)


class TableInfos:
    """A cache of the FlightInfo messages that the Airport client keeps for tables.

    Encoding one takes longer than the rest of a listing, and a commit changes only one table.
    """

    def __init__(self) -> None:
        self._infos: BoundedCache[TablePath, tuple[_TableEntry, bytes]] = BoundedCache(_MAX_INFOS)

    def get(self, request: Request, table: Table, catalog: str, schema: str) -> bytes:
        """Return the message of a table, encoded again if the table has changed."""
        path, entry = TablePath(catalog, schema, table.name), _entry(request, table)
        cached = self._infos.get(path)
        if cached is not None and cached[0].is_same(entry):
            return cached[1]
        info = _info(path, entry)
        self._infos.put(path, (entry, info))
        return info


@dataclass(frozen=True, slots=True)
class _TableEntry:
    """Everything that the FlightInfo of a table depends on."""

    description: TableDescription
    has_statistics: bool

    def is_same(self, other: _TableEntry) -> bool:
        # Schemas are immutable, and comparing them by value takes as long as encoding the message.
        return (
            self.description.arrow_schema is other.description.arrow_schema
            and self.description.constraints == other.description.constraints
            and self.description.comment == other.description.comment
            and self.has_statistics == other.has_statistics
        )


def _entry(request: Request, table: Table) -> _TableEntry:
    return _TableEntry(_describe(request.call, table), isinstance(table, StatisticsTable))


def _describe(call: Call, table: Table) -> TableDescription:
    if call.transaction_id is None and isinstance(table, HasDescription):
        return table.describe(call)
    constraints = table.constraints if isinstance(table, ConstrainedTable) else None
    return TableDescription(current_arrow_schema(call, table), table.comment, constraints)


def _info(path: TablePath, entry: _TableEntry, *, duckdb_types: bool = True) -> bytes:
    columns = entry.description.arrow_schema
    if duckdb_types:
        columns = schemas.to_duckdb_types(columns)
    with_metadata = schemas.add_airport_metadata(
        columns, entry.description.constraints, statistics=entry.has_statistics
    )
    address = descriptor.encode(TableAddress(path, schemas.fingerprint(columns)))
    return flights.encode_info(
        with_metadata,
        address,
        metadata=flights.app_metadata(path, entry.description.comment),
        total_records=None,
    )


def row_count(request: Request, table: Table, time_point: TimePoint | None) -> int | None:
    """Return the number of rows, or None if the table would have to be read for it."""
    if isinstance(table, VersionedTable):
        return table.snapshot(request.call, time_point).row_count
    return None


def pin_snapshot(
    request: Request, table: Table, address: TableAddress, time_point: TimePoint | None
) -> tuple[TimePoint | None, pa.Schema]:
    """Return the time point of the snapshot to work on and its columns.

    Raises PreconditionError if the client has cached other columns: it would misread the stream. Within
    a transaction the newest snapshot is tried too: the transaction's own ALTER carries no transaction id,
    so the transaction's snapshot may be older than the columns that the client knows.
    """
    calls = [request.call]
    if request.call.transaction_id is not None:
        calls.append(Call(request.call.principal))
    for call in calls:
        pin = time_point
        if isinstance(table, VersionedTable):
            snapshot = table.snapshot(call, time_point)
            pin, arrow_schema = snapshot.time_point, snapshot.arrow_schema
        else:
            arrow_schema = current_arrow_schema(call, table, time_point)
        columns, layout = _LAYOUTS.get(arrow_schema, duckdb_types=request.is_airport)
        if address.layout is None or time_point is not None or layout == address.layout:
            return pin, columns
    raise PreconditionError(
        f"the columns of table '{address.path}' have changed since it was attached;"
        " DETACH and ATTACH the database again to see them"
    )
