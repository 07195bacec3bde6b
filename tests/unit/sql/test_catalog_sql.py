"""DuckDB's SQL over a catalog: what it reads, what it changes, and what it refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

from sparkport.app.overlay import overlay
from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions, SqlStatement
from sparkport.errors import (
    CancelledError,
    ConstraintViolationError,
    DeadlineExceededError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    NotImplementedByServerError,
    PermissionDeniedError,
    SparkportError,
    UnsupportedOperationError,
    UserCodeError,
)
from sparkport.memory import MemoryCatalog
from sparkport.sql import CatalogSql
from sparkport.toolkit import CatalogBuilder

CREATE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR DEFAULT 'x' || 'y' NOT NULL,"
    " price DECIMAL(9,2) CHECK (price > 0))"
)


class Sql:
    """Runs statements as one caller."""

    def __init__(self, engine: CatalogSql) -> None:
        self.engine = engine
        self.call = Call()

    def update(self, text: str, **values: list[object]) -> int:
        """Run a statement that returns no rows."""
        return self.engine.update_sql(self.call, SqlStatement(text, "db1"), _batch(values))

    def rows(self, text: str, **values: list[object]) -> list[dict[str, object]]:
        """Run a query."""
        rows: list[dict[str, object]] = self.query(text, **values).to_pylist()
        return rows

    def query(self, text: str, **values: list[object]) -> pa.Table:
        """Run a query, and make sure that it was described as it is."""
        statement = SqlStatement(text, "db1")
        table = self.engine.query_sql(self.call, statement, _batch(values)).read_all()
        described = self.engine.describe_sql(self.call, statement, _batch(values))
        assert described.arrow_schema == table.schema
        return table


def _batch(values: dict[str, list[object]]) -> pa.RecordBatch | None:
    return pa.record_batch({name: pa.array(column) for name, column in values.items()}) if values else None


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Return a catalog with an empty schema."""
    made = MemoryCatalog()
    made.create_schema(Call(), "main", CreateSchemaOptions())
    return made


@pytest.fixture
def sql(catalog: MemoryCatalog) -> Sql:
    """Return SQL over a table with two rows."""
    made = Sql(CatalogSql(catalog))
    made.update(CREATE)
    assert made.update("INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2)") == 2
    return made


def test_rows_are_read_with_their_exact_types(catalog: MemoryCatalog) -> None:
    """A column that is passed on has the Arrow type of the table, whatever DuckDB makes of it."""
    columns = pa.schema(
        [
            ("text", pa.large_string()),
            ("word", pa.dictionary(pa.int32(), pa.string())),
            ("seconds", pa.timestamp("s")),
            ("small", pa.float16()),
        ]
    )
    schema = catalog.schema(Call(), "main")
    assert schema is not None
    schema.create_table(Call(), "typed", columns, CreateTableOptions())  # type: ignore[attr-defined]
    made = Sql(CatalogSql(catalog))

    assert made.query("SELECT text, word, seconds FROM typed").schema.types == columns.types[:3]
    assert (
        made.query("SELECT k.text, 1 AS one FROM typed AS k").schema.field("text").type == pa.large_string()
    )


def test_defaults_and_constraints_hold(sql: Sql) -> None:
    """INSERT fills in defaults, and what breaks a constraint leaves nothing."""
    assert sql.update("INSERT INTO t (id) VALUES (3)") == 1
    for text in (
        "INSERT INTO t (id) VALUES (4), (3)",
        "INSERT INTO t (id, price) VALUES (4, -1)",
        "INSERT INTO t (id, name) VALUES (4, NULL)",
        "UPDATE t SET price = -price WHERE price IS NOT NULL",
        "UPDATE t SET id = 1",
    ):
        with pytest.raises(ConstraintViolationError):
            sql.update(text)

    assert sql.rows("SELECT id, name, price FROM t ORDER BY id") == [
        {"id": 1, "name": "a", "price": Decimal("1.50")},
        {"id": 2, "name": "b", "price": Decimal("2.00")},
        {"id": 3, "name": "xy", "price": None},
    ]


@pytest.mark.parametrize(
    ("text", "count", "left"),
    [
        ("INSERT INTO main.t (price, id) SELECT price + 1, id + 10 FROM db1.main.t", 2, [1, 2, 11, 12]),
        ("INSERT INTO t BY NAME SELECT 'z' AS name, 5 AS id", 1, [1, 2, 5]),
        ("WITH n AS (SELECT 7 AS seven) INSERT INTO t (id) SELECT seven FROM n", 1, [1, 2, 7]),
        ("UPDATE t SET id = id + 5 WHERE name = 'a'", 1, [2, 6]),
        ("UPDATE t AS k SET id = o.id + 20, name = DEFAULT FROM t o WHERE o.id = k.id + 1", 1, [2, 22]),
        ('UPDATE "main"."t" SET "id" = (SELECT max(id) FROM t) + 1 WHERE id = 1', 1, [2, 3]),
        ("DELETE FROM t WHERE id IN (SELECT 1)", 1, [2]),
        ("DELETE FROM t USING t AS o WHERE t.id < o.id", 1, [2]),
        ("DELETE FROM t WHERE false", 0, [1, 2]),
        ("TRUNCATE t;", 2, []),
        ("delete from t -- ; all of them", 2, []),
    ],
)
def test_changes_count_their_rows(sql: Sql, text: str, count: int, left: list[int]) -> None:
    """A change says exactly how many rows it has changed."""
    assert sql.update(text) == count
    assert [row["id"] for row in sql.rows("SELECT id FROM t ORDER BY id")] == left


def test_parameters_are_bound(sql: Sql) -> None:
    """Parameters have the types of what they meet, and several rows of them are one statement."""
    described = sql.engine.describe_sql(Call(), SqlStatement("INSERT INTO t VALUES (?, ?, ?)", "db1"), None)
    assert described.arrow_schema is None
    assert described.parameters.types == [pa.int64(), pa.string(), pa.decimal128(9, 2)]
    update = SqlStatement("UPDATE t SET name = ? WHERE id BETWEEN ? AND ?", "db1")
    assert sql.engine.describe_sql(Call(), update, None).parameters.types == [
        pa.string(),
        pa.int64(),
        pa.int64(),
    ]
    assert sql.update("INSERT INTO t VALUES (?, ?, ?)", a=[3, 4], b=["c", "d"], c=[None, None]) == 2
    with pytest.raises(ConstraintViolationError):
        sql.update("INSERT INTO t VALUES (?, ?, ?)", a=[5, 1], b=["c", "d"], c=[None, None])
    assert sql.update("UPDATE t SET name = ? WHERE id = ?", a=["p", "q"], b=[1, 2]) == 2
    assert sql.rows("SELECT name FROM t WHERE id = ?", a=[2, 3]) == [{"name": "q"}, {"name": "c"}]
    for wrong in ("SELECT 1", "SELECT ? + ?", "SELECT $name", "SELECT $2"):
        with pytest.raises(InvalidRequestError):
            sql.query(wrong, a=[1])


def test_definitions_change_the_catalog(sql: Sql) -> None:
    """CREATE, ALTER and DROP do what they do for other clients."""
    assert sql.update("CREATE TABLE u AS SELECT id, name FROM t") == 2
    for text in (
        "ALTER TABLE u ADD COLUMN extra INTEGER DEFAULT 7",
        "ALTER TABLE u RENAME COLUMN name TO label",
        "ALTER TABLE u ALTER id SET DATA TYPE VARCHAR",
        "ALTER TABLE u DROP COLUMN label",
        "ALTER TABLE u RENAME TO v",
        "CREATE SCHEMA s",
        "CREATE SCHEMA IF NOT EXISTS db1.s",
        "CREATE TABLE IF NOT EXISTS t (other INT)",
        "CREATE TABLE s.w (a INT[])",
        "DROP SCHEMA s CASCADE",
        "DROP TABLE IF EXISTS nothing",
    ):
        assert sql.update(text) == 0
    assert sql.rows("FROM v ORDER BY id") == [{"id": "1", "extra": 7}, {"id": "2", "extra": 7}]
    assert [row["name"] for row in sql.rows("SHOW TABLES")] == ["t", "v"]
    assert sql.update("DROP TABLE v") == 0
    with pytest.raises(InvalidRequestError):
        sql.update("CREATE TABLE w AS SELECT 'x'::INT AS broken FROM t")
    with pytest.raises(NotFoundError):
        sql.rows("SELECT * FROM w")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELEC 1", InvalidRequestError),
        ("", InvalidRequestError),
        ("SELECT 1; SELECT 2", InvalidRequestError),
        ("SELECT 1; DROP TABLE t", InvalidRequestError),
        ("SELECT 1\0", InvalidRequestError),
        ("SELECT 'x'::INT", InvalidRequestError),
        ("SELECT 9223372036854775807 + id FROM t", InvalidRequestError),
        ("SELECT nam FROM t", NotFoundError),
        ("SELECT * FROM tt", NotFoundError),
        ("SELECT * FROM other.main.t", NotFoundError),
        ("SELECT * FROM memory.main.t", NotFoundError),
        ("SELECT * FROM information_schema.tables", NotFoundError),
        ("SELECT * FROM '/etc/passwd'", NotFoundError),
        ("SELECT * FROM sql", NotFoundError),
        ("SELECT * FROM temp.main.__sparkport_1", NotFoundError),
        ("SELECT * FROM read_csv('/etc/passwd')", PermissionDeniedError),
        ("SELECT * FROM duckdb_settings()", PermissionDeniedError),
        ("SELECT * FROM query('SELECT 1')", PermissionDeniedError),
        ("EXPLAIN ANALYZE SELECT * FROM glob('/*')", PermissionDeniedError),
        ("EXPLAIN DELETE FROM t", InvalidRequestError),
        ("PRAGMA database_list", InvalidRequestError),
        ("SELECT " + "1 + " * 20_000 + "1", SparkportError),
    ],
)
def test_queries_that_are_refused(sql: Sql, text: str, error: type[Exception]) -> None:
    """What is wrong with a query is an error of the request, and tells no paths."""
    with pytest.raises(error) as failure:
        sql.query(text)
    assert "Traceback" not in str(failure.value)
    assert sql.rows("SELECT count(*) AS n FROM t") == [{"n": 2}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SET threads = 1", NotImplementedByServerError),
        ("ATTACH ':memory:' AS x", NotImplementedByServerError),
        ("COPY t TO '/tmp/x'", NotImplementedByServerError),
        ("INSTALL httpfs", NotImplementedByServerError),
        ("CREATE VIEW v AS SELECT 1", NotImplementedByServerError),
        ("CREATE MACRO m() AS 1", NotImplementedByServerError),
        ("CREATE TEMP TABLE x (a INT)", NotImplementedByServerError),
        ("MERGE INTO t USING t o ON (t.id = o.id) WHEN MATCHED THEN DELETE", NotImplementedByServerError),
        ("INSERT INTO t VALUES (9, 'a', 1) RETURNING id", InvalidRequestError),
        ("INSERT OR REPLACE INTO t VALUES (1, 'a', 1)", InvalidRequestError),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO NOTHING", InvalidRequestError),
        ("INSERT INTO t VALUES (1)", InvalidRequestError),
        ("INSERT INTO t (id, id) VALUES (8, 8)", InvalidRequestError),
        ("INSERT INTO t (nothing) VALUES (8)", NotFoundError),
        ("INSERT INTO nothing VALUES (8)", NotFoundError),
        ("UPDATE t SET nothing = 1", NotFoundError),
        ("UPDATE t SET id = 8, id = 9", InvalidRequestError),
        ("DELETE FROM t WHERE nothing = 1", NotFoundError),
        ("DELETE FROM t WHERE id IN (SELECT x FROM read_csv('/etc/passwd'))", PermissionDeniedError),
        ("INSERT INTO t (id) SELECT a FROM read_csv('/etc/passwd')", PermissionDeniedError),
        ("SELECT 1", InvalidRequestError),
    ],
)
def test_changes_that_are_refused(sql: Sql, text: str, error: type[Exception]) -> None:
    """What cannot be lowered is refused, and nothing changes."""
    with pytest.raises(error):
        sql.update(text)
    assert sql.rows("SELECT count(*) AS n, sum(id)::INT AS s FROM t") == [{"n": 2, "s": 3}]


def test_a_cancelled_query_ends(sql: Sql) -> None:
    """A query whose caller leaves, or whose time is up, is interrupted."""
    text = "SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(100000) b"
    call = Call()
    threading.Timer(0.3, call.cancel).start()
    started = time.monotonic()

    with pytest.raises(CancelledError):
        sql.engine.query_sql(call, SqlStatement(text, "db1"), None).read_all()
    with pytest.raises(DeadlineExceededError):
        sql.engine.query_sql(Call(timeout=0.3), SqlStatement(text, "db1"), None).read_all()
    assert time.monotonic() - started < 20


def test_memory_is_limited(sql: Sql) -> None:
    """A query that needs more memory than there is fails, and the next one works."""
    with pytest.raises(LimitExceededError):
        sql.query("SELECT list(a.range::VARCHAR || repeat('x', 1000)) FROM range(100000000) a")
    assert sql.rows("SELECT 1 AS one") == [{"one": 1}]


def test_tables_of_users_can_be_queried() -> None:
    """A table that only reads can be joined with itself, and not be changed; its failures are its own."""

    def broken() -> pa.RecordBatchReader:
        raise RuntimeError("no luck")

    builder = CatalogBuilder().schema("main").table("numbers", pa.table({"n": [1, 2]}))
    builder.table("broken", reader=broken, arrow_schema=pa.schema([("a", pa.int64())]))
    made = Sql(CatalogSql(builder.build()))

    assert made.rows("SELECT sum(a.n * b.n)::INT AS s FROM numbers a, numbers b") == [{"s": 9}]
    twice = "WITH c AS (SELECT n FROM numbers) SELECT sum(a.n * b.n)::INT AS s FROM c a, c b"
    assert made.rows(twice) == [{"s": 9}]
    with pytest.raises(UnsupportedOperationError):
        made.update("DELETE FROM numbers")
    with pytest.raises(UnsupportedOperationError):
        made.update("INSERT INTO numbers VALUES (3)")
    with pytest.raises(UserCodeError, match="no luck"):
        made.engine.query_sql(Call(), SqlStatement("SELECT * FROM broken", "db1"), None).read_all()


def test_a_table_that_fails_half_way_commits_nothing(catalog: MemoryCatalog) -> None:
    """Rows that a table has given before it failed are neither inserted nor made into a table."""

    def half() -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"a": [1, 2]})
            raise RuntimeError("no luck")

        return pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())

    own = (
        CatalogBuilder().schema("own").table("half", reader=half, arrow_schema=pa.schema([("a", pa.int64())]))
    )
    made = Sql(CatalogSql(overlay(catalog, own.build())))
    made.update("CREATE TABLE main.t (a BIGINT)")

    for text in (
        "INSERT INTO main.t SELECT a FROM own.half",
        "CREATE TABLE main.u AS SELECT a FROM own.half",
    ):
        with pytest.raises(UserCodeError, match="no luck"):
            made.update(text)
    assert made.rows("SELECT count(*) AS n FROM main.t") == [{"n": 0}]
    with pytest.raises(NotFoundError):
        made.rows("SELECT * FROM main.u")


def test_one_value_cannot_take_the_memory_of_the_server(sql: Sql) -> None:
    """A value that DuckDB would compute for minutes without a look at interrupts is refused."""
    for text in (
        "SELECT repeat('x', 2000000000)",
        "SELECT list_reduce(range(100000000), lambda x, y: x + y)",
    ):
        with pytest.raises(LimitExceededError):
            sql.query(text)
    assert sql.rows("SELECT 1 AS one") == [{"one": 1}]


def test_a_limit_ends_a_stream_early(catalog: MemoryCatalog) -> None:
    """A statement that reads only some of the rows of a table leaves the database usable."""
    made = Sql(CatalogSql(catalog))
    made.update("CREATE TABLE big AS SELECT range AS n, repeat('x', 100) AS x FROM range(300000)")

    for _ in range(3):
        assert len(made.rows("SELECT n FROM big LIMIT 2")) == 2
    assert made.rows("SELECT count(*) AS n FROM big") == [{"n": 300_000}]
