"""Who calls: a name, roles, and how the caller came in."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Self


class WayIn(enum.StrEnum):
    """By what a caller was recognised."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105  (a word, not a secret)
    PASSWORD = "password"  # noqa: S105  (a word, not a secret)
    JWT = "jwt"
    CERTIFICATE = "certificate"
    CUSTOM = "custom"


class Principal(str):  # noqa: SLOT000  (a text cannot have slots)
    """The name of a caller, which is all that makes two of them the same.

    `roles` are those that the credentials brought along; a file with grants may know more. `view` is a
    catalog as this caller may see it, or None: an engine that looks up a table by a name in an argument or a
    statement looks there, if it is set, and not in its own catalog (see `catalog.guards`).
    """

    roles: frozenset[str]
    way_in: WayIn
    view: object

    def __new__(
        cls,
        name: str,
        roles: Iterable[str] = (),
        way_in: WayIn = WayIn.NONE,
        view: object = None,
    ) -> Self:
        """Return the principal of a name."""
        principal = super().__new__(cls, name)
        principal.roles = frozenset(roles)
        principal.way_in = way_in
        principal.view = view
        return principal

    @property
    def name(self) -> str:
        """The name as a plain text."""
        return str.__str__(self)

    def __deepcopy__(self, memo: object) -> Principal:
        """Return itself: it never changes, and a view is not to be copied."""
        del memo
        return self

    def seeing(self, view: object) -> Principal:
        """Return the same caller with a view of a catalog."""
        return Principal(self, self.roles, self.way_in, view)
