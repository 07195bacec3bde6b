"""An engine's catalog with schemas of the user's own beside the engine's."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateSchemaOptions, DropSchemaOptions, DynamicCatalog
from sparkport.catalog.extension import ExtensibleCatalog
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.sql import SqlCatalog, SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog, CatalogVersion, Schema, VersionedCatalog
from sparkport.catalog.transactions import TransactionalCatalog, TransactionManager
from sparkport.errors import AlreadyExistsError, UnsupportedOperationError
from sparkport.toolkit.static import StaticCatalog


def overlay(engine: Catalog, own: StaticCatalog) -> Catalog:
    """Return a catalog of both, able to do whatever the engine's is.

    Raises AlreadyExistsError if a schema's name is taken.
    """
    abilities = [part for ability, part in _PARTS.items() if isinstance(engine, ability)]
    overlaid: Catalog = type("Overlay", (*abilities, _Overlay), {})(engine, own)
    return overlaid


class _Overlay:
    def __init__(self, engine: Catalog, own: StaticCatalog) -> None:
        self._engine = engine
        self._own = {name.lower(): schema for name, schema in own.by_name.items()}
        call = Call()
        for schema in own.by_name.values():
            if engine.schema(call, schema.name) is not None:
                raise AlreadyExistsError("schema", schema.name)

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return the engine's schemas and then the user's.

        If somebody else has created a schema of the same name since the start, the user's is listed.
        """
        engine = [schema for schema in self._engine.schemas(call) if schema.name.lower() not in self._own]
        return [*engine, *self._own.values()]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, or None."""
        return self._own.get(name.lower()) or self._engine.schema(call, name)


class _Versioned(_Overlay):
    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return the engine's: the user's schemas stay as they are."""
        assert isinstance(self._engine, VersionedCatalog)
        return self._engine.catalog_version(call)


class _Transactional(_Overlay):
    @property
    def transactions(self) -> TransactionManager:
        """The engine's transactions."""
        assert isinstance(self._engine, TransactionalCatalog)
        return self._engine.transactions


class _Sql(_Overlay):
    def describe_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a statement of the engine's SQL, which knows the engine's tables."""
        assert isinstance(self._engine, SqlCatalog)
        return self._engine.describe_sql(call, statement, parameters)

    def query_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query of the engine's SQL."""
        assert isinstance(self._engine, SqlCatalog)
        return self._engine.query_sql(call, statement, parameters)

    def update_sql(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run another statement of the engine's SQL."""
        assert isinstance(self._engine, SqlCatalog)
        return self._engine.update_sql(call, statement, parameters)


class _Dynamic(_Overlay):
    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> Schema:
        """Make a schema of the engine."""
        assert isinstance(self._engine, DynamicCatalog)
        if name.lower() in self._own:
            raise AlreadyExistsError("schema", name)
        return self._engine.create_schema(call, name, options)

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema of the engine."""
        assert isinstance(self._engine, DynamicCatalog)
        if name.lower() in self._own:
            raise UnsupportedOperationError("schema", name, "DROP")
        return self._engine.drop_schema(call, name, options)


class _Extensible(_Overlay):
    def add_functions(self, functions: Sequence[TableFunction]) -> None:
        """Let the engine offer functions."""
        assert isinstance(self._engine, ExtensibleCatalog)
        self._engine.add_functions(functions)


_PARTS: dict[type, type[_Overlay]] = {
    VersionedCatalog: _Versioned,
    TransactionalCatalog: _Transactional,
    DynamicCatalog: _Dynamic,
    SqlCatalog: _Sql,
    ExtensibleCatalog: _Extensible,
}
