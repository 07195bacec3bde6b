"""New names: grants, filters and masks go by names, so that another name must not give more than the old."""

from __future__ import annotations

from collections.abc import Iterable

from sparkport.access.rules import Kind
from sparkport.access.shapes import Shape
from sparkport.catalog.guards import Privilege
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import without_rowid
from sparkport.errors import PermissionDeniedError

_OF_TABLES = sorted(Kind.TABLE.privileges - {Privilege.CREATE})
_OF_COLUMNS = (Privilege.SELECT, Privilege.UPDATE)


def check_table_name(shape: Shape, new_name: str) -> None:
    """Make sure that the caller may do nothing more with a table under a new name.

    Raises PermissionDeniedError.
    """
    old, new = (shape.schema, shape.table), (shape.schema, new_name)
    _check(shape, _OF_TABLES, Kind.TABLE, old, new)
    for name in without_rowid(shape.original).names:
        _check(shape, _OF_COLUMNS, Kind.COLUMN, (*old, name), (*new, name))


def check_column_name(shape: Shape, old_name: str, new_name: str) -> None:
    """Make sure that the caller may do nothing more with a column under a new name.

    Raises NotFoundError and PermissionDeniedError.
    """
    table = shape.schema, shape.table
    name = shape.shown.field(find_column(shape.shown, old_name)).name
    _check(shape, _OF_COLUMNS, Kind.COLUMN, (*table, name), (*table, new_name))


def _check(
    shape: Shape, privileges: Iterable[Privilege], kind: Kind, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    scope = shape.scope
    for privilege in privileges:
        if scope.allow(privilege, kind, *new) and not scope.allow(privilege, kind, *old):
            raise PermissionDeniedError(
                f"'{scope.rights.principal}' may not rename {kind} '{'.'.join(old)}' to '{new[-1]}':"
                f" under the new name more would be granted ({privilege})"
            )
