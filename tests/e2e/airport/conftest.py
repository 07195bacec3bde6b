"""A server with an empty catalog, and DuckDB to attach it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkport import Server
from sparkport.memory import MemoryCatalog
from tests.requirements import missing

from .client import DuckDB, Extension, find_extension


@pytest.fixture(scope="session")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Extension:
    """Return the Airport extension, or skip."""
    found = find_extension(tmp_path_factory.mktemp("extensions"))
    if isinstance(found, str):
        missing("airport", found)
    return found


@pytest.fixture
def duckdb(extension: Extension, tmp_path: Path) -> DuckDB:
    """Return DuckDB with a home of its own."""
    return DuckDB(extension, tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a running server with one catalog, `lake`."""
    with Server({"lake": MemoryCatalog()}, port=0, grace_seconds=1.0) as running:
        yield running
