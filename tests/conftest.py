"""What tests with a running server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparkport
from sparkport.memory import MemoryCatalog
from tests.flight_client import Flight

TOKEN = "secret-token"


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Return an empty catalog, served as `db1`."""
    return MemoryCatalog()


@pytest.fixture
def server(catalog: MemoryCatalog) -> Iterator[sparkport.Server]:
    """Serve the catalog on a free port."""
    with sparkport.Server(
        {"db1": catalog}, port=0, token=TOKEN, default_catalog="db1", grace_seconds=0.2
    ) as running:
        yield running


@pytest.fixture
def client(server: sparkport.Server) -> Iterator[Flight]:
    """Call the server as DuckDB's Airport extension does."""
    with Flight(server.location, TOKEN) as flight:
        yield flight


@pytest.fixture
def plain(server: sparkport.Server) -> Iterator[Flight]:
    """Call the server as any other Flight client does."""
    with Flight(server.location, TOKEN, airport=False) as flight:
        yield flight
