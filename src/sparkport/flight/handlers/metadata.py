"""Catalogs, schemas and tables as Arrow tables, in the columns of Flight SQL."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.tables import Schema
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.protocol import schemas
from sparkport.protocol.contract import MetadataRequest

_TABLE = "TABLE"
_NAME = pa.string()


def catalogs(site: Site, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the catalogs."""
    del request, wanted
    names = [name for name, _ in site.catalogs.items()]
    return pa.table({"catalog_name": pa.array(names, _NAME)})


def db_schemas(site: Site, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the schemas that fit the filters."""
    found = [(catalog, schema.name) for catalog, schema in _schemas(site, request, wanted)]
    return _table(found, pa.schema([("catalog_name", _NAME), ("db_schema_name", _NAME)]))


def tables(site: Site, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the tables that fit the filters, with their schemas if asked for."""
    columns = [
        ("catalog_name", _NAME),
        ("db_schema_name", _NAME),
        ("table_name", _NAME),
        ("table_type", _NAME),
    ]
    found: list[tuple[object, ...]] = []
    if wanted.table_types is None or _TABLE in wanted.table_types:
        for catalog, schema in _schemas(site, request, wanted):
            for table in schema.tables(request.call):
                request.call.check()
                if not _like(wanted.table_pattern, table.name):
                    continue
                row: tuple[object, ...] = (catalog, schema.name, table.name, _TABLE)
                if wanted.include_schema:
                    row = (*row, schemas.encode(current_arrow_schema(request.call, table)))
                found.append(row)
    if wanted.include_schema:
        columns.append(("table_schema", pa.binary()))
    return _table(found, pa.schema(columns))


def table_types(site: Site, request: Request, wanted: MetadataRequest) -> pa.Table:
    """List the kinds of tables."""
    del site, request, wanted
    return pa.table({"table_type": pa.array([_TABLE], _NAME)})


def _schemas(site: Site, request: Request, wanted: MetadataRequest) -> Iterator[tuple[str, Schema]]:
    for name, catalog in site.catalogs.items():
        if wanted.catalog is not None and wanted.catalog.lower() != name.lower():
            continue
        for schema in catalog.schemas(request.call):
            if _like(wanted.schema_pattern, schema.name):
                yield name, schema


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
