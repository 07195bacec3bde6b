"""Whatever a backend can do is either guarded or does not exist for callers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkport.catalog
import sparkport.flight
from sparkport.access import catalogs, schemas, tables
from sparkport.catalog import Call, Catalog, CreateSchemaOptions, CreateTableOptions, Schema, Table
from sparkport.catalog.guards import GuardedCatalog, GuardedTable
from sparkport.memory import MemoryCatalog
from tests.access_views import grant, view

_MODULES = [
    importlib.import_module(f"sparkport.catalog.{module.name}")
    for module in pkgutil.iter_modules(sparkport.catalog.__path__)
]


def _abilities(base: type) -> set[type]:
    found = {
        one
        for module in _MODULES
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__dict__.get("_is_protocol") and base in one.__mro__
    }
    return found - {base, GuardedCatalog, GuardedTable}


@pytest.mark.parametrize(
    ("base", "parts"),
    [(Catalog, catalogs.PARTS), (Schema, schemas.PARTS), (Table, tables.PARTS)],
    ids=["catalog", "schema", "table"],
)
def test_every_ability_is_guarded(base: type, parts: dict[type, type]) -> None:
    """A new protocol of catalogs, schemas or tables needs a part here that checks what callers may do.

    Until it has one, it does not exist for callers with grants; this test asks for a decision.
    """
    assert set(parts) | (catalogs.WITHHELD if base is Catalog else set()) == _abilities(base)


def test_guards_can_do_what_they_guard() -> None:
    """A guarded table has all abilities of the table, no more, and no other public name."""
    catalog = MemoryCatalog()
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    schema.create_table(Call(), "t", pa.schema([("n", pa.int64())]), CreateTableOptions())
    seen = view(catalog, grant("select", 'catalogs = "lake"'))
    seen_schema = seen.schema(Call(), "s")
    assert seen_schema is not None
    pairs: list[tuple[Any, Any, dict[type, Any]]] = [
        (catalog, seen, catalogs.PARTS),
        (schema, seen_schema, schemas.PARTS),
        (schema.table(Call(), "t"), seen_schema.table(Call(), "t"), tables.PARTS),
    ]
    for inner, guarded, parts in pairs:
        assert [one for one in parts if isinstance(guarded, one)] == [
            one for one in parts if isinstance(inner, one)
        ]
        assert not hasattr(type(guarded), "__getattr__")


def test_handlers_ask_for_catalogs_as_the_caller_sees_them() -> None:
    """Nothing in the front but its context reaches for the catalogs: a new dialect cannot forget it."""
    root = Path(sparkport.flight.__file__).parent
    reaching = [
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\bcatalogs\.(get|items|find)\(", path.read_text())
    ]

    assert reaching == ["context.py"]
