"""Grants, row filters and column masks as values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkport.access.patterns import NamePattern
from sparkport.catalog.guards import Privilege

EVERYONE = "*"


class Kind(enum.StrEnum):
    """What a rule is about."""

    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    COLUMN = "column"
    FUNCTION = "function"
    ACTION = "action"

    @property
    def parts(self) -> int:
        """Of how many names the path of such a thing consists."""
        return _PARTS[self]

    @property
    def privileges(self) -> frozenset[Privilege]:
        """What can be granted on such a thing."""
        return _PRIVILEGES.get(self, frozenset(Privilege))


_PARTS = {
    Kind.CATALOG: 1,
    Kind.SCHEMA: 2,
    Kind.TABLE: 3,
    Kind.COLUMN: 4,
    Kind.FUNCTION: 3,
    Kind.ACTION: 1,
}
_ROWS = frozenset({Privilege.SELECT, Privilege.INSERT, Privilege.UPDATE, Privilege.DELETE})
_PRIVILEGES = {
    Kind.SCHEMA: frozenset(Privilege) - {Privilege.SQL},
    Kind.TABLE: _ROWS
    | {Privilege.BROWSE, Privilege.CREATE, Privilege.ALTER, Privilege.DROP, Privilege.ADMIN},
    Kind.COLUMN: frozenset({Privilege.BROWSE, Privilege.SELECT, Privilege.UPDATE}),
    Kind.FUNCTION: frozenset({Privilege.BROWSE, Privilege.EXECUTE}),
    Kind.ACTION: frozenset({Privilege.BROWSE, Privilege.EXECUTE}),
}


@dataclass(frozen=True, slots=True)
class Subjects:
    """Whom a rule is for: roles, without those who have one of the other roles too."""

    roles: frozenset[str]
    unless: frozenset[str] = frozenset()

    def include(self, roles: frozenset[str]) -> bool:
        """Return whether the rule is for a caller with these roles."""
        return (EVERYONE in self.roles or not self.roles.isdisjoint(roles)) and self.unless.isdisjoint(roles)


@dataclass(frozen=True, slots=True)
class Grant:
    """Lets some roles do something, or forbids it."""

    subjects: Subjects
    kind: Kind
    pattern: NamePattern
    privileges: frozenset[Privilege]
    is_denied: bool
    line: int


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Lets some roles see only the rows of some tables for which a condition is true."""

    subjects: Subjects
    pattern: NamePattern
    condition: str
    line: int


@dataclass(frozen=True, slots=True)
class ColumnMask:
    """Shows some roles the value of an expression instead of that of some columns."""

    subjects: Subjects
    pattern: NamePattern
    expression: str
    line: int


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Everything that a file says."""

    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The principals of each role."""
    grants: tuple[Grant, ...] = ()
    filters: tuple[RowFilter, ...] = ()
    masks: tuple[ColumnMask, ...] = ()

    def roles_of(self, principal: str, brought: frozenset[str]) -> frozenset[str]:
        """Return the roles of a caller: those brought along that the file knows, and those it gives."""
        given = {role for role, members in self.members.items() if principal in members}
        return frozenset(given | (brought & self.members.keys()))
