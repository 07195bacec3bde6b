"""What the grants of a file mean for one caller."""

from __future__ import annotations

from dataclasses import dataclass

from sparkport.access.rules import AccessRules, ColumnMask, Grant, Kind, RowFilter
from sparkport.catalog.guards import Privilege
from sparkport.toolkit.bounded_cache import BoundedCache

_MAX_REMEMBERED = 20_000
_BELOW_CATALOG = (Kind.CATALOG, Kind.SCHEMA)
_LINEAGE: dict[Kind, frozenset[Kind]] = {
    Kind.CATALOG: frozenset({Kind.CATALOG}),
    Kind.SCHEMA: frozenset(_BELOW_CATALOG),
    Kind.TABLE: frozenset({*_BELOW_CATALOG, Kind.TABLE}),
    Kind.COLUMN: frozenset({*_BELOW_CATALOG, Kind.TABLE, Kind.COLUMN}),
    Kind.FUNCTION: frozenset({*_BELOW_CATALOG, Kind.FUNCTION}),
    Kind.ACTION: frozenset({Kind.ACTION}),
}
_OF_TABLES = frozenset(Privilege) - {Privilege.EXECUTE, Privilege.SQL, Privilege.CREATE}
# Who may do one of these to a thing may know that it is there.
_IMPLY_BROWSE: dict[Kind, frozenset[Privilege]] = {
    Kind.CATALOG: frozenset(Privilege),
    Kind.SCHEMA: _OF_TABLES | {Privilege.CREATE, Privilege.EXECUTE},
    Kind.TABLE: _OF_TABLES,
    Kind.COLUMN: _OF_TABLES,
    Kind.FUNCTION: frozenset({Privilege.BROWSE, Privilege.EXECUTE, Privilege.ADMIN}),
    Kind.ACTION: frozenset({Privilege.BROWSE, Privilege.EXECUTE}),
}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and the grant that decides it; None if no grant is about it."""

    is_allowed: bool
    grant: Grant | None = None


class Rights:
    """What a caller with some roles may do. A denial wins over everything that allows."""

    def __init__(self, rules: AccessRules, principal: str, roles: frozenset[str]) -> None:
        self.principal = principal
        self.roles = roles
        self._grants = tuple(grant for grant in rules.grants if grant.subjects.include(roles))
        self._filters = tuple(one for one in rules.filters if one.subjects.include(roles))
        self._masks = tuple(one for one in rules.masks if one.subjects.include(roles))
        self._by_columns: BoundedCache[Path, bool] = BoundedCache(_MAX_REMEMBERED)
        self._decisions: BoundedCache[tuple[Privilege, Kind, Path], Decision] = BoundedCache(_MAX_REMEMBERED)

    def decide(self, privilege: Privilege, kind: Kind, path: Path) -> Decision:
        """Return whether the caller may do this to a thing."""
        key = privilege, kind, path
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(privilege, kind, path)
            self._decisions.put(key, decision)
        return decision

    def allow(self, privilege: Privilege, kind: Kind, path: Path) -> bool:
        """Return whether the caller may do this to a thing."""
        return self.decide(privilege, kind, path).is_allowed

    def show(self, kind: Kind, path: Path) -> bool:
        """Return whether the thing exists for the caller: it may be browsed, or something in it."""
        decision = self.decide(Privilege.BROWSE, kind, path)
        if decision.is_allowed or decision.grant is not None:
            return decision.is_allowed
        return any(
            not grant.is_denied and grant.kind is not Kind.ACTION and grant.pattern.reaches_below(path)
            for grant in self._grants
            if kind is not Kind.TABLE or grant.kind is Kind.COLUMN
        )

    def depends_on_columns(self, path: Path) -> bool:
        """Return whether columns of a table differ for the caller, or its rows are restricted."""
        known = self._by_columns.get(path)
        if known is None:
            known = (
                any(grant.kind is Kind.COLUMN and grant.pattern.reaches_below(path) for grant in self._grants)
                or bool(self.filters(path))
                or bool(self.masks_in(path))
            )
            self._by_columns.put(path, known)
        return known

    def has_column_rules(self, path: Path) -> bool:
        """Return whether columns of a table are denied or masked by their names."""
        return any(
            grant.is_denied and grant.kind is Kind.COLUMN and grant.pattern.reaches_below(path)
            for grant in self._grants
        ) or bool(self.masks_in(path))

    def own(self, catalog: str) -> bool:
        """Return whether the caller may do everything with a catalog, so that nothing has to be checked."""
        return self.allow(Privilege.ADMIN, Kind.CATALOG, (catalog,)) and not (
            self._filters or self._masks or any(grant.is_denied for grant in self._grants)
        )

    def filters(self, path: Path) -> tuple[RowFilter, ...]:
        """Return the row filters of a table, which must all be true."""
        return tuple(one for one in self._filters if one.pattern.matches(path))

    def masks_in(self, path: Path) -> tuple[ColumnMask, ...]:
        """Return the masks of columns of a table; of those for one column the first counts."""
        return tuple(one for one in self._masks if one.pattern.reaches_below(path))

    def _decide(self, privilege: Privilege, kind: Kind, path: Path) -> Decision:
        about = [
            grant
            for grant in self._grants
            if grant.kind in _LINEAGE[kind] and grant.pattern.matches(path[: grant.kind.parts])
        ]
        enough = {privilege, Privilege.ADMIN}
        if privilege is Privilege.BROWSE:
            enough |= _IMPLY_BROWSE[kind]
        # What may not be browsed is not there: nothing can be done to it.
        decisive = {privilege, Privilege.BROWSE}
        denied = next(
            (one for one in about if one.is_denied and not decisive.isdisjoint(one.privileges)), None
        )
        if denied is not None:
            return Decision(is_allowed=False, grant=denied)
        allowing = (grant for grant in about if not grant.is_denied)
        allowed = next((grant for grant in allowing if not enough.isdisjoint(grant.privileges)), None)
        return Decision(allowed is not None, allowed)
