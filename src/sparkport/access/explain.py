"""Say what holds for a caller and a table, and why."""

from __future__ import annotations

from collections.abc import Iterator

from sparkport.access.decisions import Decision, Rights
from sparkport.access.rules import AccessRules, Kind
from sparkport.catalog.guards import Privilege

_OF_TABLES = [privilege for privilege in Privilege if privilege in Kind.TABLE.privileges]


def explain(rules: AccessRules, principal: str, brought: frozenset[str], path: tuple[str, ...]) -> str:
    """Return what a caller may do with a table, and which lines of the access file say so.

    `brought` are the roles of the credentials; `path` names catalog, schema and table.
    """
    roles = rules.roles_of(principal, brought)
    rights = Rights(rules, principal, roles)
    return "\n".join(_lines(rules, rights, path))


def _lines(rules: AccessRules, rights: Rights, path: tuple[str, ...]) -> Iterator[str]:
    roles = ", ".join(sorted(rights.roles)) or "none"
    yield f"{rights.principal} has the roles: {roles}"
    if not all(rights.show(kind, path[: kind.parts]) for kind in (Kind.CATALOG, Kind.SCHEMA, Kind.TABLE)):
        yield f"{'.'.join(path)} does not exist for {rights.principal}"
    yield f"{'.'.join(path)}:"
    for privilege in _OF_TABLES:
        yield f"  {privilege:8} {_reason(rights.decide(privilege, Kind.TABLE, path))}"
    for grant in rules.grants:
        is_about = grant.kind is Kind.COLUMN and grant.pattern.reaches_below(path)
        if is_about and grant.subjects.include(rights.roles):
            word = "denied" if grant.is_denied else "allowed"
            privileges = ", ".join(sorted(grant.privileges))
            yield f"  {privileges} {word} on {grant.pattern.text} (line {grant.line})"
    for one in rights.filters(path):
        yield f"  only rows with {one.condition} (line {one.line})"
    for mask in rights.masks_in(path):
        yield f"  {mask.pattern.text} is shown as {mask.expression} (line {mask.line})"


def _reason(decision: Decision) -> str:
    word = "yes" if decision.is_allowed else "no"
    if decision.grant is None:
        return f"{word:4} (nothing grants it)"
    grant = decision.grant
    what = "denied" if grant.is_denied else "granted"
    return f"{word:4} ({what} on {grant.kind} {grant.pattern.text}, line {grant.line})"
