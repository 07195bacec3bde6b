"""Catalogs as a caller may see them, for tests."""

from __future__ import annotations

from typing import cast

from sparkport.access.decisions import Rights
from sparkport.access.file import parse_rules
from sparkport.access.guard import Guard
from sparkport.catalog import Catalog, DynamicCatalog
from sparkport.catalog.principal import Principal

CATALOG = "lake"


def view(catalog: Catalog, rules: str, principal: str = "ada", *roles: str) -> DynamicCatalog:
    """Return a catalog, under the name `lake`, as a caller may see it by the text of an access file."""
    parsed = parse_rules(rules)
    caller = Principal(principal, roles)
    rights = Rights(parsed, caller.name, parsed.roles_of(caller.name, caller.roles))
    return cast("DynamicCatalog", Guard(rights, 0).catalog(CATALOG, catalog))


def grant(allow: str, thing: str, *, deny: str = "") -> str:
    """Return an access file in which everyone may do something to a thing, such as `tables = "a.b.c"`."""
    words = [f'"{word}"' for word in allow.split()]
    text = f'[[grant]]\nto = "*"\nallow = [{", ".join(words)}]\n{thing}\n'
    if deny:
        words = [f'"{word}"' for word in deny.split()]
        text += f'\n[[grant]]\nto = "*"\ndeny = [{", ".join(words)}]\n{thing}\n'
    return text
