"""Schemas and the catalog of the in-memory engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    OnConflict,
    RevertibleSchema,
    check_new_columns,
)
from sparkport.catalog.functions import ScalarFunction, TableFunction
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import CatalogVersion, Schema, Table
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SchemaNotEmptyError,
    UnsupportedOperationError,
)
from sparkport.expressions.constraints import resolve_constraints
from sparkport.memory.commits import Commits
from sparkport.memory.table import MemoryTable
from sparkport.memory.transactions import MemoryTransactions
from sparkport.memory.versions import TableState


class MemoryCatalog(DynamicCatalog):
    """A catalog in memory: the reference for how tables behave.

    Its data is lost when the process ends.
    """

    def __init__(self, *, transaction_idle_seconds: float = 3600.0) -> None:
        self.commits = Commits()
        self.transactions = MemoryTransactions(self.commits, idle_seconds=transaction_idle_seconds)
        # Replaced as a whole under the commit lock, so that readers need none.
        self._schemas: Mapping[str, MemorySchema] = {}

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all schemas."""
        call.check()
        return list(self._schemas.values())

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, in any letter case, or None."""
        call.check()
        return self._schemas.get(name.lower())

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that increases with every statement that changes anything.

        It also increases when a transaction expires: clients may have prepared statements within it.
        """
        call.check()
        return CatalogVersion(1 + self.commits.sequence + self.transactions.expirations())

    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> MemorySchema:
        """Create an empty schema."""
        _check_name("schema", name)
        with self.commits.lock:
            call.check()
            if name.lower() in self._schemas:
                raise AlreadyExistsError("schema", name)
            schema = MemorySchema(name, self, options)
            self._schemas = {**self._schemas, name.lower(): schema}
            self.changed()
        return schema

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema; with its tables only if `options.cascade` is set."""
        with self.commits.lock:
            call.check()
            schema = self._schemas.get(name.lower())
            if schema is None:
                if options.ignore_not_found:
                    return 0
                raise NotFoundError("schema", name, [other.name for other in self._schemas.values()])
            tables = [table.name for table in schema.tables(call)]
            if tables and not options.cascade:
                raise SchemaNotEmptyError(schema.name, tables)
            self._schemas = {key: kept for key, kept in self._schemas.items() if kept is not schema}
            self.changed()
            return len(tables)

    def check_present(self, schema: MemorySchema) -> None:
        """Raise NotFoundError if the schema was dropped."""
        if self._schemas.get(schema.name.lower()) is not schema:
            raise NotFoundError("schema", schema.name)

    def changed(self) -> None:
        """Count a change of the listing; the caller holds the commit lock."""
        self.commits.next()


class MemorySchema(RevertibleSchema):
    """A schema in memory."""

    def __init__(self, name: str, catalog: MemoryCatalog, options: CreateSchemaOptions) -> None:
        self._name = name
        self._catalog = catalog
        self._comment = options.comment
        self._tags = MappingProxyType(dict(options.tags))
        self._tables: Mapping[str, MemoryTable] = {}

    @property
    def name(self) -> str:
        """The schema's name."""
        return self._name

    @property
    def comment(self) -> str:
        """The schema's documentation."""
        return self._comment

    @property
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        return self._tags

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all tables."""
        call.check()
        return list(self._tables.values())

    def table(self, call: Call, name: str) -> Table | None:
        """Return the table of that name, in any letter case, or None."""
        call.check()
        return self._tables.get(name.lower())

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return nothing: this engine stores tables."""
        call.check()
        return []

    def table_functions(self, call: Call) -> Sequence[TableFunction]:
        """Return nothing: this engine stores tables."""
        call.check()
        return []

    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> MemoryTable:
        """Create an empty table."""
        _check_name("table", name)
        check_new_columns(arrow_schema)
        state = TableState(*resolve_constraints(call, arrow_schema, options))
        with self._catalog.commits.lock:
            call.check()
            self._catalog.check_present(self)
            existing = self._tables.get(name.lower())
            if existing is not None and options.on_conflict is OnConflict.IGNORE:
                return existing
            if existing is not None and options.on_conflict is OnConflict.ERROR:
                raise AlreadyExistsError("table", f"{self._name}.{name}")
            catalog = self._catalog
            if options.partition_columns or options.cluster_columns:
                raise UnsupportedOperationError("schema", self.name, "tables with partitions or clustering")
            table = MemoryTable(name, state, self, catalog.commits, catalog.transactions, options.comment)
            self._tables = {**self._tables, name.lower(): table}
            catalog.changed()
        return table

    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table."""
        with self._catalog.commits.lock:
            call.check()
            if name.lower() not in self._tables:
                if options.ignore_not_found:
                    return
                names = [table.name for table in self._tables.values()]
                raise NotFoundError("table", f"{self._name}.{name}", names)
            self._tables = {key: table for key, table in self._tables.items() if key != name.lower()}
            self._catalog.changed()

    def revert_create(self, call: Call, name: str, made: TimePoint) -> bool:
        """Drop a table if it was not changed since it was created."""
        with self._catalog.commits.lock:
            table = self._tables.get(name.lower())
            if table is None or table.snapshot(call, None).time_point != made:
                return False
            self.drop_table(call, name, DropTableOptions())
        return True

    def rename_table(self, table: MemoryTable, new_name: str) -> None:
        """Rename a table; the caller holds the commit lock."""
        _check_name("table", new_name)
        other = self._tables.get(new_name.lower())
        if other is not None and other is not table:
            raise AlreadyExistsError("table", f"{self._name}.{new_name}")
        table.name = new_name
        self._tables = {other.name.lower(): other for other in self._tables.values()}
        self._catalog.changed()

    def changed(self) -> None:
        """Count a change of a table of this schema."""
        self._catalog.changed()

    def check_present(self, table: MemoryTable) -> None:
        """Raise NotFoundError if the table was dropped or replaced, alone or with its schema."""
        self._catalog.check_present(self)
        if self._tables.get(table.name.lower()) is not table:
            raise NotFoundError("table", f"{self._name}.{table.name}")


def _check_name(kind: str, name: str) -> None:
    if not name:
        raise InvalidRequestError(f"a {kind} needs a name")
