"""Flight SQL: which handler answers each command of a flight descriptor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.flight.context import ServerContext
from sparkport.flight.handlers import metadata, sql_ingest, sql_metadata, sql_statements
from sparkport.flight.presentation.streams import Shaper, encoded
from sparkport.flight.request import Request
from sparkport.flight.statements import execution
from sparkport.protocol import descriptor, flights, schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.flight_sql import actions
from sparkport.protocol.flight_sql import commands as sql_commands
from sparkport.protocol.flight_sql import result_schemas as sql_schemas
from sparkport.protocol.flight_sql.commands import (
    Command,
    GetCatalogs,
    GetDbSchemas,
    GetForeignKeys,
    GetPrimaryKeys,
    GetSqlInfo,
    GetTables,
    GetTableTypes,
    GetTypeInfo,
    Ingest,
    MetadataCommand,
    PreparedQuery,
    PreparedUpdate,
    StatementQuery,
    StatementUpdate,
)
from sparkport.protocol.ipc.flight_data import Decoder, FlightData
from sparkport.protocol.json_dialect.requests import MetadataRequest
from sparkport.protocol.ticket import Ticket

_EVERYTHING = MetadataRequest()

_METADATA: dict[type, Callable[[ServerContext, Request, Any], pa.Table]] = {
    GetCatalogs: lambda context, request, _: metadata.catalogs(context, request, _EVERYTHING),
    GetDbSchemas: lambda context, request, command: metadata.db_schemas(context, request, command.filters),
    GetTables: lambda context, request, command: metadata.tables(context, request, command.filters),
    GetTableTypes: lambda context, request, _: metadata.table_types(context, request, _EVERYTHING),
    GetPrimaryKeys: sql_metadata.primary_keys,
    GetForeignKeys: sql_metadata.foreign_keys,
    GetSqlInfo: sql_metadata.sql_info,
    GetTypeInfo: sql_metadata.type_info,
}
# The specification orders the rows of a listing by its columns from left to right.
_LISTINGS = (GetCatalogs, GetDbSchemas, GetTables, GetTableTypes, GetPrimaryKeys)
_SORTED_COLUMNS = 4


def command_of(data: bytes) -> Command | None:
    """Return the command of a serialized flight descriptor, None for one of another dialect."""
    message = descriptor.parse(data)
    return sql_commands.decode(message.cmd) if message.type == pb.FlightDescriptor.CMD else None


def get_flight_info(context: ServerContext, request: Request, command: Command, data: bytes) -> bytes:
    """Describe the answer to a command, and give out the ticket for it."""
    request.access_log.add(operation=type(command).__name__)
    match command:
        case StatementQuery():
            return sql_statements.query(context, request, command, data)
        case PreparedQuery():
            return sql_statements.prepared_query(context, request, command, data)
        case StatementUpdate() | PreparedUpdate() | Ingest():
            raise _only_for_do_put(command)
        case _:
            signed = context.signer.sign(
                Ticket(None, command=descriptor.parse(data).cmd), request.call.principal
            )
            endpoint = flights.local_endpoint(signed, context.signer.expires)
            return flights.encode_info(sql_schemas.answer_schema(command), data, endpoints=[endpoint])


def get_schema(context: ServerContext, request: Request, command: Command) -> bytes:
    """Return the columns of the answer to a command."""
    request.access_log.add(operation=type(command).__name__)
    match command:
        case StatementQuery():
            return schemas.encode(sql_statements.query_schema(context, request, command))
        case PreparedQuery():
            return schemas.encode(sql_statements.prepared_schema(context, request, command))
        case StatementUpdate() | PreparedUpdate() | Ingest():
            raise _only_for_do_put(command)
        case _:
            return schemas.encode(sql_schemas.answer_schema(command))


def do_get(context: ServerContext, request: Request, ticket: Ticket, key: bytes) -> Iterator[bytes]:
    """Stream the answer to the command or statement of a ticket, whose bytes are its `key`."""
    if ticket.statement is not None:
        request.access_log.add(operation=StatementQuery.__name__)
        yield from execution.deliver(context, request, ticket.statement, key)
        return
    command = sql_commands.decode(ticket.command)
    request.access_log.add(operation=type(command).__name__)
    if not isinstance(command, MetadataCommand):
        raise InvalidRequestError("the ticket is not one of this server")
    arrow_schema = sql_schemas.answer_schema(command)
    answer = _METADATA[type(command)](context, request, command)
    if isinstance(command, _LISTINGS):
        answer = answer.sort_by([(name, "ascending") for name in arrow_schema.names[:_SORTED_COLUMNS]])
    yield from encoded(Shaper(arrow_schema), answer.cast(arrow_schema).to_batches())


def do_put(
    context: ServerContext, request: Request, command: Command, frames: Iterator[FlightData]
) -> Iterator[bytes]:
    """Run a statement that changes rows, or bind parameters; answer with one PutResult."""
    request.access_log.add(operation=type(command).__name__)
    match command:
        case StatementUpdate():
            yield actions.encode_count(sql_statements.update(context, request, command))
        case PreparedQuery():
            sql_statements.bind(context, request, command, _rows(context, request, frames))
            yield actions.encode_bound(command.handle)
        case PreparedUpdate():
            incoming = _rows(context, request, frames)
            yield actions.encode_count(sql_statements.prepared_update(context, request, command, incoming))
        case Ingest():
            incoming = _rows(context, request, frames)
            if incoming is None:
                raise InvalidRequestError("an ingest needs a stream of rows")
            yield actions.encode_count(sql_ingest.ingest(context, request, command, incoming))
        case _:
            raise InvalidRequestError(f"the command {type(command).__name__} is not one for DoPut")


def _rows(context: ServerContext, request: Request, frames: Iterator[FlightData]) -> Decoder | None:
    """Return the rows of a stream, None for one that has only a descriptor."""
    for frame in frames:
        if len(frame.header):
            messages = itertools.chain([frame], frames)
            return Decoder(
                messages, context.stream_limits, request.incoming.resize, request.call.meter.add_rows_in
            )
    return None


def _only_for_do_put(command: Command) -> InvalidRequestError:
    return InvalidRequestError(f"the command {type(command).__name__} is one for DoPut")
