"""Tables of a catalog as views of a DuckDB database, under the names that clients know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparkport.arrow.conform import conform_batch
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import rowid_name, without_rowid
from sparkport.catalog.scan import ScanOptions, TimePoint
from sparkport.catalog.tables import Schema, Table
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import InvalidRequestError, NotFoundError, UnsupportedOperationError
from sparkport.protocol.schemas import to_duckdb_types
from sparkport.sql import syntax
from sparkport.sql.database import Database
from sparkport.sql.names import Named, Names, quoted
from sparkport.sql.syntax import Tree

_HIDDEN = "__sparkport"
_SYSTEM = frozenset({"memory", "temp", "system"})


class Binding:
    """Gives a database the tables that a statement names.

    A statement that is only analysed gets tables without rows.
    """

    def __init__(self, database: Database, names: Names, *, with_rows: bool) -> None:
        self._database = database
        self._names = names
        self._with_rows = with_rows
        self._schemas: set[str] = set()
        self._count = 0
        self.tables: dict[tuple[str, str], pa.Schema] = {}
        """The columns of each table, by the lower-case names of its schema and itself."""
        self.catalog = names.statement.catalog
        if self.catalog.lower() in _SYSTEM:
            raise InvalidRequestError(f"DuckDB has a catalog named '{self.catalog}' itself")
        database.run(f"ATTACH ':memory:' AS {quoted(self.catalog)}")
        database.run(f"USE {quoted(self.catalog)}")

    def bind(self, tree: Tree) -> None:
        """Bind all tables that a query names. Raises NotFoundError for a name that means nothing."""
        common = syntax.common_tables(tree)
        for catalog, schema, table in syntax.table_names(tree):
            path = tuple(part for part in (catalog, schema, table) if part)
            try:
                named = self._names.table(path)
            except (NotFoundError, InvalidRequestError):
                if len(path) == 1 and table.lower() in common:
                    continue
                raise
            if (named.schema.name.lower(), named.table.name.lower()) not in self.tables:
                self._add(named)
        if syntax.lists_tables(tree):
            self._add_listed(self._names.default_schema())
        self._use_default_schema(tree)

    def columns_for_duckdb(self, arrow_schema: pa.Schema) -> pa.Schema:
        """Return columns in types that DuckDB reads."""
        return to_duckdb_types(arrow_schema).remove_metadata()

    def rows_of_target(self, named: Named, time_point: TimePoint | None, operation: str) -> tuple[str, str]:
        """Bind a table with its row ids; return the name of the view, and of the row id in it."""
        arrow_schema = current_arrow_schema(self._names.call, named.table)
        rowid = rowid_name(arrow_schema)
        if rowid is None:
            raise UnsupportedOperationError("table", named.table.name, f"{operation} (no rowid)")
        view = self._view(named.schema.name, f"{_HIDDEN}_target")
        self._register(named.table, view, arrow_schema, time_point)
        return view, rowid

    def register_rows(self, arrow_schema: pa.Schema, batches: Iterable[pa.RecordBatch] = ()) -> str:
        """Bind rows, and return the name of their view."""
        self._count += 1
        name = f"{_HIDDEN}_{self._count}"
        self._database.register(name, arrow_schema, batches)
        return f"temp.main.{name}"

    def _use_default_schema(self, tree: Tree) -> None:
        unqualified = any(not schema for _, schema, _ in syntax.table_names(tree))
        if unqualified or syntax.lists_tables(tree):
            try:
                schema = self._names.default_schema().name
            except (NotFoundError, InvalidRequestError):
                return  # all of them are names of WITH
            self._make_schema(schema)
            self._database.run(f"USE {quoted(self.catalog, schema)}")

    def _add(self, named: Named) -> None:
        arrow_schema = without_rowid(current_arrow_schema(self._names.call, named.table))
        self.tables[named.schema.name.lower(), named.table.name.lower()] = arrow_schema
        view = self._view(named.schema.name, named.table.name)
        self._register(named.table, view, arrow_schema)

    def _add_listed(self, schema: Schema) -> None:
        """Give the database the tables of a schema, without rows, for a statement that lists them."""
        for table in schema.tables(self._names.call):
            columns = without_rowid(current_arrow_schema(self._names.call, table))
            source = f"{_HIDDEN}_listed"
            self._database.register(source, self.columns_for_duckdb(columns), [])
            view = self._view(schema.name, table.name)
            self._database.run(f"CREATE TABLE {view} AS SELECT * FROM temp.main.{source}")
            self._database.unregister(source)

    def _view(self, schema: str, table: str) -> str:
        self._make_schema(schema)
        return quoted(self.catalog, schema, table)

    def _make_schema(self, schema: str) -> None:
        if schema.lower() not in self._schemas:
            self._schemas.add(schema.lower())
            self._database.run(f"CREATE SCHEMA IF NOT EXISTS {quoted(self.catalog, schema)}")

    def _register(
        self, table: Table, view: str, arrow_schema: pa.Schema, time_point: TimePoint | None = None
    ) -> None:
        columns = self.columns_for_duckdb(arrow_schema)
        batches = self._batches(table, columns, time_point) if self._with_rows else ()
        name = self.register_rows(columns, batches)
        self._database.run(f"CREATE VIEW {view} AS SELECT * FROM {name}")

    def _batches(
        self, table: Table, columns: pa.Schema, time_point: TimePoint | None
    ) -> Iterator[pa.RecordBatch]:
        call = self._names.call
        options = ScanOptions(columns=tuple(columns.names), time_point=time_point)
        with UserCodeBoundary(call, "table", table.name), table.scan(call, options) as reader:
            for batch in call.checked(reader):
                yield conform_batch(batch.select(columns.names), columns)
