"""Reading tables: describe, plan, deliver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from msgspec import structs

from sparkport.catalog.dml import StatementTable
from sparkport.catalog.guard import Guard
from sparkport.catalog.lookup import TablePath, find_column
from sparkport.catalog.rowid import rowid_name, without_rowid
from sparkport.catalog.scan import PlannedScan, TimePoint
from sparkport.catalog.tables import (
    ColumnStatistics,
    ReferenceTable,
    StatisticsTable,
    VersionedTable,
)
from sparkport.errors import InvalidRequestError, NotFoundError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions import calls
from sparkport.flight.presentation.streams import Shaper, encoded, scan_shaper
from sparkport.flight.presentation.tables import pinned, row_count, shown_schema
from sparkport.flight.request import Request
from sparkport.flight.scan_plans import scan_options
from sparkport.protocol import descriptor, flights, predicates, schemas, statistics
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.descriptor import DatabasesAddress, FunctionAddress, TableAddress
from sparkport.protocol.json_requests import NamedEndpointsRequest
from sparkport.protocol.requests import EndpointsRequest, FlightInfoRequest, StatisticsRequest
from sparkport.protocol.ticket import Ticket

_ROWID = (1 << 64) - 1
_NULL = pa.nulls(1)[0]  # pa.scalar would import pandas, which takes longer than all the rest
_UNKNOWN = ColumnStatistics(_NULL, _NULL, has_null=True, has_not_null=True, distinct_count=0)
_DATABASES_SCHEMA = pa.schema([("name", pa.string()), ("description", pa.string())])


def flight_info(site: ServerContext, request: Request, wanted: FlightInfoRequest) -> bytes:
    """Describe a table, perhaps at a point in time, with the descriptor that was sent.

    No statistics are offered: the client would ask for them without the time.
    """
    address = _table_address(site, request, wanted.descriptor)
    table = site.table(request, address.path)
    schema = TablePath(address.path.catalog, address.path.schema, table.name)
    return flights.encode_info(
        schemas.add_airport_metadata(shown_schema(request, table, wanted.time_point), None, statistics=False),
        wanted.descriptor,
        metadata=flights.app_metadata(schema, table.comment),
        total_records=row_count(request, table, wanted.time_point),
    )


def endpoints(site: ServerContext, request: Request, wanted: EndpointsRequest) -> bytes:
    """Plan a scan: pin the state, keep columns and filter, cut it into parts."""
    address = descriptor.decode(wanted.descriptor, site.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        return flights.encode_endpoints(_seal(site, request, [Ticket(None)]))
    if isinstance(address, FunctionAddress):
        predicates.decode(wanted.filters)
        return flights.encode_endpoints(_seal(site, request, [_call(site, request, address, wanted)]))
    table = site.table(request, address.path)
    pin, columns = pinned(request, table, address, wanted.time_point)
    names = _column_names(columns, wanted.column_ids)
    ticket = _ticket(request, address, pin, names, wanted.filters)
    if isinstance(table, ReferenceTable) and request.is_airport:
        return flights.encode_endpoints(_references(site, request, table, ticket))
    plan = site.plans.get(request.call, table, ticket)
    return flights.encode_endpoints(
        [
            flights.endpoint(
                site.sealer.seal(part, request.call.principal), _location(site, request, plan, part)
            )
            for part in _slices(plan, ticket)
        ]
    )


def _call(
    site: ServerContext, request: Request, address: FunctionAddress, wanted: EndpointsRequest
) -> Ticket:
    """Return the ticket that calls a table function."""
    run = calls.prepared(site, request, address, wanted.parameters)
    columns = schemas.present(run.arrow_schema(request.call))
    return Ticket(
        address.path,
        _column_names(columns, wanted.column_ids),
        wanted.filters,
        presented=request.is_airport,
        function=True,
        parameters=wanted.parameters,
        form=address.form,
    )


def named_endpoints(site: ServerContext, request: Request, wanted: NamedEndpointsRequest) -> bytes:
    """Plan a scan of a table by name; each endpoint also tells the schema of that time."""
    address = TableAddress(TablePath(site.default_catalog(request), wanted.schema, wanted.table))
    table = site.table(request, address.path)
    pin, columns = pinned(request, table, address, wanted.time_point)
    ticket = _ticket(request, address, pin)
    tickets = _slices(site.plans.get(request.call, table, ticket), ticket)
    return flights.encode_endpoints(_seal(site, request, tickets, schemas.encode(columns)))


def column_statistics(site: ServerContext, request: Request, wanted: StatisticsRequest) -> bytes:
    """Return exact statistics of a column, for the state that the transaction reads."""
    address = _table_address(site, request, wanted.descriptor)
    table = site.table(request, address.path)
    if not isinstance(table, StatisticsTable):
        raise UnsupportedOperationError("table", table.name, "column statistics")
    pin, columns = pinned(request, table, address, None)
    field = columns.field(find_column(columns, wanted.column))
    if isinstance(table, VersionedTable) and table.snapshot(request.call, None).time_point != pin:
        return statistics.encode(_UNKNOWN, field)  # the scan will read what an ALTER has made since
    return statistics.encode(table.column_statistics(request.call, field.name), field)


def get_flight_info(site: ServerContext, request: Request, data: bytes) -> bytes:
    """Answer GetFlightInfo: describe a table and plan a scan of all of it."""
    address = descriptor.decode(data, site.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        parts = _seal(site, request, [Ticket(None)])
        return flights.encode_info(_DATABASES_SCHEMA, data, endpoints=parts)
    if isinstance(address, FunctionAddress):
        raise InvalidRequestError("the descriptor names a function; ask with table_function_flight_info")
    table = site.table(request, address.path)
    pin, columns = pinned(request, table, address, None)
    ticket = _ticket(request, address, pin)
    plan = site.plans.get(request.call, table, ticket)
    path = replace(address.path, catalog=address.path.catalog or site.catalogs.default, table=table.name)
    version = pin.value if pin is not None and isinstance(table, StatementTable) else None
    return flights.encode_info(
        schemas.add_airport_metadata(columns, None, statistics=False),
        data,
        metadata=flights.app_metadata(path, table.comment, version),
        endpoints=_seal(site, request, _slices(plan, ticket)),
        total_records=row_count(request, table, pin),
    )


def get_schema(site: ServerContext, request: Request, data: bytes) -> bytes:
    """Answer GetSchema."""
    address = descriptor.decode(data, site.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        return schemas.encode(_DATABASES_SCHEMA)
    if isinstance(address, FunctionAddress):
        raise InvalidRequestError("the descriptor names a function; ask with table_function_flight_info")
    return schemas.encode(shown_schema(request, site.table(request, address.path)))


def do_get(site: ServerContext, request: Request, sealed: bytes) -> Iterator[bytes]:
    """Deliver the rows of a ticket."""
    ticket = site.sealer.open(sealed, request.call.principal)
    if ticket.path is None:
        yield from encoded(Shaper(_DATABASES_SCHEMA), [_databases(site)])
        return
    request.note.add_path(ticket.path.catalog, ticket.path.schema, ticket.path.table)
    if ticket.function:
        yield from calls.deliver(site, request, ticket)
        return
    call = request.call
    table = site.table(request, ticket.path)
    plan = site.plans.get(call, table, ticket)
    arrow_schema = plan.arrow_schema(call)
    shown = schemas.present(arrow_schema) if ticket.presented else arrow_schema
    shaper = scan_shaper(shown, ticket.columns, Guard(call, "table", table.name))
    reader = plan.read(call, ticket.slice)
    try:
        yield from encoded(shaper, call.checked(reader))
    finally:
        reader.close()


def _table_address(site: ServerContext, request: Request, data: bytes) -> TableAddress:
    address = descriptor.decode(data, site.default_catalog(request))
    if not isinstance(address, TableAddress):
        raise InvalidRequestError("the descriptor does not name a table")
    return address


def _column_names(columns: pa.Schema, ids: tuple[int, ...]) -> tuple[str, ...]:
    visible = without_rowid(columns).names
    rowid = rowid_name(columns)
    names: dict[str, None] = {}
    for index in ids:
        if index == _ROWID and rowid is not None:
            names[rowid] = None
        elif 0 <= index < len(visible):
            names[visible[index]] = None
        else:
            raise NotFoundError("column id", str(index))
    return tuple(names)


def _ticket(
    request: Request,
    address: TableAddress,
    pin: TimePoint | None,
    columns: tuple[str, ...] | None = None,
    filters: bytes = b"",
) -> Ticket:
    unit, value = (pin.unit, pin.value) if pin else (None, "")
    return Ticket(address.path, columns, filters, unit, value, presented=request.is_airport)


def _slices(plan: PlannedScan, ticket: Ticket) -> list[Ticket]:
    count = plan.slice_count
    return [structs.replace(ticket, slice_index=index, slice_count=count) for index in range(count)]


def _location(site: ServerContext, request: Request, plan: PlannedScan, ticket: Ticket) -> str:
    """Return where the Airport client gets a slice: from this server, or from the table's files."""
    files = plan.direct_files(request.call, ticket.slice) if request.is_airport else None
    return flights.parquet_location(files) if files else site.endpoint_location


def _references(
    site: ServerContext, request: Request, table: ReferenceTable, ticket: Ticket
) -> list[pb.FlightEndpoint]:
    """Return endpoints that tell the Airport client which of its own functions to call."""
    sealed = site.sealer.seal(ticket, request.call.principal)
    return [
        flights.endpoint(sealed, flights.call_location(one))
        for one in table.client_calls(request.call, scan_options(ticket))
    ]


def _seal(
    site: ServerContext, request: Request, tickets: list[Ticket], app_metadata: bytes = b""
) -> list[pb.FlightEndpoint]:
    principal = request.call.principal
    return [
        flights.endpoint(site.sealer.seal(ticket, principal), site.endpoint_location, app_metadata)
        for ticket in tickets
    ]


def _databases(site: ServerContext) -> pa.RecordBatch:
    names = [name for name, _ in site.catalogs.items()]
    columns = [pa.array(names, pa.string()), pa.nulls(len(names), pa.string())]
    return pa.record_batch(columns, schema=_DATABASES_SCHEMA)
