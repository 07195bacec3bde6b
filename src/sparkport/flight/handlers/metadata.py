"""Catalogs, schemas and tables as Arrow tables, in the columns of Flight SQL."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pyarrow as pa

from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.tables import Catalog, HasTableKind, Schema, Table, TableKind
from sparkport.errors import NotFoundError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.surveys import list_each
from sparkport.flight.request import Request
from sparkport.protocol import schemas
from sparkport.protocol.json_requests import MetadataRequest

_NAME = pa.string()


def catalogs(site: ServerContext, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the catalogs."""
    del request, wanted
    names = [name for name, _ in site.catalogs.items()]
    return pa.table({"catalog_name": pa.array(names, _NAME)})


def db_schemas(site: ServerContext, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the schemas that fit the filters."""
    looked = list_each(_catalogs(site, wanted), partial(_schemas, request, wanted))
    found = [(catalog, schema.name) for catalog, listed in looked for schema in listed]
    return _table(found, pa.schema([("catalog_name", _NAME), ("db_schema_name", _NAME)]))


def tables(site: ServerContext, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the tables that fit the filters, with their schemas if asked for."""
    columns = [
        ("catalog_name", _NAME),
        ("db_schema_name", _NAME),
        ("table_name", _NAME),
        ("table_type", _NAME),
    ]
    found: list[tuple[object, ...]] = []
    for catalog, listed in list_each(_catalogs(site, wanted), partial(_tables, request, wanted)):
        for schema, table in listed:
            request.call.check()
            row: tuple[object, ...] = (catalog, schema.name, table.name, _kind(table))
            with suppress(NotFoundError):  # dropped meanwhile
                if wanted.include_schema:
                    row = (*row, schemas.encode(current_arrow_schema(request.call, table)))
                found.append(row)
    if wanted.include_schema:
        columns.append(("table_schema", pa.binary()))
    return _table(found, pa.schema(columns))


def table_types(site: ServerContext, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the kinds of tables."""
    del site, request, wanted
    return pa.table({"table_type": pa.array(list(TableKind), _NAME)})


def _catalogs(site: ServerContext, wanted: MetadataRequest) -> list[tuple[str, Catalog]]:
    only = wanted.catalog
    return [
        (name, one) for name, one in site.catalogs.items() if only is None or only.lower() == name.lower()
    ]


def _schemas(request: Request, wanted: MetadataRequest, catalog: Catalog) -> list[Schema]:
    return [schema for schema in catalog.schemas(request.call) if _like(wanted.schema_pattern, schema.name)]


def _tables(request: Request, wanted: MetadataRequest, catalog: Catalog) -> list[tuple[Schema, Table]]:
    return [
        (schema, table)
        for schema in _schemas(request, wanted, catalog)
        for table in schema.tables(request.call)
        if _like(wanted.table_pattern, table.name)
        and (wanted.table_types is None or _kind(table) in wanted.table_types)
    ]


def _kind(table: Table) -> TableKind:
    return table.table_kind if isinstance(table, HasTableKind) else TableKind.TABLE


def _like(pattern: str | None, name: str) -> bool:
    """Match SQL's LIKE, in which % is any text and _ any character.

    Not by a regular expression: many % would make that take for ever.
    """
    if pattern is None:
        return True
    at = wanted = 0
    retry: tuple[int, int] | None = None
    while at < len(name):
        if wanted < len(pattern) and pattern[wanted] == "%":
            retry = (at, wanted)
            wanted += 1
        elif wanted < len(pattern) and pattern[wanted] in {"_", name[at]}:
            at, wanted = at + 1, wanted + 1
        elif retry is not None:
            # The last % takes one character more.
            retry = (retry[0] + 1, retry[1])
            at, wanted = retry[0], retry[1] + 1
        else:
            return False
    return not pattern[wanted:].strip("%")


def _table(found: list[tuple[object, ...]] | list[tuple[str, str]], arrow_schema: pa.Schema) -> pa.Table:
    columns = list(zip(*found, strict=True)) or [()] * len(arrow_schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, arrow_schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema)
