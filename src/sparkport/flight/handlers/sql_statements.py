"""Run statements in SQL, prepared ones with parameters."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.sql import SqlDescription
from sparkport.flight.context import ServerContext
from sparkport.flight.prepared_statements import PreparedStatement
from sparkport.flight.request import Request
from sparkport.flight.statements import execution, session_changes
from sparkport.protocol import flights
from sparkport.protocol.flight_sql.actions import Prepare
from sparkport.protocol.flight_sql.commands import (
    PreparedQuery,
    PreparedUpdate,
    StatementQuery,
    StatementUpdate,
)
from sparkport.protocol.ipc.flight_data import Decoder

_NO_COLUMNS = pa.schema([])


def query(context: ServerContext, request: Request, command: StatementQuery, descriptor: bytes) -> bytes:
    """Describe a query, or run a statement that returns no rows."""
    call = request.call.in_transaction(command.transaction_id)
    statement = execution.statement_of(context, request, command.sql)
    if session_changes.is_session_change(statement.text):
        session_changes.change_session(context, request, statement.text)
        return flights.encode_info(_NO_COLUMNS, descriptor, total_records=0)
    return execution.flight_info(context, call, statement, None, descriptor)


def query_schema(context: ServerContext, request: Request, command: StatementQuery) -> pa.Schema:
    """Return the columns of a query, none for a statement that returns no rows; run nothing."""
    call = request.call.in_transaction(command.transaction_id)
    statement = execution.statement_of(context, request, command.sql)
    if session_changes.is_session_change(statement.text):
        return _NO_COLUMNS
    return execution.describe(context, call, statement).arrow_schema or _NO_COLUMNS


def update(context: ServerContext, request: Request, command: StatementUpdate) -> int:
    """Run a statement that returns no rows."""
    call = request.call.in_transaction(command.transaction_id)
    statement = execution.statement_of(context, request, command.sql)
    if session_changes.is_session_change(statement.text):
        session_changes.change_session(context, request, statement.text)
        return 0
    return execution.update(context, call, statement)


def prepare(context: ServerContext, request: Request, body: Prepare) -> tuple[bytes, SqlDescription]:
    """Prepare a statement; return its handle and what is known of it."""
    call = request.call.in_transaction(body.transaction_id)
    statement = execution.statement_of(context, request, body.sql)
    if session_changes.is_session_change(statement.text):
        session_changes.open_session(request)
        description = SqlDescription(None, _NO_COLUMNS)
    else:
        description = execution.describe(context, call, statement)
    prepared = PreparedStatement(statement, body.transaction_id, description)
    return context.prepared_statements.add(request.call.principal, prepared), description


def close(context: ServerContext, request: Request, handle: bytes) -> None:
    """Close a prepared statement; to do it twice is no error."""
    context.prepared_statements.close(request.call.principal, handle)


def bind(context: ServerContext, request: Request, command: PreparedQuery, incoming: Decoder | None) -> None:
    """Bind the parameters of a prepared statement."""
    _prepared(context, request, command.handle)
    parameters = None if incoming is None else execution.read_parameters(incoming)
    context.prepared_statements.bind(request.call.principal, command.handle, parameters)


def prepared_query(
    context: ServerContext, request: Request, command: PreparedQuery, descriptor: bytes
) -> bytes:
    """Describe a prepared query, or run a prepared statement that returns no rows."""
    prepared = _prepared(context, request, command.handle)
    if session_changes.is_session_change(prepared.statement.text):
        session_changes.change_session(context, request, prepared.statement.text)
        return flights.encode_info(_NO_COLUMNS, descriptor, total_records=0)
    call = request.call.in_transaction(prepared.transaction_id)
    return execution.flight_info(context, call, prepared.statement, prepared.parameters, descriptor)


def prepared_schema(context: ServerContext, request: Request, command: PreparedQuery) -> pa.Schema:
    """Return the columns of a prepared query."""
    return _prepared(context, request, command.handle).description.arrow_schema or _NO_COLUMNS


def prepared_update(
    context: ServerContext, request: Request, command: PreparedUpdate, incoming: Decoder | None
) -> int:
    """Run a prepared statement that returns no rows, for all rows of parameters as one statement."""
    prepared = _prepared(context, request, command.handle)
    if session_changes.is_session_change(prepared.statement.text):
        session_changes.change_session(context, request, prepared.statement.text)
        return 0
    call = request.call.in_transaction(prepared.transaction_id)
    parameters = prepared.parameters if incoming is None else execution.read_parameters(incoming)
    return execution.update(context, call, prepared.statement, parameters)


def _prepared(context: ServerContext, request: Request, handle: bytes) -> PreparedStatement:
    prepared = context.prepared_statements.get(request.call.principal, handle)
    request.access_log.text = prepared.statement.text
    return prepared
