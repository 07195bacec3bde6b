"""A table that DuckDB could have made."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import Flight, descriptor_of

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("active", pa.bool_())])
ROWS = pa.table({"id": [1, 2], "name": ["one", "two"], "active": [True, None]}, schema=COLUMNS)


@pytest.fixture
def table(client: Flight) -> pb.FlightInfo:
    """Make `s.t` with two rows and return how the server describes it."""
    client.create_schema("db1", "s")
    info = client.create_table("db1", "s", "t", COLUMNS)
    client.insert(descriptor_of(info), ROWS)
    return info
