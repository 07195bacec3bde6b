"""Queries that refer to no column get as many rows as there are, without a scan."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions
from sparkport.memory import MemoryCatalog
from sparkport.memory.table import MemoryTable
from tests.flight_client import ROWID, Flight, Headers, descriptor_of, table_of

_NOTHING = '{"filters":[],"column_binding_names_by_index":[]}'
_ROWID = '{"filters":[],"column_binding_names_by_index":["rowid"]}'


@pytest.fixture
def numbers(client: Flight, catalog: MemoryCatalog) -> bytes:
    """Return the descriptor of a table with three rows."""
    del catalog
    client.create_schema("db1", "s")
    table = descriptor_of(
        client.create_table("db1", "s", "t", pa.schema([("n", pa.int64()), ("t", pa.string())]))
    )
    client.insert(table, pa.table({"n": [7, 8, 9], "t": ["a", "b", "c"]}))
    return table


def test_rows_are_counted_without_a_scan(
    client: Flight, numbers: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, or the engine, knows how many there are."""

    def scan(self: MemoryTable, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        raise AssertionError(self, call, options)

    monkeypatch.setattr(MemoryTable, "scan", scan)

    assert _count(client, numbers) == 3


def test_a_query_of_row_ids_gets_true_ones(client: Flight, numbers: bytes) -> None:
    """A DELETE without WHERE asks for the same column, and would delete other rows."""
    (ticket,) = client.scan(numbers, [ROWID], filters=_ROWID)

    ids = table_of(client.get(ticket)).column(2).to_pylist()

    assert len(set(ids)) == 3
    assert None not in ids


def test_a_client_that_does_not_say_what_it_refers_to_gets_values(client: Flight, numbers: bytes) -> None:
    """Without the optimizer DuckDB says nothing."""
    (ticket,) = client.scan(numbers, [0])

    assert table_of(client.get(ticket))["n"].to_pylist() == [7, 8, 9]


def test_several_columns_are_read_whatever_the_query_refers_to(client: Flight, numbers: bytes) -> None:
    """DuckDB counts with a single one."""
    (ticket,) = client.scan(numbers, [0, 1], filters=_NOTHING)

    assert table_of(client.get(ticket))["t"].to_pylist() == ["a", "b", "c"]


def test_the_count_is_that_of_the_snapshot(client: Flight, numbers: bytes) -> None:
    """That of the transaction, or of the moment when the scan was planned."""
    begun = msgspec.msgpack.decode(client.action("create_transaction", {"catalog_name": "db1"})[0])
    transaction = [("airport-transaction-id", begun["identifier"])]
    assert _count(client, numbers, transaction) == 3
    (early,) = client.scan(numbers, [ROWID], filters=_NOTHING)

    client.insert(numbers, pa.table({"n": [10], "t": ["d"]}))

    assert _count(client, numbers, transaction) == 3
    assert _count(client, numbers) == 4
    assert table_of(client.get(early)).num_rows == 3


def _count(client: Flight, table: bytes, headers: Headers = ()) -> int:
    tickets = client.scan(table, [ROWID], filters=_NOTHING, headers=headers)
    return sum(table_of(client.get(ticket, headers)).num_rows for ticket in tickets)
