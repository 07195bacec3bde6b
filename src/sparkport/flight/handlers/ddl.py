"""Changing schemas and tables."""

from __future__ import annotations

from sparkport.catalog.ddl import DynamicCatalog, DynamicSchema, DynamicTable, OnConflict
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.tables import Schema
from sparkport.errors import AlreadyExistsError, NotFoundError, UnsupportedOperationError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.tables import Found
from sparkport.flight.request import Request
from sparkport.protocol.json_requests import CreateSchemaOnce
from sparkport.protocol.requests import (
    AlterTableRequest,
    CreateSchemaRequest,
    CreateTableRequest,
    DropSchemaRequest,
    DropTableRequest,
)


def create_schema(site: ServerContext, request: Request, wanted: CreateSchemaRequest) -> Schema:
    """Make a schema."""
    catalog = _dynamic_catalog(site, request, wanted.catalog, "CREATE SCHEMA")
    return catalog.create_schema(request.call, wanted.schema, wanted.options)


def create_schema_once(site: ServerContext, request: Request, wanted: CreateSchemaOnce) -> Schema | None:
    """Make a schema, or be content with the one that is there."""
    try:
        return create_schema(site, request, wanted.request)
    except AlreadyExistsError:
        if wanted.if_not_exists:
            return None
        raise


def drop_schema(site: ServerContext, request: Request, wanted: DropSchemaRequest) -> int:
    """Drop a schema and return how many tables went with it."""
    catalog = _dynamic_catalog(site, request, wanted.catalog, "DROP SCHEMA")
    return catalog.drop_schema(request.call, wanted.schema, wanted.options)


def create_table(site: ServerContext, request: Request, wanted: CreateTableRequest) -> Found:
    """Make a table."""
    schema = find_schema(request.call, site.catalog(request, wanted.catalog), wanted.schema)
    table = _dynamic_schema(schema, "CREATE TABLE").create_table(
        request.call, wanted.table, wanted.arrow_schema, wanted.options
    )
    if request.is_airport and wanted.options.on_conflict is OnConflict.ERROR:
        name = wanted.catalog or site.default_catalog(request)
        site.new_tables.made(request, name, schema, table)
    return Found(schema.name, table)


def drop_table(site: ServerContext, request: Request, wanted: DropTableRequest) -> None:
    """Drop a table; a missing schema has no table to drop."""
    catalog = site.catalog(request, wanted.catalog)
    try:
        schema = find_schema(request.call, catalog, wanted.schema)
    except NotFoundError:
        if wanted.options.ignore_not_found:
            return
        raise
    _dynamic_schema(schema, "DROP TABLE").drop_table(request.call, wanted.table, wanted.options)


def alter_table(site: ServerContext, request: Request, wanted: AlterTableRequest) -> Found | None:
    """Change a table; None if it is missing and may be."""
    catalog = site.catalog(request, wanted.catalog)
    try:
        schema = find_schema(request.call, catalog, wanted.schema)
        table = find_table(request.call, schema, wanted.table)
    except NotFoundError:
        if wanted.ignore_not_found:
            return None
        raise
    if not isinstance(table, DynamicTable):
        raise UnsupportedOperationError("table", table.name, "ALTER TABLE")
    table.alter(request.call, wanted.change)
    return Found(schema.name, table)


def _dynamic_catalog(site: ServerContext, request: Request, name: str, operation: str) -> DynamicCatalog:
    catalog = site.catalog(request, name)
    if not isinstance(catalog, DynamicCatalog):
        raise UnsupportedOperationError("catalog", name or site.default_catalog(request), operation)
    return catalog


def _dynamic_schema(schema: Schema, operation: str) -> DynamicSchema:
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedOperationError("schema", schema.name, operation)
    return schema
