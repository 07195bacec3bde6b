"""One suite over every engine: add a factory to CATALOGS, and all of it must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

import pytest

from sparkport.catalog import Call, CreateSchemaOptions, DynamicSchema
from sparkport.memory import MemoryCatalog
from tests.behaviour.engine import FullCatalog

CATALOGS: dict[str, Callable[[], FullCatalog]] = {
    "memory": lambda: cast("FullCatalog", MemoryCatalog()),
}

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=CATALOGS)
def catalog(request: pytest.FixtureRequest) -> FullCatalog:
    """Return a catalog of each engine, shared by all tests."""
    return CATALOGS[request.param]()


@pytest.fixture
def schema_name() -> str:
    """Return a name that no other test uses."""
    return f"behaviour_{next(_numbers)}"


@pytest.fixture
def schema(catalog: FullCatalog, schema_name: str) -> DynamicSchema:
    """Return an empty schema of the test's own."""
    made = catalog.create_schema(Call(), schema_name, CreateSchemaOptions())
    assert isinstance(made, DynamicSchema)
    return made
