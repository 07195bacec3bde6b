"""Describe tables, plan scans and stream their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from msgspec import structs

from sparkport.catalog.dml import StatementTable
from sparkport.catalog.lookup import TablePath, find_column
from sparkport.catalog.rowid import rowid_name, without_rowid
from sparkport.catalog.scan import ClientCall, PlannedScan, TimePoint
from sparkport.catalog.tables import (
    ColumnStatistics,
    ReferenceTable,
    StatisticsTable,
    Table,
    VersionedTable,
)
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import InvalidRequestError, NotFoundError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions import calls
from sparkport.flight.presentation.streams import Shaper, encoded, scan_shaper
from sparkport.flight.presentation.tables import client_schema, pin_snapshot, row_count
from sparkport.flight.request import Request
from sparkport.flight.scan_plans import scan_options
from sparkport.flight.statistics_cache import StatisticsKey
from sparkport.protocol import descriptor, flights, schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.airport import predicates, statistics
from sparkport.protocol.airport.requests import EndpointsRequest, FlightInfoRequest, StatisticsRequest
from sparkport.protocol.descriptor import DatabasesAddress, FunctionAddress, TableAddress
from sparkport.protocol.ipc.counted_rows import counted_rows
from sparkport.protocol.json_dialect.requests import NamedEndpointsRequest
from sparkport.protocol.ticket import Ticket

_ROWID = (1 << 64) - 1
_COUNTED_ROWS = 16 << 20  # of an endpoint, of which each is read by one thread of DuckDB's
_MAX_COUNTED_PARTS = 64
_NULL = pa.nulls(1)[0]  # pa.scalar would import pandas, which takes longer than all the rest
_NO_STATISTICS = ColumnStatistics(_NULL, _NULL, has_null=True, has_not_null=True, distinct_count=0)
_DATABASES_SCHEMA = pa.schema([("name", pa.string()), ("description", pa.string())])


def flight_info(context: ServerContext, request: Request, body: FlightInfoRequest) -> bytes:
    """Describe a table, optionally at a time point, under the descriptor of the request.

    It does not offer statistics: the client would ask for them without the time point.
    """
    address = _table_address(context, request, body.descriptor)
    table = context.table(request, address.path)
    path = TablePath(address.path.catalog, address.path.schema, table.name)
    return flights.encode_info(
        schemas.add_airport_metadata(client_schema(request, table, body.time_point), None, statistics=False),
        body.descriptor,
        metadata=flights.app_metadata(path, table.comment),
        total_records=row_count(request, table, body.time_point),
    )


def endpoints(context: ServerContext, request: Request, body: EndpointsRequest) -> bytes:
    """Plan a scan: pin the snapshot, keep columns and filter, split it into slices."""
    address = descriptor.decode(body.descriptor, context.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        return flights.encode_endpoints(_signed_endpoints(context, request, [Ticket(None)]))
    if isinstance(address, FunctionAddress):
        predicates.decode(body.filters)
        return flights.encode_endpoints(
            _signed_endpoints(context, request, [_call(context, request, address, body)])
        )
    table = context.table(request, address.path)
    pin, columns = pin_snapshot(request, table, address, body.time_point)
    names = _column_names(columns, body.column_ids)
    ticket = _ticket(request, address, pin, names, body.filters)
    counted = _row_counts(request, table, pin, ticket)
    if counted:
        return flights.encode_endpoints(_signed_endpoints(context, request, counted))
    if isinstance(table, ReferenceTable) and request.is_airport:
        client_calls = table.client_calls(request.call, scan_options(ticket))
        return flights.encode_endpoints(_client_calls(context, request, client_calls, ticket))
    plan = context.plans.get(request.call, table, ticket)
    direct = plan.direct_reads(request.call) if request.is_airport else None
    if direct is None:
        return flights.encode_endpoints(_signed_endpoints(context, request, _slices(plan, ticket)))
    parts = _client_calls(context, request, direct.calls, ticket)
    if direct.rest is not None:
        rest = _slices(direct.rest, structs.replace(ticket, is_rest=True))
        parts += _signed_endpoints(context, request, rest)
    return flights.encode_endpoints(parts)


def _call(
    context: ServerContext, request: Request, address: FunctionAddress, body: EndpointsRequest
) -> Ticket:
    """Return the ticket that calls a table function."""
    run = calls.function_call(context, request, address, body.parameters)
    columns = schemas.to_duckdb_types(run.arrow_schema(request.call))
    return Ticket(
        address.path,
        _column_names(columns, body.column_ids),
        body.filters,
        duckdb_types=request.is_airport,
        function=True,
        parameters=body.parameters,
        form=address.form,
    )


def named_endpoints(context: ServerContext, request: Request, body: NamedEndpointsRequest) -> bytes:
    """Plan a scan of a table by name; each endpoint carries the Arrow schema of the snapshot."""
    address = TableAddress(TablePath(context.default_catalog(request), body.schema, body.table))
    table = context.table(request, address.path)
    pin, columns = pin_snapshot(request, table, address, body.time_point)
    ticket = _ticket(request, address, pin)
    tickets = _slices(context.plans.get(request.call, table, ticket), ticket)
    return flights.encode_endpoints(_signed_endpoints(context, request, tickets, schemas.encode(columns)))


def column_statistics(context: ServerContext, request: Request, body: StatisticsRequest) -> bytes:
    """Return exact statistics of a column in the snapshot that the transaction reads."""
    address = _table_address(context, request, body.descriptor)
    table = context.table(request, address.path)
    if not isinstance(table, StatisticsTable):
        raise UnsupportedOperationError("table", table.name, "column statistics")
    pin, columns = pin_snapshot(request, table, address, None)
    field = columns.field(find_column(columns, body.column))
    if not isinstance(table, VersionedTable) or pin is None:
        return statistics.encode(table.column_statistics(request.call, field.name), field)
    key = StatisticsKey(request.call.principal, pin, field.name, request.is_airport)
    cached = context.statistics.get(table, key)
    if cached is not None:
        return cached
    if table.snapshot(request.call, None).time_point != pin:
        return statistics.encode(_NO_STATISTICS, field)  # the scan will read the newer columns of an ALTER
    answer = statistics.encode(table.column_statistics(request.call, field.name), field)
    # Without a transaction a commit may have come in between: then they are those of a later snapshot.
    if table.snapshot(request.call, None).time_point == pin:
        context.statistics.put(table, key, answer)
    return answer


def get_flight_info(context: ServerContext, request: Request, data: bytes) -> bytes:
    """Describe a table and plan a scan of all its rows."""
    address = descriptor.decode(data, context.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        parts = _signed_endpoints(context, request, [Ticket(None)])
        return flights.encode_info(_DATABASES_SCHEMA, data, endpoints=parts)
    if isinstance(address, FunctionAddress):
        raise InvalidRequestError(
            "the descriptor names a function; describe it with the action table_function_flight_info"
        )
    table = context.table(request, address.path)
    pin, columns = pin_snapshot(request, table, address, None)
    ticket = _ticket(request, address, pin)
    plan = context.plans.get(request.call, table, ticket)
    path = replace(address.path, catalog=address.path.catalog or context.catalogs.default, table=table.name)
    version = pin.value if pin is not None and isinstance(table, StatementTable) else None
    return flights.encode_info(
        schemas.add_airport_metadata(columns, None, statistics=False),
        data,
        metadata=flights.app_metadata(path, table.comment, version),
        endpoints=_signed_endpoints(context, request, _slices(plan, ticket)),
        total_records=row_count(request, table, pin),
    )


def get_schema(context: ServerContext, request: Request, data: bytes) -> bytes:
    """Return the Arrow schema of a table as an IPC message."""
    address = descriptor.decode(data, context.default_catalog(request))
    if isinstance(address, DatabasesAddress):
        return schemas.encode(_DATABASES_SCHEMA)
    if isinstance(address, FunctionAddress):
        raise InvalidRequestError(
            "the descriptor names a function; describe it with the action table_function_flight_info"
        )
    return schemas.encode(client_schema(request, context.table(request, address.path)))


def do_get(context: ServerContext, request: Request, ticket: Ticket) -> Iterator[bytes]:
    """Stream the rows of a ticket."""
    if ticket.path is None:
        yield from encoded(Shaper(_DATABASES_SCHEMA), [_databases(context, request)])
        return
    request.access_log.add_path(ticket.path.catalog, ticket.path.schema, ticket.path.table)
    if ticket.function:
        with context.queue.place(request.call):
            yield from calls.deliver(context, request, ticket)
        return
    with context.queue.place(request.call):
        yield from _scan(context, request, ticket.path, ticket)


def _scan(context: ServerContext, request: Request, path: TablePath, ticket: Ticket) -> Iterator[bytes]:
    call = request.call
    table = context.table(request, path)
    if ticket.row_count is not None and _may_count(context, request, table, ticket):
        yield from _placeholder_rows(request, table, ticket, ticket.row_count)
        return
    request.access_log.columns = ticket.columns
    plan = context.plans.get(call, table, ticket)
    arrow_schema = plan.arrow_schema(call)
    sent = schemas.to_duckdb_types(arrow_schema) if ticket.duckdb_types else arrow_schema
    shaper = scan_shaper(sent, ticket.columns, UserCodeBoundary(call, "table", table.name))
    reader = plan.read(call, ticket.slice)
    try:
        yield from encoded(shaper, call.counted(reader))
    finally:
        reader.close()


def _table_address(context: ServerContext, request: Request, data: bytes) -> TableAddress:
    address = descriptor.decode(data, context.default_catalog(request))
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
    return Ticket(address.path, columns, filters, unit, value, duckdb_types=request.is_airport)


def _row_counts(request: Request, table: Table, pin: TimePoint | None, ticket: Ticket) -> list[Ticket]:
    """Return tickets for the number of rows alone, if the client only counts them and the number is known."""
    is_count = len(ticket.columns or ()) == 1 and predicates.refers_to_nothing(ticket.filters)
    count = row_count(request, table, pin) if request.is_airport and pin and is_count else None
    if count is None:
        return []
    parts = min(max(1, count // _COUNTED_ROWS), _MAX_COUNTED_PARTS)
    cuts = [count * number // parts for number in range(parts + 1)]
    return [structs.replace(ticket, row_count=stop - start) for start, stop in itertools.pairwise(cuts)]


def _may_count(context: ServerContext, request: Request, table: Table, ticket: Ticket) -> bool:
    """Return whether the caller may know the number of rows, which may be otherwise since the ticket."""
    return context.policies is None or row_count(request, table, ticket.time_point) is not None


def _placeholder_rows(request: Request, table: Table, ticket: Ticket, count: int) -> Iterator[bytes]:
    """Return rows without values for the one column that the client asked for to count them."""
    columns = client_schema(request, table, ticket.time_point)
    assert ticket.columns
    position = columns.get_field_index(ticket.columns[0])
    request.call.meter.rows_out += count
    return request.call.checked(counted_rows(columns, position, count))


def _slices(plan: PlannedScan, ticket: Ticket) -> list[Ticket]:
    count = plan.slice_count
    return [structs.replace(ticket, slice_index=index, slice_count=count) for index in range(count)]


def _client_calls(
    context: ServerContext, request: Request, client_calls: Sequence[ClientCall], ticket: Ticket
) -> list[pb.FlightEndpoint]:
    """Return endpoints that name the DuckDB functions which the Airport client calls instead."""
    signed = context.signer.sign(ticket, request.call.principal)
    return [flights.endpoint(signed, flights.call_location(client_call)) for client_call in client_calls]


def _signed_endpoints(
    context: ServerContext, request: Request, tickets: list[Ticket], app_metadata: bytes = b""
) -> list[pb.FlightEndpoint]:
    principal = request.call.principal
    return [
        flights.endpoint(context.signer.sign(ticket, principal), context.endpoint_location, app_metadata)
        for ticket in tickets
    ]


def _databases(context: ServerContext, request: Request) -> pa.RecordBatch:
    names = [name for name, _ in context.visible_catalogs(request.call)]
    columns = [pa.array(names, pa.string()), pa.nulls(len(names), pa.string())]
    return pa.record_batch(columns, schema=_DATABASES_SCHEMA)
