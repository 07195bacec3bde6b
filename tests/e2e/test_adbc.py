"""ADBC's Flight SQL driver against the server, through its DB-API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions

import sparkport
from sparkport.catalog import Call, CreateSchemaOptions
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(9, 2)),
        "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
        "text": pa.array(["x", "ü", None], pa.large_string()),
    }
)


def connect(server: sparkport.Server, *, autocommit: bool = True, **options: str) -> adbc.Connection:
    """Connect with a user and the token as the password, as BI tools do."""
    location = server.location.replace("grpc://", "grpc+tcp://")
    credentials = {"username": "anybody", "password": TOKEN, **options}
    return adbc.connect(location, db_kwargs=credentials, autocommit=autocommit)


@pytest.fixture
def connection(server: sparkport.Server, catalog: MemoryCatalog) -> Iterator[adbc.Connection]:
    """Connect to an empty schema."""
    catalog.create_schema(Call(), "main", CreateSchemaOptions())
    with connect(server) as made:
        yield made


@pytest.fixture
def cursor(connection: adbc.Connection) -> Iterator[adbc.Cursor]:
    """Return a cursor on a table of two rows."""
    with connection.cursor() as made:
        made.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR)")
        made.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        assert made.rowcount == 2
        yield made


def test_a_definition_runs_exactly_once(cursor: adbc.Cursor) -> None:
    """`execute` sends DDL as a query; a second run would fail."""
    cursor.execute("CREATE TABLE once (a INT)")

    assert cursor.rowcount == 0
    with pytest.raises(adbc.Error, match="ALREADY_EXISTS"):
        cursor.execute("CREATE TABLE once (a INT)")


def test_parameters_are_bound(cursor: adbc.Cursor) -> None:
    """Parameters work in queries and changes, and many rows of them are one statement."""
    cursor.execute("SELECT name FROM t WHERE id >= ? ORDER BY id", (2,))
    assert cursor.fetchall() == [("b",)]
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(3, "c"), (4, None)])
    assert cursor.rowcount == 2
    with pytest.raises(adbc.Error, match="PRIMARY KEY"):
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(5, "e"), (1, "f")])
    cursor.execute("DELETE FROM t WHERE id > ?", (2,))
    assert cursor.rowcount == 2
    with pytest.raises(adbc.Error):
        cursor.execute("SELECT ?", (1, 2))


def test_ingest_in_all_its_modes(connection: adbc.Connection, cursor: adbc.Cursor) -> None:
    """Rows come back in their exact types, whatever the mode that brought them."""
    assert cursor.adbc_ingest("i", ROWS, mode="create") == 3
    with pytest.raises(adbc.Error, match="ALREADY_EXISTS"):
        cursor.adbc_ingest("i", ROWS, mode="create")
    assert cursor.adbc_ingest("i", ROWS, mode="append", db_schema_name="main", catalog_name="db1") == 3
    cursor.execute("SELECT * FROM i")
    assert cursor.fetch_arrow_table() == pa.concat_tables([ROWS, ROWS]).combine_chunks()
    assert cursor.adbc_ingest("i", ROWS.slice(0, 1), mode="replace") == 1
    assert cursor.adbc_ingest("i", ROWS, mode="create_append") == 3
    assert cursor.adbc_ingest("new", ROWS, mode="create_append") == 3
    cursor.execute("SELECT count(*) FROM i")
    assert cursor.fetchall() == [(4,)]
    with pytest.raises(adbc.Error, match="mismatch"):
        cursor.adbc_ingest("i", ROWS.select(["id"]), mode="append")
    with pytest.raises(adbc.Error, match="mismatch"):
        cursor.adbc_ingest("i", pa.table({"other": [1]}), mode="append")
    assert connection.adbc_get_table_schema("i") == ROWS.schema


def test_many_rows_stream(cursor: adbc.Cursor) -> None:
    """A result of many batches comes complete and in order."""
    cursor.execute("SELECT range AS n, repeat('x', 100) AS x FROM range(1000000)")
    reader = cursor.fetch_record_batch()
    numbers = pa.chunked_array([batch.column(0) for batch in reader])

    assert numbers.to_pylist() == list(range(1_000_000))


def test_metadata_is_complete(connection: adbc.Connection, cursor: adbc.Cursor) -> None:
    """ADBC's objects have the tables with their columns and keys."""
    del cursor
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    schema, functions = objects[0]["catalog_db_schemas"]
    (table,) = schema["db_schema_tables"]

    assert objects[0]["catalog_name"] == "db1"
    assert (functions["db_schema_name"], functions["db_schema_tables"]) == ("sparkport", [])
    assert [column["column_name"] for column in table["table_columns"]] == ["id", "name"]
    assert connection.adbc_get_info()["vendor_name"] == "sparkport"
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]


def test_transactions_commit_and_roll_back(server: sparkport.Server, cursor: adbc.Cursor) -> None:
    """Without autocommit statements are seen once they are committed."""
    with connect(server, autocommit=False) as other:
        for end, number in ((other.rollback, 10), (other.commit, 11)):
            with other.cursor() as within:
                within.execute(f"INSERT INTO t VALUES ({number}, 'x')")
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchall() == [(2,)]
            end()
    cursor.execute("SELECT id FROM t WHERE id > 5")
    assert cursor.fetchall() == [(11,)]


def test_closing_a_connection_ends_its_transaction(server: sparkport.Server, cursor: adbc.Cursor) -> None:
    """A transaction that is open when its connection is closed is rolled back; those of others go on."""
    transactions = server.catalogs.get(server.catalogs.default).transactions  # type: ignore[attr-defined]
    cursor.execute("CREATE TABLE left_open (a BIGINT)")
    with connect(server, autocommit=False) as other, other.cursor() as staying:
        staying.execute("INSERT INTO left_open VALUES (1)")
        with connect(server, autocommit=False) as leaving, leaving.cursor() as own:
            own.execute("INSERT INTO left_open VALUES (2)")
            before = transactions._registry._open["user"]
        after = transactions._registry._open["user"]
        other.commit()
    cursor.execute("SELECT a FROM left_open")

    assert before - after == 1
    assert cursor.fetchall() == [(1,)]


def test_a_wrong_token_is_refused(server: sparkport.Server) -> None:
    """Basic with another password than the token does not open a connection."""
    with pytest.raises(adbc.Error, match=r"(?i)unauthenticated|token"):
        adbc.connect(
            server.location.replace("grpc://", "grpc+tcp://"),
            db_kwargs={"username": "anybody", "password": "wrong"},
            autocommit=True,
        ).cursor().execute("SELECT 1")


def test_a_bearer_is_enough(server: sparkport.Server, cursor: adbc.Cursor) -> None:
    """The token can be given as a header."""
    del cursor
    options: dict[str, Any] = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {TOKEN}"}
    location = server.location.replace("grpc://", "grpc+tcp://")
    with adbc.connect(location, db_kwargs=options, autocommit=True) as made, made.cursor() as own:
        own.execute("SELECT 1")
        assert own.fetchall() == [(1,)]
