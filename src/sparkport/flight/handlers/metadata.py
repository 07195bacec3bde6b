"""List catalogs, schemas and tables as Arrow tables, with the columns of Flight SQL."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pyarrow as pa

from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import Catalog, HasTableKind, Schema, Table, TableKind
from sparkport.errors import NotFoundError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.catalog_listing import list_each
from sparkport.flight.presentation.patterns import matches
from sparkport.flight.request import Request
from sparkport.protocol import schemas
from sparkport.protocol.json_dialect.requests import MetadataRequest

_NAME = pa.string()


def catalogs(context: ServerContext, request: Request, body: MetadataRequest) -> pa.Table:
    """List the catalogs."""
    del body
    names = [name for name, _ in context.visible_catalogs(request.call)]
    return pa.table({"catalog_name": pa.array(names, _NAME)})


def db_schemas(context: ServerContext, request: Request, body: MetadataRequest) -> pa.Table:
    """List the schemas that match the filters."""
    listed = list_each(_catalogs(context, request, body), partial(_schemas, request, body))
    rows = [(catalog, schema.name) for catalog, in_catalog in listed for schema in in_catalog]
    return _table(rows, pa.schema([("catalog_name", _NAME), ("db_schema_name", _NAME)]))


def tables(context: ServerContext, request: Request, body: MetadataRequest) -> pa.Table:
    """List the tables that match the filters, with their Arrow schemas if `include_schema` is set."""
    columns = [
        ("catalog_name", _NAME),
        ("db_schema_name", _NAME),
        ("table_name", _NAME),
        ("table_type", _NAME),
    ]
    rows: list[tuple[object, ...]] = []
    for catalog, listed in list_each(_catalogs(context, request, body), partial(_tables, request, body)):
        for schema, table in listed:
            request.call.check()
            row: tuple[object, ...] = (catalog, schema.name, table.name, _kind(table))
            with suppress(NotFoundError):  # dropped in the meantime
                if body.include_schema:
                    columns_of_table = current_arrow_schema(request.call, table)
                    if not body.with_row_id:
                        columns_of_table = without_rowid(columns_of_table)
                    row = (*row, schemas.encode(columns_of_table))
                rows.append(row)
    if body.include_schema:
        columns.append(("table_schema", pa.binary()))
    return _table(rows, pa.schema(columns))


def table_types(context: ServerContext, request: Request, body: MetadataRequest) -> pa.Table:
    """List the table types."""
    del context, request, body
    return pa.table({"table_type": pa.array(list(TableKind), _NAME)})


def _catalogs(context: ServerContext, request: Request, body: MetadataRequest) -> list[tuple[str, Catalog]]:
    only = body.catalog
    return [
        (name, catalog)
        for name, catalog in context.visible_catalogs(request.call)
        if only is None or only.lower() == name.lower()
    ]


def _schemas(request: Request, body: MetadataRequest, catalog: Catalog) -> list[Schema]:
    return [schema for schema in catalog.schemas(request.call) if matches(body.schema_pattern, schema.name)]


def _tables(request: Request, body: MetadataRequest, catalog: Catalog) -> list[tuple[Schema, Table]]:
    return [
        (schema, table)
        for schema in _schemas(request, body, catalog)
        for table in schema.tables(request.call)
        if matches(body.table_pattern, table.name)
        and (body.table_types is None or _kind(table) in body.table_types)
    ]


def _kind(table: Table) -> TableKind:
    return table.table_kind if isinstance(table, HasTableKind) else TableKind.TABLE


def _table(rows: list[tuple[object, ...]] | list[tuple[str, str]], arrow_schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(arrow_schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow_schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema)
