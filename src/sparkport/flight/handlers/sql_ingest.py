"""Write the rows that a client sends to a table: Flight SQL's bulk ingest."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from sparkport.arrow.conform import conform_batch
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateTableOptions,
    DropTableOptions,
    DynamicSchema,
    OnConflict,
)
from sparkport.catalog.dml import committed
from sparkport.catalog.lookup import current_arrow_schema, find_schema, find_table, only_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import Catalog, Schema, Table
from sparkport.errors import AlreadyExistsError, NotFoundError, SparkportError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.request import Request
from sparkport.flight.transactions import statement_in
from sparkport.protocol.flight_sql import sessions as sql_sessions
from sparkport.protocol.flight_sql.commands import Ingest
from sparkport.protocol.ipc.flight_data import Decoder
from sparkport.toolkit import buffered
from sparkport.toolkit.replacing import replace_table, staged_name

_DEFAULT_SCHEMAS = ("default", "main")


def ingest(context: ServerContext, request: Request, command: Ingest, incoming: Decoder) -> int:
    """Create, replace or extend a table with the rows of a stream; return how many there were."""
    session = sql_sessions.read_cookie(request.headers.get("cookie"))
    catalog = context.catalog(request, command.catalog or session.catalog)
    call = request.call.in_transaction(command.transaction_id)
    with statement_in(call, catalog):
        schema = _schema(call, catalog, command.schema or session.schema)
        request.access_log.add_path(command.catalog, schema.name, command.table)
        return _write(request, call, schema, command, incoming)


def _write(request: Request, call: Call, schema: Schema, command: Ingest, incoming: Decoder) -> int:
    existing = schema.table(call, command.table)
    if existing is None:
        if not command.may_create:
            find_table(call, schema, command.table)  # says what is there instead
            raise NotFoundError("table", f"{schema.name}.{command.table}")
        return _create(request, call, _dynamic(schema), command.table, incoming)
    match command.on_conflict:
        case OnConflict.ERROR:
            raise AlreadyExistsError("table", f"{schema.name}.{command.table}")
        case OnConflict.IGNORE:
            return _append(request, call, existing, incoming)
        case OnConflict.REPLACE:
            return _replace(request, call, _dynamic(schema), existing.name, incoming)


def _append(request: Request, call: Call, table: Table, incoming: Decoder) -> int:
    """Add the rows as one statement, if the client is still there at its end."""
    columns = without_rowid(current_arrow_schema(call, table))
    statement = buffered.begin_insert(call, table, returning=False)
    with committed(request.call, statement, request.check_alive) as outcome:
        conform_batch(pa.RecordBatch.from_pylist([], incoming.arrow_schema), columns)
        for batch, _ in incoming:
            statement.write(conform_batch(batch, columns))
    return outcome.affected_rows


def _create(request: Request, call: Call, schema: DynamicSchema, name: str, incoming: Decoder) -> int:
    """Create a table with the rows; drop it again if they fail."""
    table = schema.create_table(call, name, incoming.arrow_schema.remove_metadata(), CreateTableOptions())
    try:
        return _append(request, call, table, incoming)
    except BaseException:
        with suppress(SparkportError):  # the first error tells more
            schema.drop_table(call.detached(), name, DropTableOptions(ignore_not_found=True))
        raise


def _replace(request: Request, call: Call, schema: DynamicSchema, name: str, incoming: Decoder) -> int:
    """Write the rows to a new table, and let it take the place of the old one when they are all there."""
    staged = staged_name(name)
    count = _create(request, call, schema, staged, incoming)
    replace_table(call, schema, staged, name)
    return count


def _schema(call: Call, catalog: Catalog, name: str) -> Schema:
    if name:
        return find_schema(call, catalog, name)
    schemas = list(catalog.schemas(call))
    named = [schema for schema in schemas if schema.name.lower() in _DEFAULT_SCHEMAS]
    if named:
        return min(named, key=lambda schema: schema.name.lower())
    only = only_schema(schemas)
    if only is not None:
        return only
    raise NotFoundError("schema", _DEFAULT_SCHEMAS[0], [schema.name for schema in schemas])


def _dynamic(schema: Schema) -> DynamicSchema:
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedOperationError("schema", schema.name, "CREATE TABLE")
    return schema
