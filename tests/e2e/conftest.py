"""A table to send bad requests to."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.flight_client import Flight, path_descriptor

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["one", "two", None]})
TABLE = path_descriptor("db1", "sales", "orders")


def state(client: Flight) -> tuple[bytes, bytes, list[dict[str, object]]]:
    """Return everything that a refused request must leave alone."""
    (listing,) = client.action("list_schemas", {"catalog_name": "db1"})
    (version,) = client.action("catalog_version", {"catalog_name": "db1"})
    return listing, version, client.read(TABLE, 2).to_pylist()


@pytest.fixture
def orders(client: Flight) -> Iterator[Flight]:
    """Offer a table `sales.orders`, and see to it that the test leaves all as it was."""
    client.create_schema("db1", "sales")
    client.create_table("db1", "sales", "orders", ROWS.schema)
    client.insert(TABLE, ROWS)
    before = state(client)
    yield client
    assert state(client) == before
