"""Schemas as a caller may see them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa

from sparkport.access.functions import guarded_table_function
from sparkport.access.rules import Kind
from sparkport.access.scope import Scope
from sparkport.access.tables import guarded_table
from sparkport.catalog.abilities import abilities_of
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateTableOptions,
    DropTableOptions,
    DynamicSchema,
    OnConflict,
    RevertibleSchema,
    TaggedSchema,
)
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.guards import DerivedTable, Privilege
from sparkport.catalog.lookup import same_but_for_case
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Catalog, Schema, Table
from sparkport.errors import NotFoundError


def guarded_schema(schema: Schema, scope: Scope, view: Catalog) -> Schema:
    """Return a schema of a catalog as a caller may see it; `view` is that catalog as the caller sees it."""
    abilities = abilities_of(schema, tuple(PARTS))
    guarded: Schema = _class(abilities)(schema, scope, view)
    return guarded


@functools.cache
def _class(abilities: tuple[type, ...]) -> type[_Guarded]:
    return type("GuardedSchema", (*(PARTS[ability] for ability in abilities), _Guarded), {})


class _Guarded:
    def __init__(self, schema: Schema, scope: Scope, view: Catalog) -> None:
        self._schema = schema
        self._scope = scope
        self._view = view

    @property
    def name(self) -> str:
        """The schema's name."""
        return self._schema.name

    @property
    def comment(self) -> str:
        """The schema's documentation."""
        return self._schema.comment

    def tables(self, call: Call) -> Sequence[Table]:
        """Return the tables that exist for the caller."""
        return [self._guarded(table) for table in self._schema.tables(call) if self._shows(table.name)]

    def table(self, call: Call, name: str) -> Table | None:
        """Return the table of that name if it exists for the caller, else None."""
        table = self._schema.table(call, name)
        return self._guarded(table) if table is not None and self._shows(table.name) else None

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return the functions that the caller may call."""
        functions = self._schema.scalar_functions(call)
        return [function for function in functions if self._runs(function.name)]

    def table_functions(self, call: Call) -> Sequence[TableFunction | TableInOutFunction]:
        """Return the functions that the caller may call."""
        return [
            guarded_table_function(function, self._view)
            for function in self._schema.table_functions(call)
            if self._runs(function.name)
        ]

    def _shows(self, table: str) -> bool:
        return self._scope.show(Kind.TABLE, self.name, table)

    def _runs(self, function: str) -> bool:
        return self._scope.allow(Privilege.EXECUTE, Kind.FUNCTION, self.name, function)

    def _guarded(self, table: Table) -> Table:
        if isinstance(table, DerivedTable):
            table = table.seen_in(self._view)
        return guarded_table(table, self.name, self._scope)


class _Tagged(_Guarded):
    @property
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        assert isinstance(self._schema, TaggedSchema)
        return self._schema.tags


class _Dynamic(_Guarded):
    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> Table:
        """Make a table; to replace one, the caller may drop it too."""
        assert isinstance(self._schema, DynamicSchema)
        self._scope.require(Privilege.CREATE, Kind.TABLE, self.name, name)
        if options.on_conflict is OnConflict.REPLACE:
            self._scope.require(Privilege.DROP, Kind.TABLE, self.name, name)
        return self._guarded(self._schema.create_table(call, name, arrow_schema, options))

    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table."""
        assert isinstance(self._schema, DynamicSchema)
        tables = self.tables(call)
        table = self.table(call, name) or same_but_for_case(name, tables)
        if table is None:
            if options.ignore_not_found:
                return
            raise NotFoundError("table", f"{self.name}.{name}", [other.name for other in tables])
        self._scope.require(Privilege.DROP, Kind.TABLE, self.name, table.name)
        self._schema.drop_table(call, table.name, options)


class _Revertible(_Dynamic):
    def revert_create(self, call: Call, name: str, made: TimePoint) -> bool:
        """Take back a CREATE TABLE of the caller's."""
        assert isinstance(self._schema, RevertibleSchema)
        self._scope.require(Privilege.CREATE, Kind.TABLE, self.name, name)
        return self._schema.revert_create(call, name, made)


PARTS: dict[type, type[_Guarded]] = {
    RevertibleSchema: _Revertible,
    DynamicSchema: _Dynamic,
    TaggedSchema: _Tagged,
}
"""The abilities of schemas that callers may use, each with what is checked."""
