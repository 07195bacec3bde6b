"""A table as clients are shown it."""

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


@dataclass(frozen=True, slots=True)
class Found:
    """A table and the name of the schema it is in, as the server spells it."""

    schema: str
    table: Table


def shown_schema(request: Request, table: Table, time_point: TimePoint | None = None) -> pa.Schema:
    """Return the columns as this client should see them."""
    arrow_schema = current_arrow_schema(request.call, table, time_point)
    return schemas.present(arrow_schema) if request.is_airport else arrow_schema


def airport_info(request: Request, table: Table, catalog: str, schema: str) -> bytes:
    """Return the FlightInfo that the Airport client keeps as its entry of a table.

    Its descriptor tells later on which columns the client believes in.
    """
    return _info(TablePath(catalog, schema, table.name), _shown(request, table))


class TableInfos:
    """The FlightInfo messages that the Airport client keeps as its entries of tables.

    Making one takes longer than all else in a listing, and after a commit only one table is another.
    """

    def __init__(self) -> None:
        self._made: BoundedCache[TablePath, tuple[_Shown, bytes]] = BoundedCache(_MAX_INFOS)

    def get(self, request: Request, table: Table, catalog: str, schema: str) -> bytes:
        """Return the message of a table, made anew if it is shown otherwise than before."""
        path, shown = TablePath(catalog, schema, table.name), _shown(request, table)
        known = self._made.get(path)
        if known is not None and known[0].is_same(shown):
            return known[1]
        info = _info(path, shown)
        self._made.put(path, (shown, info))
        return info


@dataclass(frozen=True, slots=True)
class _Shown:
    """All that the message of a table is made of."""

    table: TableDescription
    has_statistics: bool

    def is_same(self, other: _Shown) -> bool:
        # Schemas are immutable. To compare two of them would take as long as to make the message.
        return (
            self.table.arrow_schema is other.table.arrow_schema
            and self.table.constraints == other.table.constraints
            and self.table.comment == other.table.comment
            and self.has_statistics == other.has_statistics
        )


def _shown(request: Request, table: Table) -> _Shown:
    return _Shown(_described(request.call, table), isinstance(table, StatisticsTable))


def _described(call: Call, table: Table) -> TableDescription:
    if call.transaction_id is None and isinstance(table, HasDescription):
        return table.describe(call)
    constraints = table.constraints if isinstance(table, ConstrainedTable) else None
    return TableDescription(current_arrow_schema(call, table), table.comment, constraints)


def _info(path: TablePath, shown: _Shown) -> bytes:
    columns = schemas.present(shown.table.arrow_schema)
    dressed = schemas.add_airport_metadata(columns, shown.table.constraints, statistics=shown.has_statistics)
    address = descriptor.encode(TableAddress(path, schemas.fingerprint(columns)))
    return flights.encode_info(
        dressed, address, metadata=flights.app_metadata(path, shown.table.comment), total_records=None
    )


def row_count(request: Request, table: Table, time_point: TimePoint | None) -> int | None:
    """Return the number of rows if the table knows it without reading."""
    if isinstance(table, VersionedTable):
        return table.snapshot(request.call, time_point).row_count
    return None


def pinned(
    request: Request, table: Table, address: TableAddress, time_point: TimePoint | None
) -> tuple[TimePoint | None, pa.Schema]:
    """Return the state to work on and its columns, making sure that the client knows them.

    A client that has cached other columns would misread the stream. Within a
    transaction the newest state is tried too: the transaction's own ALTER carries
    no id, so its snapshot may be older than the columns the client knows.
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
        columns = schemas.present(arrow_schema) if request.is_airport else arrow_schema
        if address.layout is None or time_point is not None or schemas.fingerprint(columns) == address.layout:
            return pin, columns
    raise PreconditionError(
        f"the columns of table '{address.path}' have changed since it was attached;"
        " DETACH and ATTACH the database again to see them"
    )
