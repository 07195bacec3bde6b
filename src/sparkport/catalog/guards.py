"""What a caller may do, and how an engine respects it where it looks up tables by itself.

A server with grants serves each catalog through a wrapper (`sparkport.access`), which an engine never sees.
Only where a client names a table in an argument of a function or in SQL of the engine's own, the engine
itself looks it up: in the caller's view of the catalog, and it asks there for what it is going to do.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import Protocol, runtime_checkable

from sparkport.catalog.abilities import Ability
from sparkport.catalog.call import Call
from sparkport.catalog.tables import Catalog, Table


class Privilege(enum.StrEnum):
    """What a caller may be allowed to do."""

    BROWSE = "browse"
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    CREATE = "create"
    ALTER = "alter"
    DROP = "drop"
    EXECUTE = "execute"
    SQL = "sql"
    ADMIN = "admin"


@runtime_checkable
class GuardedTable(Table, Protocol):
    """A table as a caller may see it."""

    @property
    @abstractmethod
    def policies(self) -> tuple[str, ...]:
        """The row filters and masks that apply to the caller, for the audit log."""
        raise NotImplementedError

    @property
    @abstractmethod
    def behind(self) -> Table:
        """The table itself, for what there is to know of its columns: its rows are read through this one."""
        raise NotImplementedError

    @abstractmethod
    def shows_a_part(self, call: Call) -> bool:
        """Return whether the caller may read the table, but not all rows and columns as they are."""
        raise NotImplementedError

    @abstractmethod
    def unguarded(self, *privileges: Privilege) -> Table:
        """Return the table itself for a caller who may do all of this to all of its rows and columns.

        Raises PermissionDeniedError for one who may not, or who sees only a part of the table.
        """
        raise NotImplementedError


@runtime_checkable
class DerivedTable(Protocol, metaclass=Ability):
    """A table whose rows come from other tables that it looks up when it is read: a view of an engine."""

    @abstractmethod
    def seen_in(self, catalog: Catalog) -> Table:
        """Return the table for a caller who sees those others in this catalog, with the caller's rights."""
        raise NotImplementedError


@runtime_checkable
class GuardedCatalog(Catalog, Protocol):
    """A catalog as a caller may see it."""

    @abstractmethod
    def check(self, privilege: Privilege, schema: str = "", table: str = "") -> None:
        """Make sure that the caller may do this with a table, a schema or the catalog.

        Raises PermissionDeniedError.
        """
        raise NotImplementedError


def view_of(call: Call, catalog: Catalog) -> Catalog:
    """Return a catalog as the caller may see it, in which names that the caller gave are looked up."""
    view = call.principal.view
    return view if isinstance(view, GuardedCatalog) else catalog


def unguarded(table: Table, *privileges: Privilege) -> Table:
    """Return the table itself if the caller may do all of this to it. Raises PermissionDeniedError."""
    return table.unguarded(*privileges) if isinstance(table, GuardedTable) else table


def partial(call: Call, table: Table) -> GuardedTable | None:
    """Return a table of which the caller may read a part, None if it may read all of it or nothing."""
    return table if isinstance(table, GuardedTable) and table.shows_a_part(call) else None


def check(call: Call, privilege: Privilege, schema: str = "", table: str = "") -> None:
    """Make sure that the caller may do this in the catalog that its call is about.

    Raises PermissionDeniedError.
    """
    view = call.principal.view
    if isinstance(view, GuardedCatalog):
        view.check(privilege, schema, table)
