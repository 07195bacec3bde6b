"""Create, drop and alter schemas and tables."""

from __future__ import annotations

from sparkport.catalog.ddl import DynamicCatalog, DynamicSchema, DynamicTable, OnConflict
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.tables import Schema
from sparkport.errors import AlreadyExistsError, NotFoundError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.tables import LocatedTable
from sparkport.flight.request import Request
from sparkport.protocol.airport.requests import (
    AlterTableRequest,
    CreateSchemaRequest,
    CreateTableRequest,
    DropSchemaRequest,
    DropTableRequest,
)
from sparkport.protocol.json_dialect.requests import JsonCreateSchemaRequest
from sparkport.protocol.schemas import to_duckdb_types


def create_schema(context: ServerContext, request: Request, body: CreateSchemaRequest) -> Schema:
    """Create a schema."""
    catalog = _dynamic_catalog(context, request, body.catalog, "CREATE SCHEMA")
    return catalog.create_schema(request.call, body.schema, body.options)


def create_schema_if_missing(
    context: ServerContext, request: Request, body: JsonCreateSchemaRequest
) -> Schema | None:
    """Create a schema; with `if_not_exists` an existing one is no error."""
    try:
        return create_schema(context, request, body.request)
    except AlreadyExistsError:
        if body.if_not_exists:
            return None
        raise


def drop_schema(context: ServerContext, request: Request, body: DropSchemaRequest) -> int:
    """Drop a schema and return how many tables were dropped with it."""
    catalog = _dynamic_catalog(context, request, body.catalog, "DROP SCHEMA")
    return catalog.drop_schema(request.call, body.schema, body.options)


def create_airport_table(context: ServerContext, request: Request, body: CreateTableRequest) -> LocatedTable:
    """Create a table whose columns the answer can show to the client."""
    if request.is_airport:
        to_duckdb_types(body.arrow_schema)
    return create_table(context, request, body)


def create_table(context: ServerContext, request: Request, body: CreateTableRequest) -> LocatedTable:
    """Create a table."""
    schema = find_schema(request.call, context.catalog(request, body.catalog), body.schema)
    table = _dynamic_schema(schema, "CREATE TABLE").create_table(
        request.call, body.table, body.arrow_schema, body.options
    )
    if request.is_airport and body.options.on_conflict is OnConflict.ERROR:
        name = body.catalog or context.default_catalog(request)
        context.new_tables.made(request, name, schema, table)
    return LocatedTable(schema.name, table)


def drop_table(context: ServerContext, request: Request, body: DropTableRequest) -> None:
    """Drop a table; with `ignore_not_found` the schema may be missing too."""
    catalog = context.catalog(request, body.catalog)
    try:
        schema = find_schema(request.call, catalog, body.schema)
    except NotFoundError:
        if body.options.ignore_not_found:
            return
        raise
    _dynamic_schema(schema, "DROP TABLE").drop_table(request.call, body.table, body.options)


def alter_table(context: ServerContext, request: Request, body: AlterTableRequest) -> LocatedTable | None:
    """Alter a table; return None if it is missing and `ignore_not_found` is set."""
    catalog = context.catalog(request, body.catalog)
    try:
        schema = find_schema(request.call, catalog, body.schema)
        table = find_table(request.call, schema, body.table)
    except NotFoundError:
        if body.ignore_not_found:
            return None
        raise
    if not isinstance(table, DynamicTable):
        raise UnsupportedOperationError("table", table.name, "ALTER TABLE")
    table.alter(request.call, body.change)
    return LocatedTable(schema.name, table)


def _dynamic_catalog(context: ServerContext, request: Request, name: str, operation: str) -> DynamicCatalog:
    catalog = context.catalog(request, name)
    if not isinstance(catalog, DynamicCatalog):
        raise UnsupportedOperationError("catalog", name or context.default_catalog(request), operation)
    return catalog


def _dynamic_schema(schema: Schema, operation: str) -> DynamicSchema:
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedOperationError("schema", schema.name, operation)
    return schema
