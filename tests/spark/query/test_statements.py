"""Spark SQL over Flight SQL: queries with parameters, by ADBC's driver and through the catalog itself."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from decimal import Decimal

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, CreateTableOptions, SqlStatement
from sparkport.errors import (
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    PermissionDeniedError,
)
from sparkport.protocol import flight_sql_pb2 as sql
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.query.placeholders import parameter_schema, with_values
from tests.flight_client import Flight, refusal
from tests.sql_client import descriptor, query

ROWS = pa.table(
    {
        "n": pa.array([1, 2, 3], pa.uint32()),
        "price": pa.array([Decimal("1.50"), None, Decimal(3)], pa.decimal128(9, 2)),
        "text": ["it's", "b\\", "c?"],
    }
)


@pytest.fixture(scope="module")
def prices(schema: SparkSchema) -> str:
    """Make a table and return its name."""
    table = schema.create_table(Call(), "prices", ROWS.schema, CreateTableOptions())
    table.insert(Call(), ROWS.to_reader())
    return f"{schema.name}.prices"


@pytest.fixture(scope="module")
def connection(catalog: SparkCatalog) -> Iterator[adbc.Connection]:
    """Connect to a server of the catalog."""
    with sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server:
        location = server.location.replace("grpc://", "grpc+tcp://")
        with adbc.connect(location, db_kwargs={"username": "u", "password": "t"}, autocommit=True) as made:
            yield made


def test_rows_have_their_exact_types(connection: adbc.Connection, prices: str) -> None:
    """SELECT * has the declared columns in their order, with their types."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {prices} ORDER BY n")
        rows = cursor.fetch_arrow_table()
        cursor.execute(f"SELECT sum(n) AS total, count(*) AS rows FROM {prices}")
        total = cursor.fetchall()

    assert rows.schema.types == ROWS.schema.types
    assert rows.to_pydict() == ROWS.to_pydict()
    assert total == [(6, 3)]


def test_columns_of_one_name_are_told_apart(connection: adbc.Connection, prices: str) -> None:
    """Clients of SQL read columns by position."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT n, text, n + 1 AS N, upper(text) AS text FROM {prices} WHERE n = 1")
        rows = cursor.fetch_arrow_table()

    assert rows.column_names == ["n", "text", "N", "text"]
    assert [column.to_pylist() for column in rows.columns] == [[1], ["it's"], [2], ["IT'S"]]


def test_parameters_are_literals(connection: adbc.Connection, prices: str) -> None:
    """Texts with quotes and backslashes are values, never SQL; a ? in a text is no parameter."""
    with connection.cursor() as cursor:
        for text in ("it's", "b\\", "c?"):
            cursor.execute(f"SELECT n FROM {prices} WHERE text = ? AND text <> '?' -- ?", (text,))
            assert cursor.fetchall() == [(ROWS["text"].to_pylist().index(text) + 1,)]
        hostile = "' OR 1 = 1 --"
        cursor.execute(f"SELECT n FROM {prices} WHERE text = ?", (hostile,))
        assert cursor.fetchall() == []
        values = (1.5, True, None, Decimal("2.50"), dt.date(2024, 2, 29), b"\0\xff", 2**40)
        cursor.execute("SELECT ? AS a, ? AS b, ? AS c, ? AS d, ? AS e, ? AS f, ? AS g", values)
        assert cursor.fetchall() == [values]


def test_parameters_may_have_parts(catalog: SparkCatalog) -> None:
    """Lists and structs are bound as such, durations exactly, with all texts in them as values."""
    values: dict[str, list[object]] = {
        "a": [["x'", None, "?"]],
        "b": [{"k'`?": 1, "l": [True]}],
        "c": [dt.timedelta(days=-1, microseconds=1)],
    }
    statement = SqlStatement("SELECT ? AS a, ? AS b, ? AS c", "lake")
    with catalog.query_sql(Call(), statement, pa.RecordBatch.from_pydict(values)) as reader:
        (row,) = reader.read_all().to_pylist()

    assert row == {name: value[0] for name, value in values.items()}


@pytest.mark.parametrize(
    ("text", "count"),
    [("SELECT r'\\', '?', ?", 1), ('SELECT R"\\", "?"', 0), ("SELECT '\\'?', ? -- ?\n/* ? */", 1)],
)
def test_parameters_are_told_from_texts(text: str, count: int) -> None:
    """Also in raw literals, in which a backslash is no escape."""
    assert len(parameter_schema(text, {})) == count
    assert "NULL" not in with_values(text, [1] * count)


def test_nested_comments_and_parameters_do_not_go_together() -> None:
    """A value could end the comment and go on as SQL."""
    with pytest.raises(InvalidRequestError, match="comment within a comment"):
        with_values("SELECT 1 /* /* */ ? */", ["*/ FROM secrets --"])


def test_parameters_are_described(catalog: SparkCatalog, schema: SparkSchema, prices: str) -> None:
    """A parameter has the type of the column that it is compared with, whatever other tables have."""
    schema.create_table(Call(), "before", pa.schema([("n", pa.string())]), CreateTableOptions())
    statement = SqlStatement(f"SELECT text FROM {prices} WHERE price >= ? AND ? = n AND text LIKE ?", "lake")
    described = catalog.describe_sql(Call(), statement, None)

    assert described.arrow_schema == pa.schema([("text", pa.string())])
    assert described.parameters.types == [pa.decimal128(9, 2), pa.uint32(), pa.string()]
    with pytest.raises(InvalidRequestError):
        catalog.query_sql(Call(), statement, pa.record_batch({"a": [1]}))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELEC 1", InvalidRequestError),
        ("SELECT 1; SELECT 2", InvalidRequestError),
        ("SELECT * FROM nothing", NotFoundError),
        ("SELECT reflect('java.lang.System', 'exit', 1)", PermissionDeniedError),
        ("INSERT INTO x VALUES (1)", NotFoundError),
        ("SET spark.sql.ansi.enabled = false", NotImplementedByServerError),
        ("EXPLAIN DROP TABLE nothing", InvalidRequestError),
        ("EXPLAIN SELECT * FROM parquet.`/etc/passwd`", NotFoundError),
    ],
)
def test_what_is_not_allowed_is_refused(catalog: SparkCatalog, text: str, error: type[Exception]) -> None:
    """The rules of the function `query` hold."""
    with pytest.raises(error):
        catalog.describe_sql(Call(), SqlStatement(text, "lake"), None)


def test_ingest_and_metadata_work_on_delta_tables(connection: adbc.Connection, prices: str) -> None:
    """Rows are created, appended and replaced; the listing has their exact schema."""
    schema = prices.partition(".")[0]
    with connection.cursor() as cursor:
        for mode, count in (("create", 3), ("append", 6), ("replace", 3), ("create_append", 6)):
            assert cursor.adbc_ingest("ingested", ROWS, mode=mode, db_schema_name=schema) == 3  # type: ignore[arg-type]
            cursor.execute(f"SELECT count(*) AS n FROM {schema}.ingested")
            assert cursor.fetchall() == [(count,)]
        with pytest.raises(adbc.Error, match="INVALID_ARGUMENT"):
            cursor.execute(f"DELETE FRM {prices}")
    assert connection.adbc_get_table_schema("ingested", db_schema_filter=schema) == ROWS.schema


def test_a_running_query_is_cancelled(catalog: SparkCatalog) -> None:
    """Spark stops working on it, the client that reads it is told, and the next query runs."""
    forever = "SELECT sum(a.id * b.id) AS s FROM range(1000000) a CROSS JOIN range(1000000) b"
    with (
        sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server,
        Flight(server.location, "t", airport=False) as flight,
        ThreadPoolExecutor(1) as pool,
    ):
        info = flight.flight_info(descriptor(sql.CommandStatementQuery(query=forever)))
        reading = pool.submit(refusal, lambda: flight.get(info.endpoint[0].ticket.ticket))
        wait([reading], timeout=3)  # so that it is likely to run; a cancelled ticket is refused as well
        request = sql.CancelFlightInfoRequest(info=info.SerializeToString())
        flight.action("CancelFlightInfo", request.SerializeToString())
        code, _ = reading.result(timeout=30)

        assert code == "CANCELLED"
        assert query(flight, "SELECT count(*) AS n FROM range(10)") == [{"n": 10}]


def test_places_of_errors_are_those_in_the_text_that_was_sent(
    connection: adbc.Connection, prices: str
) -> None:
    """Parameters that stand before a mistake do not shift its place."""
    with connection.cursor() as cursor:
        for text, place in (
            (f"SELECT n FROM {prices}\nWHERE n = ? AND AND n > 1", r"line 2, position 2[0-9]"),
            (f"UPDATE {prices}\nSET n = ? WHERE AND n > 1", r"line 2, position 2[0-9]"),
        ):
            with pytest.raises(adbc.ProgrammingError, match=place):
                cursor.execute(text, (1,))


def test_a_session_has_settings_of_its_own(catalog: SparkCatalog, prices: str) -> None:
    """SET, RESET and headers of connections change them, for nobody else."""
    quotes = "spark.sql.ansi.doubleQuotedIdentifiers"
    path = ".".join(f'"{part}"' for part in prices.split("."))
    words = f'SELECT upper("text") AS "t?" FROM {path} WHERE "n" = ?'
    cookies = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
    with sparkport.Server({"lake": catalog}, port=0, token="t", default_catalog="lake") as server:
        location = server.location.replace("grpc://", "grpc+tcp://")
        login = {"username": "u", "password": "t"}
        with (
            adbc.connect(location, db_kwargs=login | cookies, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"SET {quotes} = true")
            cursor.execute("SET spark.sql.shuffle.partitions = 3")
            cursor.execute(words, (1,))
            assert cursor.fetchall() == [("IT'S",)]
            cursor.execute(f"SET {quotes}")
            assert cursor.fetchall() == [(quotes, "true")]
            with pytest.raises(adbc.ProgrammingError, match="from 1 to 1000"):
                cursor.execute("SET spark.sql.shuffle.partitions = 0")
            cursor.execute("RESET spark.sql.shuffle.partitions")
            cursor.execute("SET")
            assert dict(cursor.fetchall())["spark.sql.shuffle.partitions"] == "<default>"
            cursor.execute("RESET")
            cursor.execute(f"SET {quotes}")
            assert cursor.fetchall() == [(quotes, "<default>")]
        header = {f"adbc.flight.sql.rpc.call_header.{quotes.lower()}": "true"}
        with (
            adbc.connect(location, db_kwargs=login | header, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(words, (2,))
            assert cursor.fetchall() == [("B\\",)]
