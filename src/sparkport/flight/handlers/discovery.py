"""List schemas, tables and functions."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from contextlib import suppress

import structlog

from sparkport.catalog.ddl import TaggedSchema
from sparkport.catalog.lookup import TablePath, only_schema
from sparkport.catalog.tables import Catalog, CatalogVersion, Schema, Table, VersionedCatalog
from sparkport.errors import NotFoundError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions.listing import function_infos
from sparkport.flight.presentation.catalog_listing import list_each
from sparkport.flight.presentation.tables import client_schema, row_count
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights
from sparkport.protocol.airport import listing
from sparkport.protocol.airport.requests import CatalogRequest
from sparkport.protocol.descriptor import TableAddress
from sparkport.protocol.schemas import NoDuckDBTypeError

_log = structlog.get_logger("sparkport")

_DEFAULT_SCHEMA = "default"


def list_schemas(context: ServerContext, request: Request, body: CatalogRequest) -> bytes:
    """Return the encoded listing of a catalog, cached until its version changes."""
    catalog = context.catalog(request, body.catalog)
    if not isinstance(catalog, VersionedCatalog):
        return _listing(context, request, catalog, body.catalog, CatalogVersion(1))
    version = catalog.catalog_version(request.call)
    key = (body.catalog, request.call.principal)
    return context.listings.get(
        key, catalog, version, lambda: _listing(context, request, catalog, body.catalog, version)
    )


def catalog_version(context: ServerContext, request: Request, body: CatalogRequest) -> CatalogVersion:
    """Return the version of a catalog."""
    catalog = context.catalog(request, body.catalog)
    if isinstance(catalog, VersionedCatalog):
        return catalog.catalog_version(request.call)
    return CatalogVersion(1)


def list_flights(context: ServerContext, request: Request, criteria: bytes) -> Iterator[bytes]:
    """Yield the FlightInfo of every table that matches the headers and criteria."""
    only_catalog = request.headers.optional("airport-list-flights-filter-catalog")
    only_schema = request.headers.optional("airport-list-flights-filter-schema")
    pattern = criteria.decode(errors="replace").strip().lower()
    if only_catalog is not None:
        catalogs = [(only_catalog, context.catalog(request, only_catalog))]
    else:
        catalogs = context.visible_catalogs(request.call)

    def list_tables(catalog: Catalog) -> list[tuple[Schema, Sequence[Table]]]:
        schemas = [schema for schema in catalog.schemas(request.call) if only_schema in {None, schema.name}]
        return [(schema, schema.tables(request.call)) for schema in schemas]

    for name, listing_of_catalog in list_each(catalogs, list_tables):
        for schema, tables in listing_of_catalog:
            for table in tables:
                request.call.check()
                if _matches(pattern, name, schema.name, table.name):
                    with suppress(NotFoundError):  # dropped in the meantime
                        yield from _flight(context, request, table, name, schema.name)
            if only_schema is not None:  # DuckDB reads a schema this way; others list tables
                yield from function_infos(request, schema, name)


def _listing(
    context: ServerContext, request: Request, catalog: Catalog, name: str, version: CatalogVersion
) -> bytes:
    schemas = list(catalog.schemas(request.call))
    default = next((schema for schema in schemas if schema.name.lower() == _DEFAULT_SCHEMA), None)
    if default is None:
        default = only_schema(schemas)
    return listing.encode([_schema(context, request, schema, name, default) for schema in schemas], version)


def _schema(
    context: ServerContext, request: Request, schema: Schema, catalog: str, default: Schema | None
) -> listing.SchemaListing:
    tables: list[bytes] = []
    for table in schema.tables(request.call):
        request.call.check()
        try:
            tables.append(context.table_infos.get(request, table, catalog, schema.name))
        except NoDuckDBTypeError as error:
            # One entry that DuckDB cannot read would hide the whole schema.
            _log.warning("table not listed", table=f"{schema.name}.{table.name}", reason=str(error))
        except NotFoundError:
            continue  # dropped in the meantime
    tables.extend(function_infos(request, schema, catalog))
    tags = schema.tags if isinstance(schema, TaggedSchema) else {}
    return listing.SchemaListing(schema.name, schema.comment, tables, tags, schema is default)


def _flight(
    context: ServerContext, request: Request, table: Table, catalog: str, schema: str
) -> Iterator[bytes]:
    try:
        if request.is_airport:
            yield context.table_infos.get(request, table, catalog, schema)
            return
    except NoDuckDBTypeError as error:
        _log.warning("table not listed", table=f"{schema}.{table.name}", reason=str(error))
        return
    path = TablePath(catalog, schema, table.name)
    yield flights.encode_info(
        client_schema(request, table),
        descriptor.encode(TableAddress(path)),
        metadata=flights.app_metadata(path, table.comment),
        total_records=row_count(request, table, None),
    )


def _matches(pattern: str, catalog: str, schema: str, table: str) -> bool:
    """Return whether criteria match the table, its schema or its catalog; * is a wildcard."""
    if not pattern or pattern == "null":  # DuckDB sends missing criteria as this text
        return True
    names = (
        catalog,
        schema,
        f"{catalog}.{schema}",
        f"{schema}.{table}",
        f"{catalog}.{schema}.{table}",
        table,
    )
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for name in names)
