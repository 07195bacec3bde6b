"""Bad statements over DoExchange: refused with the exact status, and nothing is kept."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import rowid_field
from sparkport.toolkit import CatalogBuilder
from tests.conftest import TOKEN
from tests.flight_client import Flight, frame, path_descriptor, refusal

from .conftest import ROWS, TABLE


def test_bad_exchanges_are_refused(orders: Flight) -> None:
    """An exchange without descriptor, operation, schema or with other columns is refused at once."""

    def first(data: bytes | None, operation: str = "insert") -> tuple[str, str]:
        exchange = orders.exchange(operation)
        if data is not None:
            exchange.send(data)
        exchange.half_close()
        return refusal(exchange.rest)

    assert first(None) == (
        "INVALID_ARGUMENT",
        "the first message of a DoExchange must have a flight descriptor",
    )
    assert first(frame(app_metadata=b"x")) == (
        "INVALID_ARGUMENT",
        "the first message of a DoExchange must have a flight descriptor",
    )
    assert first(b"\xff")[0] == "INVALID_ARGUMENT"
    assert first(frame(descriptor=TABLE)) == (
        "INVALID_ARGUMENT",
        "the stream ended before its schema message",
    )
    assert refusal(lambda: orders.write("upsert", TABLE, ROWS)) == (
        "INVALID_ARGUMENT",
        "header airport-operation must be insert, update or delete, not 'upsert'",
    )
    assert refusal(lambda: orders.insert(TABLE, ROWS.select(["id"]))) == (
        "INVALID_ARGUMENT",
        "schema mismatch: column mismatch: table has 2 columns, input has 1",
    )
    assert refusal(lambda: orders.write("update", TABLE, ROWS)) == (
        "INVALID_ARGUMENT",
        "schema mismatch: the last column of an UPDATE must be the row id, named 'rowid'",
    )


def test_values_that_do_not_fit_are_refused(orders: Flight) -> None:
    """Values that cannot become the column's type are INVALID_ARGUMENT, and no row of them is kept."""
    texts = pa.table({"id": ["1", "x", "3"], "name": ["a", "b", "c"]})

    assert refusal(lambda: orders.insert(TABLE, texts)) == (
        "INVALID_ARGUMENT",
        "schema mismatch: column 'id' has type int64, input has string",
    )


def test_update_of_a_missing_row_is_not_found(orders: Flight) -> None:
    """An UPDATE of a row id that does not exist is NOT_FOUND and changes nothing."""
    update = pa.table({"name": ["x", "y"], "rowid": pa.array([0, 999999], pa.int64())})

    assert refusal(lambda: orders.write("update", TABLE, update)) == (
        "NOT_FOUND",
        "row_id 999999 not found in table",
    )


@pytest.fixture
def fixed() -> Iterator[Flight]:
    """Offer a read-only table with and one without a row id."""
    marked = pa.table([pa.array([1]), pa.array([0])], schema=pa.schema([("n", pa.int64()), rowid_field()]))
    catalog = CatalogBuilder().schema("s").table("x", pa.table({"n": [1]})).table("y", marked).build()
    with (
        sparkport.Server({"db1": catalog}, port=0, token=TOKEN, grace_seconds=0) as server,
        Flight(server.location, TOKEN) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("operation", "columns", "words"),
    [
        ("insert", ["n"], "INSERT operations"),
        ("update", ["n", "rowid"], "UPDATE (no rowid)"),
        ("delete", ["rowid"], "DELETE (no rowid)"),
    ],
)
def test_table_without_the_ability_is_a_failed_precondition(
    fixed: Flight, operation: str, columns: list[str], words: str
) -> None:
    """A table that cannot be written says so by name."""
    rows = pa.table({name: pa.array([1], pa.int64()) for name in columns})
    expected = ("FAILED_PRECONDITION", f"table 'x' does not support {words}")

    assert refusal(lambda: fixed.write(operation, path_descriptor("db1", "s", "x"), rows)) == expected


def test_read_only_catalog_refuses_ddl(fixed: Flight) -> None:
    """DDL on a catalog that is only read is FAILED_PRECONDITION."""
    assert refusal(lambda: fixed.create_schema("db1", "t")) == (
        "FAILED_PRECONDITION",
        "catalog 'db1' does not support CREATE SCHEMA",
    )
    assert refusal(lambda: fixed.create_table("db1", "s", "t", ROWS.schema)) == (
        "FAILED_PRECONDITION",
        "schema 's' does not support CREATE TABLE",
    )
    change = {"catalog": "db1", "schema": "s", "name": "x", "new_table_name": "z"}
    assert refusal(lambda: fixed.action("rename_table", change)) == (
        "FAILED_PRECONDITION",
        "table 'x' does not support ALTER TABLE",
    )


def test_unknown_transaction_is_refused(orders: Flight) -> None:
    """A transaction id that the server never gave is NOT_FOUND on scans and writes."""
    header = [("airport-transaction-id", "made-up")]
    expected = ("NOT_FOUND", "transaction 'made-up' not found")

    assert refusal(lambda: orders.scan(TABLE, [0], headers=header)) == expected
    assert refusal(lambda: orders.insert(TABLE, ROWS, headers=header)) == expected
