"""Changing schemas and tables."""

from __future__ import annotations

from sparkport.catalog.ddl import DynamicCatalog, DynamicSchema, DynamicTable
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.tables import Schema, Table
from sparkport.errors import NotFoundError, UnsupportedOperationError
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.flight.tables import airport_info
from sparkport.protocol.requests import (
    AlterTableRequest,
    CreateSchemaRequest,
    CreateTableRequest,
    DropSchemaRequest,
    DropTableRequest,
)


def create_schema(site: Site, request: Request, wanted: CreateSchemaRequest) -> Schema:
    """Make a schema."""
    catalog = _dynamic_catalog(site, wanted.catalog, "CREATE SCHEMA")
    return catalog.create_schema(request.call, wanted.schema, wanted.options)


def drop_schema(site: Site, request: Request, wanted: DropSchemaRequest) -> int:
    """Drop a schema and return how many tables went with it."""
    catalog = _dynamic_catalog(site, wanted.catalog, "DROP SCHEMA")
    return catalog.drop_schema(request.call, wanted.schema, wanted.options)


def create_table(site: Site, request: Request, wanted: CreateTableRequest) -> bytes:
    """Make a table and return its new description."""
    schema = _dynamic_schema(site, request, wanted.catalog, wanted.schema, "CREATE TABLE")
    table = schema.create_table(request.call, wanted.table, wanted.arrow_schema, wanted.options)
    return airport_info(request, table, wanted.catalog, schema.name)


def drop_table(site: Site, request: Request, wanted: DropTableRequest) -> None:
    """Drop a table."""
    schema = _dynamic_schema(site, request, wanted.catalog, wanted.schema, "DROP TABLE")
    schema.drop_table(request.call, wanted.table, wanted.options)


def alter_table(site: Site, request: Request, wanted: AlterTableRequest) -> bytes | None:
    """Change a table and return its new description; None if it is missing and may be."""
    try:
        schema = find_schema(request.call, site.catalog(wanted.catalog), wanted.schema)
        table = find_table(request.call, schema, wanted.table)
    except NotFoundError:
        if wanted.ignore_not_found:
            return None
        raise
    _dynamic_table(table).alter(request.call, wanted.change)
    return airport_info(request, table, wanted.catalog, schema.name)


def _dynamic_catalog(site: Site, name: str, operation: str) -> DynamicCatalog:
    catalog = site.catalog(name)
    if not isinstance(catalog, DynamicCatalog):
        raise UnsupportedOperationError("catalog", name, operation)
    return catalog


def _dynamic_schema(site: Site, request: Request, catalog: str, name: str, operation: str) -> DynamicSchema:
    schema = find_schema(request.call, site.catalog(catalog), name)
    if not isinstance(schema, DynamicSchema):
        raise UnsupportedOperationError("schema", schema.name, operation)
    return schema


def _dynamic_table(table: Table) -> DynamicTable:
    if not isinstance(table, DynamicTable):
        raise UnsupportedOperationError("table", table.name, "ALTER TABLE")
    return table
