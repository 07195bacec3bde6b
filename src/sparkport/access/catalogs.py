"""Catalogs as a caller may see them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from sparkport.access.rules import Kind
from sparkport.access.schemas import guarded_schema
from sparkport.access.scope import Scope, denied
from sparkport.catalog.abilities import abilities_of
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateSchemaOptions, DropSchemaOptions, DynamicCatalog
from sparkport.catalog.extension import ExtensibleCatalog
from sparkport.catalog.guards import Privilege
from sparkport.catalog.lookup import same_but_for_case
from sparkport.catalog.sql import GatedSql, SqlCatalog, SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog, CatalogVersion, Schema, VersionedCatalog
from sparkport.catalog.transactions import TransactionalCatalog, TransactionManager
from sparkport.errors import NotFoundError, SchemaNotEmptyError


def guarded_catalog(catalog: Catalog, scope: Scope) -> Catalog:
    """Return a catalog as a caller may see it: the catalog itself for a caller who may do everything.

    What a catalog can do beyond this module's parts does not exist for callers who may not.
    """
    if scope.rights.own(scope.catalog):
        return catalog
    abilities = abilities_of(catalog, tuple(PARTS))
    guarded: Catalog = _class(abilities)(catalog, scope)
    return guarded


@functools.cache
def _class(abilities: tuple[type, ...]) -> type[_Guarded]:
    return type("GuardedCatalog", (*(PARTS[ability] for ability in abilities), _Guarded), {})


class _Guarded(GatedSql):
    def __init__(self, catalog: Catalog, scope: Scope) -> None:
        self._catalog = catalog
        self._scope = scope

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return the schemas that exist for the caller."""
        return [
            guarded_schema(schema, self._scope, self)
            for schema in self._catalog.schemas(call)
            if self._scope.show(Kind.SCHEMA, schema.name)
        ]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name if it exists for the caller, else None."""
        schema = self._catalog.schema(call, name)
        if schema is None or not self._scope.show(Kind.SCHEMA, schema.name):
            return None
        return guarded_schema(schema, self._scope, self)

    def check(self, privilege: Privilege, schema: str = "", table: str = "") -> None:
        """Make sure that the caller may do this. Raises PermissionDeniedError."""
        kind = Kind.TABLE if table else Kind.SCHEMA if schema else Kind.CATALOG
        self._scope.require(privilege, kind, *(part for part in (schema, table) if part))

    def check_sql(self) -> None:
        """Make sure that the caller may run SQL. Raises PermissionDeniedError."""
        self.check(Privilege.SQL)


class _Versioned(_Guarded):
    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises with the changes of the catalog and of the access file."""
        assert isinstance(self._catalog, VersionedCatalog)
        version = self._catalog.catalog_version(call)
        return CatalogVersion(version.version + self._scope.generation)


class _Transactional(_Guarded):
    @property
    def transactions(self) -> TransactionManager:
        """The transactions, each of which belongs to its principal."""
        assert isinstance(self._catalog, TransactionalCatalog)
        return self._catalog.transactions


class _Dynamic(_Guarded):
    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> Schema:
        """Make a schema."""
        assert isinstance(self._catalog, DynamicCatalog)
        self._scope.require(Privilege.CREATE, Kind.SCHEMA, name)
        return guarded_schema(self._catalog.create_schema(call, name, options), self._scope, self)

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema; for `cascade` the caller may drop each of its tables."""
        assert isinstance(self._catalog, DynamicCatalog)
        schemas = self.schemas(call)
        visible = self.schema(call, name) or same_but_for_case(name, schemas)
        if visible is None:
            if options.ignore_not_found:
                return 0
            raise NotFoundError("schema", name, [schema.name for schema in schemas])
        self._scope.require(Privilege.DROP, Kind.SCHEMA, visible.name)
        schema = self._catalog.schema(call, visible.name)
        tables = [] if schema is None or not options.cascade else schema.tables(call)
        if not all(self._scope.allow(Privilege.DROP, Kind.TABLE, visible.name, t.name) for t in tables):
            # Which tables these are may be more than the caller knows.
            raise denied(self._scope.rights.principal, Privilege.DROP, Kind.SCHEMA, visible.name)
        try:
            return self._catalog.drop_schema(call, visible.name, options)
        except SchemaNotEmptyError:
            seen = [table.name for table in visible.tables(call)]
            raise SchemaNotEmptyError(visible.name, seen, () if seen else ("something",)) from None


class _Sql(_Guarded):
    """Statements in the SQL of an engine, which looks up names in the view that the call brings along."""

    def describe_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a statement."""
        assert isinstance(self._catalog, SqlCatalog)
        self.check_sql()
        return self._catalog.describe_sql(seeing(call, self), statement, parameters)

    def query_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query."""
        assert isinstance(self._catalog, SqlCatalog)
        self.check_sql()
        return self._catalog.query_sql(seeing(call, self), statement, parameters)

    def update_sql(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run another statement."""
        assert isinstance(self._catalog, SqlCatalog)
        self.check_sql()
        return self._catalog.update_sql(seeing(call, self), statement, parameters)


PARTS: dict[type, type[_Guarded]] = {
    VersionedCatalog: _Versioned,
    TransactionalCatalog: _Transactional,
    DynamicCatalog: _Dynamic,
    SqlCatalog: _Sql,
}
"""The abilities of catalogs that callers may use, each with what is checked."""

WITHHELD: frozenset[type] = frozenset({ExtensibleCatalog})
"""Abilities that are the server's own business."""


def seeing(call: Call, view: Catalog) -> Call:
    """Return a call that brings along what its caller may see of a catalog."""
    return call.on_behalf_of(call.principal.seeing(view))
