"""CREATE TABLE AS comes as two calls: the table goes again when its rows do not arrive."""

from __future__ import annotations

import time

import msgspec
import pyarrow as pa
import pytest

from tests.flight_client import Flight, batch_frames, descriptor_of, refusal

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})
BAD = pa.table({"n": pa.array(["x"], pa.string())})
PROCESS = [("airport-client-session-id", "0b0e7c3e-6d0f-4a0c-8d57-1f2f5f6f7a01")]
OTHER = [("airport-client-session-id", "0b0e7c3e-6d0f-4a0c-8d57-1f2f5f6f7a02")]

Headers = list[tuple[str, str]]


def begun(client: Flight, process: Headers) -> Headers:
    """Begin a transaction as DuckDB does before each statement; return the headers of its calls."""
    (body,) = client.action("create_transaction", {"catalog_name": "db1"}, process)
    return [*process, ("airport-transaction-id", msgspec.msgpack.decode(body)["identifier"])]


def made(client: Flight, process: Headers, on_conflict: str = "error") -> bytes:
    """Make the table `s.t` and return its descriptor."""
    client.headers += process
    try:
        info = client.create_table("db1", "s", "t", ROWS.schema, on_conflict=on_conflict)
    finally:
        del client.headers[-len(process) :]
    return descriptor_of(info)


def tables(client: Flight) -> int:
    """Return how many tables there are."""
    return len(client.list_flights())


@pytest.fixture
def shop(client: Flight) -> Flight:
    """Return a client of a server with an empty schema."""
    client.create_schema("db1", "s")
    return client


def test_rows_that_are_refused_take_their_table_with_them(shop: Flight) -> None:
    """Nothing is left of the statement, and it can be run again."""
    statement = begun(shop, PROCESS)
    table = made(shop, PROCESS)
    code, _ = refusal(lambda: shop.insert(table, BAD, headers=statement))
    left = tables(shop)
    statement = begun(shop, PROCESS)

    assert (code, left) == ("INVALID_ARGUMENT", 0)
    assert shop.insert(made(shop, PROCESS), ROWS, headers=statement) == 2


def test_client_that_goes_away_leaves_no_table(shop: Flight) -> None:
    """An exchange that is cancelled is a statement that has failed."""
    statement = begun(shop, PROCESS)
    exchange = shop.exchange("insert", headers=statement)
    exchange.open(made(shop, PROCESS), ROWS.schema)
    exchange.send(batch_frames(ROWS)[0])
    exchange.call.cancel()
    deadline = time.monotonic() + 10
    while tables(shop) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert tables(shop) == 0


def test_table_that_has_rows_of_another_stays(shop: Flight) -> None:
    """What others have written into it meanwhile was promised to them."""
    statement = begun(shop, PROCESS)
    table = made(shop, PROCESS)
    shop.insert(table, ROWS, headers=begun(shop, OTHER))
    refusal(lambda: shop.insert(table, BAD, headers=statement))

    assert shop.read(table, 1)["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("process", [PROCESS, OTHER])
def test_table_of_a_statement_before_stays(shop: Flight, process: Headers) -> None:
    """A CREATE TABLE is not undone by an INSERT of its own, whoever sends that."""
    begun(shop, PROCESS)
    table = made(shop, PROCESS)
    later = begun(shop, process)
    refusal(lambda: shop.insert(table, BAD, headers=later))
    refusal(lambda: shop.insert(table, BAD))

    assert tables(shop) == 1


def test_table_that_was_there_stays(shop: Flight) -> None:
    """IF NOT EXISTS may have made nothing."""
    made(shop, PROCESS)
    statement = begun(shop, PROCESS)
    table = made(shop, PROCESS, "ignore")
    refusal(lambda: shop.insert(table, BAD, headers=statement))

    assert tables(shop) == 1
