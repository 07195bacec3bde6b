"""Which columns of a table a caller sees, reads and sets."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sparkport.access.restrictions import Restriction, restriction_of
from sparkport.access.rules import Kind
from sparkport.access.scope import Scope, denied
from sparkport.catalog.guards import Privilege
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import is_rowid, without_rowid
from sparkport.errors import PermissionDeniedError


@dataclass(frozen=True, slots=True)
class Shape:
    """One state of a table's columns as a caller sees them.

    `original` has all columns, `shown` those that exist for the caller, `unreadable` those of them that the
    caller may not read. `restriction` has row filter and masks, None if there are none.
    """

    schema: str
    table: str
    scope: Scope
    original: pa.Schema
    shown: pa.Schema
    unreadable: frozenset[str]
    restriction: Restriction | None

    @property
    def is_complete(self) -> bool:
        """Whether the caller sees all columns."""
        return len(self.shown) == len(self.original)

    @property
    def is_whole(self) -> bool:
        """Whether the caller may read all rows and columns as they are."""
        return self.is_complete and not self.unreadable and self.restriction is None

    def is_masked(self, name: str) -> bool:
        """Return whether the caller sees other values than those of a column."""
        return self.restriction is not None and name.lower() in self.restriction.masks

    def check_readable(self, name: str) -> None:
        """Make sure that the caller may read a column. Raises NotFoundError and PermissionDeniedError."""
        found = self.shown.field(find_column(self.shown, name)).name
        if found in self.unreadable:
            raise denied(
                self.scope.rights.principal,
                Privilege.SELECT,
                Kind.COLUMN,
                self.schema,
                self.table,
                found,
            )

    def check_settable(self, name: str) -> None:
        """Make sure that the caller may set a column. Raises NotFoundError and PermissionDeniedError."""
        found = self.shown.field(find_column(self.shown, name)).name
        if self.is_masked(found):
            # The client has computed the new value from a masked one, or could not know the old one.
            raise PermissionDeniedError(
                f"column '{found}' of table '{self.schema}.{self.table}' is masked: it cannot be updated"
            )
        self.scope.require(Privilege.UPDATE, Kind.COLUMN, self.schema, self.table, found)

    def check_all_shown(self, operation: str) -> None:
        """Make sure that the caller sees all columns. Raises PermissionDeniedError."""
        if not self.is_complete:
            raise PermissionDeniedError(
                f"'{self.scope.rights.principal}' does not see all columns of table"
                f" '{self.schema}.{self.table}', which {operation} needs"
            )

    def check_unrestricted(self, operation: str) -> None:
        """Make sure that no row filter or mask applies. Raises PermissionDeniedError."""
        if self.restriction is not None:
            raise PermissionDeniedError(
                f"{operation} is not possible on table '{self.schema}.{self.table}': a row filter or mask"
                f" applies to '{self.scope.rights.principal}'"
            )

    def check_all_readable(self, operation: str) -> None:
        """Make sure that the caller may read all columns. Raises PermissionDeniedError."""
        self.check_all_shown(operation)
        for name in sorted(self.unreadable):
            self.check_readable(name)


def shape_of(
    scope: Scope, schema: str, table: str, arrow_schema: pa.Schema, gone: frozenset[str] = frozenset()
) -> Shape:
    """Return what the caller sees of the columns of a table; the same object for the same columns.

    `gone` are columns that the caller does not see because the newest version has no such names.
    """
    if not scope.rights.depends_on_columns((scope.catalog, schema, table)):
        # What holds for the table holds for all its columns.
        is_readable = scope.allow(Privilege.SELECT, Kind.TABLE, schema, table)
        unreadable = frozenset() if is_readable else frozenset(without_rowid(arrow_schema).names)
        return Shape(schema, table, scope, arrow_schema, arrow_schema, unreadable, None)
    key = schema, table, id(arrow_schema), gone
    shape: Shape | None = scope.shapes.get(key)
    # What is remembered is alive, so that nothing else has its identity.
    if shape is None or shape.original is not arrow_schema:
        shape = _shape(scope, schema, table, arrow_schema, gone)
        scope.shapes.put(key, shape)
    return shape


def _shape(scope: Scope, schema: str, table: str, arrow_schema: pa.Schema, gone: frozenset[str]) -> Shape:
    hidden: list[str] = []
    unreadable: list[str] = []
    for field in arrow_schema:
        if is_rowid(field):
            continue
        if field.name in gone or not scope.allow(Privilege.BROWSE, Kind.COLUMN, schema, table, field.name):
            hidden.append(field.name)
        elif not scope.allow(Privilege.SELECT, Kind.COLUMN, schema, table, field.name):
            unreadable.append(field.name)
    shown = arrow_schema
    for name in hidden:
        shown = shown.remove(shown.get_field_index(name))
    restriction = restriction_of(scope, schema, table, arrow_schema)
    for name in restriction.masks if restriction else ():
        index = find_column(arrow_schema, name)
        if arrow_schema.field(index).name in shown.names:
            index = find_column(shown, name)
            shown = shown.set(index, _masked_field(shown.field(index)))
    return Shape(schema, table, scope, arrow_schema, shown, frozenset(unreadable), restriction)


def _masked_field(column: pa.Field) -> pa.Field:
    """Return the field of a column that may have values which its constraints do not allow."""
    return column.with_nullable(True)
