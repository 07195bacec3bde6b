"""The rights of one caller within one catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from sparkport.access.decisions import Rights
from sparkport.access.rules import Kind
from sparkport.catalog.guards import Privilege
from sparkport.errors import PermissionDeniedError
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_SHAPES = 4096
_MAX_RECENT = 256


@dataclass(frozen=True, slots=True)
class Scope:
    """Decides by paths within a catalog; `generation` counts the states of the access file."""

    rights: Rights
    catalog: str
    generation: int = 0
    shapes: BoundedCache[tuple[str, str, int, frozenset[str]], Any] = field(
        default_factory=lambda: BoundedCache(_MAX_SHAPES), compare=False
    )
    """What the caller sees of the columns of tables (`access.shapes`)."""
    tables: WeakValueDictionary[int, Any] = field(default_factory=WeakValueDictionary, compare=False)
    """The tables that are in use, by the identity of what they guard: caches know tables by theirs."""
    recent: BoundedCache[int, Any] = field(default_factory=lambda: BoundedCache(_MAX_RECENT), compare=False)
    """Keeps the latest of them in use, if they hold no rows."""

    def allow(self, privilege: Privilege, kind: Kind, *path: str) -> bool:
        """Return whether the caller may do this to a thing in the catalog, or to the catalog itself."""
        return self.rights.allow(privilege, kind, (self.catalog, *path))

    def show(self, kind: Kind, *path: str) -> bool:
        """Return whether a thing exists for the caller."""
        return self.rights.show(kind, (self.catalog, *path))

    def require(self, privilege: Privilege, kind: Kind, *path: str) -> None:
        """Raise PermissionDeniedError unless the caller may do this to a thing that exists for it."""
        if not self.allow(privilege, kind, *path):
            raise denied(self.rights.principal, privilege, kind, *(path or (self.catalog,)))


def denied(principal: str, privilege: Privilege, kind: Kind, *path: str) -> PermissionDeniedError:
    """Return the error for something that is not allowed."""
    thing = f"{kind} '{'.'.join(path)}'"
    return PermissionDeniedError(f"'{principal}' may not {privilege} {_OF[privilege]}{thing}")


_OF = {
    Privilege.SELECT: "from ",
    Privilege.INSERT: "into ",
    Privilege.DELETE: "from ",
    Privilege.SQL: "(run SQL) in ",
    Privilege.ADMIN: "(administer) ",
} | dict.fromkeys(
    (
        Privilege.BROWSE,
        Privilege.UPDATE,
        Privilege.CREATE,
        Privilege.ALTER,
        Privilege.DROP,
        Privilege.EXECUTE,
    ),
    "",
)
