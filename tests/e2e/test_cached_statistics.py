"""Column statistics are those of the snapshot they are asked for, also where a commit comes in between."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.tables import ColumnStatistics
from sparkport.memory import MemoryCatalog
from sparkport.memory.table import MemoryTable
from tests.flight_client import Flight, Headers, descriptor_of


def test_statistics_of_a_later_snapshot_are_not_kept_for_an_earlier_one(
    client: Flight, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that sees the earlier one would leave out rows that match."""
    del catalog
    client.create_schema("db1", "s")
    table = descriptor_of(client.create_table("db1", "s", "t", pa.schema([("n", pa.int64())])))
    client.insert(table, pa.table({"n": [1, 50]}))
    begun = msgspec.msgpack.decode(client.action("create_transaction", {"catalog_name": "db1"})[0])
    transaction = [("airport-transaction-id", begun["identifier"])]
    client.scan(table, [0], headers=transaction)  # it sees this snapshot from now on
    original = MemoryTable.column_statistics

    def late(self: MemoryTable, call: Call, column: str) -> ColumnStatistics:
        monkeypatch.undo()
        client.insert(table, pa.table({"n": [99]}))
        return original(self, call, column)

    monkeypatch.setattr(MemoryTable, "column_statistics", late)
    _greatest(client, table)

    assert _greatest(client, table, transaction) == 50
    assert _greatest(client, table) == 99


def _greatest(client: Flight, table: bytes, headers: Headers = ()) -> object:
    """Return the greatest value of the column that the server knows of."""
    body = {"flight_descriptor": table, "column_name": "n", "type": "BIGINT"}
    (answer,) = client.action("column_statistics", body, headers)
    return pa.ipc.open_stream(answer).read_all()["max"][0].as_py()
