"""Describe and run statements in SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa
from msgspec import structs

from sparkport.catalog.call import Call
from sparkport.catalog.sql import SqlCatalog, SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError, LimitExceededError, PreconditionError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.streams import Shaper, encoded
from sparkport.flight.request import Request
from sparkport.flight.transactions import active_in, statement_in
from sparkport.protocol import flights
from sparkport.protocol.flight_sql import sessions as sql_sessions
from sparkport.protocol.ipc.flight_data import Decoder
from sparkport.protocol.ticket import StatementTicket, Ticket
from sparkport.sql import CatalogSql

_MAX_PARAMETER_BYTES = 1 << 20  # of a query: they travel in its ticket
_SETTING = "spark.sql."  # settings that come as headers, as of connection strings of JDBC
_NO_COLUMNS = pa.schema([])


def statement_of(context: ServerContext, request: Request, sql: str) -> SqlStatement:
    """Return a statement in the session of a request. Raises InvalidRequestError for an empty text."""
    if not context.offers_sql:
        raise PreconditionError("SQL is switched off on this server (--no-sql)")
    if not sql.strip():
        raise InvalidRequestError("the statement is empty")
    request.access_log.text = sql
    session = sql_sessions.read_cookie(request.headers.get("cookie"))
    catalog = session.catalog or context.default_catalog(request)
    settings = session.settings | request.headers.starting_with(_SETTING)
    return SqlStatement(sql, catalog, session.schema, session.time_zone, settings=tuple(settings.items()))


def describe(
    context: ServerContext, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None = None
) -> SqlDescription:
    """Analyse a statement within the transaction of a call."""
    catalog = context.named_catalog(call, statement.catalog)
    with active_in(call, catalog), call.meter.step("plan"):
        return _sql(catalog).describe_sql(call, statement, parameters)


def update(
    context: ServerContext, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None = None
) -> int:
    """Run a statement that returns no rows, within the transaction of a call."""
    catalog = context.named_catalog(call, statement.catalog)
    with context.queue.place(call), statement_in(call, catalog):
        return _sql(catalog).update_sql(call, statement, parameters)


@contextlib.contextmanager
def query(context: ServerContext, call: Call, statement: SqlStatement) -> Iterator[pa.RecordBatchReader]:
    """Run a query within the transaction of a call, and give its rows to a block."""
    catalog = context.named_catalog(call, statement.catalog)
    with context.queue.place(call), active_in(call, catalog):
        reader = _sql(catalog).query_sql(call, statement, None)
        try:
            yield reader
        finally:
            reader.close()


def flight_info(
    context: ServerContext,
    call: Call,
    statement: SqlStatement,
    parameters: pa.RecordBatch | None,
    descriptor: bytes,
) -> bytes:
    """Return the FlightInfo of a statement: a query with the ticket that runs it.

    A statement that returns no rows runs now, exactly once; the info has no columns and tells the count.
    """
    description = describe(context, call, statement, parameters)
    if description.arrow_schema is None:
        count = update(context, call, statement, parameters)
        return flights.encode_info(_NO_COLUMNS, descriptor, total_records=count)
    ticket = StatementTicket(
        statement.text,
        statement.catalog,
        statement.schema,
        call.transaction_id,
        _encoded_parameters(parameters),
        statement.time_zone,
        settings=statement.settings,
    )
    tickets = [Ticket(None, statement=structs.replace(ticket, part=part)) for part in description.parts]
    endpoints = [
        flights.local_endpoint(context.signer.sign(ticket, call.principal), context.signer.expires)
        for ticket in tickets
    ]
    return flights.encode_info(
        description.arrow_schema, descriptor, endpoints=endpoints, is_ordered=len(endpoints) == 1
    )


def deliver(context: ServerContext, request: Request, ticket: StatementTicket, key: bytes) -> Iterator[bytes]:
    """Run the query of a ticket and stream its rows; `key` are the bytes of the ticket."""
    request.access_log.text = ticket.sql
    call = request.call.in_transaction(ticket.transaction_id)
    catalog = context.named_catalog(call, ticket.catalog)
    statement = SqlStatement(
        ticket.sql, ticket.catalog, ticket.schema, ticket.time_zone, ticket.part, ticket.settings
    )
    with context.running_queries.running(key, call), context.queue.place(call), active_in(call, catalog):
        reader = _sql(catalog).query_sql(call, statement, _decoded_parameters(ticket.parameters))
        try:
            yield from encoded(Shaper(reader.schema), call.counted(reader))
        finally:
            reader.close()


def read_parameters(incoming: Decoder) -> pa.RecordBatch | None:
    """Return the rows of parameters that a client has sent as one batch, None without any columns."""
    arrow_schema = incoming.arrow_schema
    batches = [batch for batch, _ in incoming]
    if not len(arrow_schema):
        return None
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], arrow_schema)


def _sql(catalog: Catalog) -> SqlCatalog | CatalogSql:
    return catalog if isinstance(catalog, SqlCatalog) else CatalogSql(catalog)


def _encoded_parameters(parameters: pa.RecordBatch | None) -> bytes:
    if parameters is None:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, parameters.schema) as writer:
        writer.write_batch(parameters)
    data = sink.getvalue().to_pybytes()
    if len(data) > _MAX_PARAMETER_BYTES:
        raise LimitExceededError(f"the parameters of a query have at most {_MAX_PARAMETER_BYTES} bytes")
    return bytes(data)


def _decoded_parameters(data: bytes) -> pa.RecordBatch | None:
    return pa.ipc.open_stream(data).read_next_batch() if data else None
