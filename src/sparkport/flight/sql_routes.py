"""Flight SQL: which handler answers each command of a flight descriptor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.flight.context import ServerContext
from sparkport.flight.handlers import metadata, sql_metadata
from sparkport.flight.presentation.streams import Shaper, encoded
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights, schemas, sql_commands, sql_schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.json_requests import MetadataRequest
from sparkport.protocol.sql_commands import (
    Command,
    GetCatalogs,
    GetDbSchemas,
    GetForeignKeys,
    GetPrimaryKeys,
    GetSqlInfo,
    GetTables,
    GetTableTypes,
    GetTypeInfo,
    MetadataCommand,
)
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
    if not isinstance(command, MetadataCommand):
        raise NotImplementedByServerError("SQL is not offered")
    ticket = Ticket(None, command=descriptor.parse(data).cmd)
    signed = context.signer.sign(ticket, request.call.principal)
    return flights.encode_info(
        sql_schemas.answer_schema(command), data, endpoints=[flights.local_endpoint(signed)]
    )


def get_schema(context: ServerContext, request: Request, command: Command) -> bytes:
    """Return the columns of the answer to a command."""
    del context
    request.access_log.add(operation=type(command).__name__)
    if not isinstance(command, MetadataCommand):
        raise NotImplementedByServerError("SQL is not offered")
    return schemas.encode(sql_schemas.answer_schema(command))


def do_get(context: ServerContext, request: Request, ticket: Ticket) -> Iterator[bytes]:
    """Stream the answer to the command of a ticket."""
    command = sql_commands.decode(ticket.command)
    request.access_log.add(operation=type(command).__name__)
    if not isinstance(command, MetadataCommand):
        raise InvalidRequestError("the ticket is not one of this server")
    arrow_schema = sql_schemas.answer_schema(command)
    answer = _METADATA[type(command)](context, request, command)
    if isinstance(command, _LISTINGS):
        answer = answer.sort_by([(name, "ascending") for name in arrow_schema.names[:_SORTED_COLUMNS]])
    yield from encoded(Shaper(arrow_schema), answer.cast(arrow_schema).to_batches())
