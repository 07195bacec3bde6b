"""A schema of the warehouse."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateTableOptions,
    DropTableOptions,
    OnConflict,
    RevertibleSchema,
    check_new_columns,
)
from sparkport.catalog.functions import ScalarFunction, TableFunction
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Table
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    UnsupportedOperationError,
)
from sparkport.expressions.constraints import resolve_constraints
from sparkport.spark.catalog.tables import WarehouseTables, same_name
from sparkport.spark.commit.folder_lock import exclusive, while_writing
from sparkport.spark.ddl.create import new_table, replace_delta, schema_details
from sparkport.spark.functions.catalog_functions import COMMENT, SCHEMA
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.table import DeltaTable
from sparkport.spark.views.table import ViewTable
from sparkport.spark.warehouse.listing import TableEntry


class SparkSchema(RevertibleSchema):
    """A folder of tables."""

    def __init__(self, name: str, tables: WarehouseTables, functions: Sequence[TableFunction] = ()) -> None:
        """`functions` are those of the catalog, which the schema that is for them shows."""
        self._name = name
        self._tables = tables
        self._has_functions = bool(functions) and name.lower() == SCHEMA
        self._functions = functions if self._has_functions else ()

    @property
    def name(self) -> str:
        """The schema's name."""
        return self._name

    @property
    def comment(self) -> str:
        """The schema's documentation."""
        return str(self._details().get("comment", COMMENT if self._has_functions else ""))

    @property
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        return dict(self._details().get("tags", {}))

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all views, and tables whose log can be read; asking for another one tells why it cannot."""
        call.check()
        entries = self._entries()
        tables = [(self._tables.table(entry), entry.version) for entry in entries.values()]
        views = self._tables.views.tables(self._name)
        return [
            *(table for table, version in tables if table.is_readable(call, version)),
            *(view for name, view in views.items() if same_name(name, entries) is None),
        ]

    def table(self, call: Call, name: str) -> DeltaTable | ViewTable | None:
        """Return the table or view of that name, in any letter case, or None."""
        return self.delta_table(call, name) or self._tables.views.table(self._name, name)

    def delta_table(self, call: Call, name: str) -> DeltaTable | None:
        """Return the table of that name, in any letter case, or None."""
        call.check()
        entry = self._tables.engine.warehouse.table(self._name, name)
        if entry is None:
            entries = self._entries()
            spelled = same_name(name, entries)
            entry = None if spelled is None else entries[spelled]
        return None if entry is None else self._tables.table(entry)

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return no functions."""
        call.check()
        return ()

    def table_functions(self, call: Call) -> Sequence[TableFunction]:
        """Return the catalog's functions in the schema that is for them."""
        call.check()
        return self._functions

    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> DeltaTable:
        """Create an empty table, or return the existing one with `OnConflict.IGNORE`."""
        self._tables.engine.transactions.refuse_in_staged(call, "CREATE TABLE")
        if not name:
            raise InvalidRequestError("a table needs a name")
        path = f"{self._name}.{name}"
        check_new_columns(arrow_schema)
        columns, constraints = resolve_constraints(call, arrow_schema, options)
        tables, engine = self._tables, self._tables.engine
        with tables.changing(call):
            schemas = engine.warehouse.listing().schemas
            if same_name(self._name, schemas) is None and not self._has_functions:
                raise NotFoundError("schema", self._name, schemas)
            self._tables.views.check_free(self._name, name)
            existing = self.delta_table(call, name)
            if existing is not None:
                match options.on_conflict:
                    case OnConflict.IGNORE:
                        return existing
                    case OnConflict.ERROR:
                        raise AlreadyExistsError("table", path)
            root = existing.root if existing else engine.warehouse.table_folder(self._name, name)
            if existing is not None and (options.partition_columns or options.cluster_columns):
                raise UnsupportedOperationError(
                    "table", path, "replacing it by a table with partitions or clustering"
                )
            layout = options.partition_columns, options.cluster_columns
            made = new_table(root, columns, constraints, options.comment, *layout)
            if existing is None:
                tables.create(call, path, made)
            else:
                with existing.versions.lock.exclusive(call):
                    work = functools.partial(replace_delta, made)
                    engine.jobs.run(call, path, while_writing(root, path, work))
                    if existing.name != name and is_local(root):
                        tables.move(call, existing, name)
        table = self.delta_table(call, name)
        if table is None:  # others have dropped it already
            raise NotFoundError("table", path)
        table.versions.make_durable()
        return table

    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table and its files."""
        self._tables.engine.transactions.refuse_in_staged(call, "DROP TABLE")
        with self._tables.changing(call):
            table = self.delta_table(call, name)
            if table is None:
                if self._tables.views.table(self._name, name) is not None:
                    raise UnsupportedOperationError(
                        "view", f"{self._name}.{name}", "DROP TABLE: use DROP VIEW"
                    )
                if options.ignore_not_found:
                    return
                raise NotFoundError("table", f"{self._name}.{name}", self._entries())
            with table.versions.lock.exclusive(call), exclusive(call, table.root, str(table)):
                self._tables.drop(table)

    def revert_create(self, call: Call, name: str, made: TimePoint) -> bool:
        """Drop a table and its files if nobody has changed it since it was created."""
        with self._tables.changing(call):
            table = self.delta_table(call, name)
            if table is None:
                return False
            with table.versions.lock.exclusive(call), exclusive(call, table.root, str(table)):
                if table.snapshot(call, None).time_point != made:
                    return False
                return self._tables.undo(table)

    def _entries(self) -> Mapping[str, TableEntry]:
        return self._tables.engine.warehouse.tables(self._name)

    def _details(self) -> dict[str, Any]:
        return schema_details(self._tables.engine.warehouse.schema_folder(self._name))
