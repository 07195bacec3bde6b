"""Plain SELECTs, read as scans: with the same rows and columns as Spark SQL, and without it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions, SqlCatalog, SqlStatement
from sparkport.errors import NotFoundError, PermissionDeniedError, SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.query.function import Query
from tests.access_views import CATALOG, grant, view

_ZONED = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "Text": ["a", "B", None, "ü"],
        "price": pa.array([Decimal("1.50"), Decimal(2), None, Decimal("-1.00")], pa.decimal128(9, 2)),
        "day": pa.array([dt.date(2024, 1, 1), None, dt.date(1969, 1, 1), dt.date(2024, 2, 29)], pa.date32()),
        "at": pa.array([_ZONED, None, _ZONED, _ZONED], pa.timestamp("us", "UTC")),
        "yes": [True, False, None, True],
        "ratio": [1.0, float("nan"), None, -0.0],
        "small": pa.array([1, 2, 3, 4], pa.uint8()),
        "odd name": ["x", "y", "z", None],
    }
)
PLAIN = [
    "SELECT * FROM {t}",
    "SELECT TEXT, id AS number FROM {t}",
    "SELECT x.id FROM {t} AS x WHERE x.id > 1 AND x.id <= 3",
    "SELECT id FROM {t} WHERE text >= 'B'",
    "SELECT id FROM {t} WHERE text <> 'a'",
    "SELECT id FROM {t} WHERE text IN ('a', 'ü')",
    "SELECT id FROM {t} WHERE price = 2",
    "SELECT id FROM {t} WHERE price BETWEEN -1 AND 1",
    "SELECT id FROM {t} WHERE day > DATE '1970-01-01'",
    "SELECT id FROM {t} WHERE yes = TRUE",
    "SELECT id FROM {t} WHERE ratio IS NULL",
    "SELECT id, `odd name` FROM {t} WHERE `odd name` IS NOT NULL",
    "SELECT 1, 'a' AS b, TRUE",
]
NOT_PLAIN = [
    "SELECT id FROM {t} WHERE ratio > 1",
    "SELECT id FROM {t} WHERE id = '2'",
    "SELECT id FROM {t} WHERE id = 3000000000",
    "SELECT id FROM {t} WHERE small = 2",
    "SELECT id FROM {t} WHERE day = '2024-01-01'",
    "SELECT current_date FROM {t}",
    "SELECT id, id AS ID FROM {t}",
]


@pytest.fixture(scope="module")
def table(schema: SparkSchema) -> str:
    """Make a table and return its name."""
    made = schema.create_table(Call(), "values", ROWS.schema, CreateTableOptions())
    made.insert(Call(), ROWS.to_reader())
    return f"{schema.name}.`values`"


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let every query that Spark would analyse fail."""

    def fail(self: Query, *_: object) -> None:
        raise AssertionError(f"{self.name} was run by Spark")

    for name in ("schema_for_parameters", "execute", "parse"):
        monkeypatch.setattr(Query, name, fail)
    return monkeypatch


def answer(
    catalog: SparkCatalog,
    sql: str,
    values: pa.RecordBatch | None = None,
    *,
    schema: str = "",
    time_zone: str = "",
) -> pa.Table:
    """Describe and run a query; the description must hold."""
    statement = SqlStatement(sql, "lake", schema, time_zone)
    description = catalog.describe_sql(Call(), statement, values)
    parts = [
        catalog.query_sql(Call(), replace(statement, part=part), values).read_all()
        for part in description.parts
    ]
    assert all(part.schema == description.arrow_schema for part in parts)
    return pa.concat_tables(parts)


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows in an order of their own; NaN equals itself by its text."""
    return sorted((tuple(map(str, row.values())) for row in table.to_pylist()), key=str)


@pytest.mark.parametrize("sql", PLAIN)
def test_a_plain_select_means_what_spark_says(
    catalog: SparkCatalog, table: str, without_spark: pytest.MonkeyPatch, sql: str
) -> None:
    """Rows, names and types are the same as of a query that only Spark understands."""
    text = sql.format(t=table)
    plain = answer(catalog, text)
    without_spark.undo()
    by_spark = answer(catalog, f"SELECT * FROM ({text})")

    assert plain.schema.names == by_spark.schema.names
    assert plain.schema.types == by_spark.schema.types
    assert rows_of(plain) == rows_of(by_spark)


@pytest.mark.parametrize("sql", NOT_PLAIN)
def test_what_needs_a_conversion_is_left_to_spark(
    catalog: SparkCatalog, table: str, without_spark: pytest.MonkeyPatch, sql: str
) -> None:
    """Spark decides how it compares values of different types."""
    with pytest.raises(AssertionError, match="run by Spark"):
        answer(catalog, sql.format(t=table))
    without_spark.undo()

    assert answer(catalog, sql.format(t=table)).num_columns


@pytest.mark.usefixtures("without_spark")
def test_a_prepared_look_up_needs_no_spark(catalog: SparkCatalog, table: str) -> None:
    """Its parameters have the types of their columns before they have values."""
    sql = f"SELECT text FROM {table} WHERE id = ? AND at = ? AND text IN (?)"
    described = catalog.describe_sql(Call(), SqlStatement(sql, "lake"), None)
    values = pa.RecordBatch.from_pylist([{"1": 1, "2": _ZONED, "3": "a"}], described.parameters)

    assert described.parameters.types == [pa.int32(), pa.timestamp("us", "UTC"), pa.string()]
    assert answer(catalog, sql, values).to_pylist() == [{"text": "a"}]


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (2, 2), (100, 4)])
def test_a_limit_counts_the_rows_that_remain(
    catalog: SparkCatalog, table: str, limit: int, count: int
) -> None:
    """With and without conditions."""
    assert answer(catalog, f"SELECT id FROM {table} LIMIT {limit}").num_rows == count
    assert answer(catalog, f"SELECT id FROM {table} WHERE id > 0 LIMIT {limit}").num_rows == count


@pytest.mark.parametrize(("granted", "is_read"), [("select", True), ("browse", False), ("insert", False)])
def test_grants_hold_for_plain_selects(
    catalog: SparkCatalog, schema: SparkSchema, table: str, granted: str, is_read: bool
) -> None:
    """Who may not read a table by Spark SQL may not read it as a scan either."""
    rules = f'[[grant]]\nto = "*"\nallow = ["sql"]\ncatalogs = "{CATALOG}"\n'
    rules += grant(granted, f'tables = "{CATALOG}.{schema.name}.values"')
    seen = view(catalog, rules)
    assert isinstance(seen, SqlCatalog)
    statement = SqlStatement(f"SELECT id FROM {table}", CATALOG)
    if is_read:
        assert seen.query_sql(Call("ada"), statement, None).read_all().num_rows == 4
        return
    for run in (seen.describe_sql, seen.query_sql):
        with pytest.raises((PermissionDeniedError, NotFoundError)):
            run(Call("ada"), statement, None)


def test_the_parts_of_a_scan_are_of_one_version(
    catalog: SparkCatalog, schema: SparkSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table has several parts, which later commits do not change."""
    made = schema.create_table(Call(), "large", pa.schema([("n", pa.int64())]), CreateTableOptions())
    for start in range(3):
        made.insert(Call(), pa.table({"n": range(start * 1000, start * 1000 + 1000)}).to_reader())
    monkeypatch.setattr("sparkport.spark.planned_scan.PlannedDeltaScan.slice_count", 3)
    statement = SqlStatement(f"SELECT n FROM {schema.name}.large WHERE n >= 500", "lake")
    parts = catalog.describe_sql(Call(), statement, None).parts
    made.insert(Call(), pa.table({"n": [9999]}).to_reader())

    read = [catalog.query_sql(Call(), replace(statement, part=part), None).read_all() for part in parts]
    assert len(parts) == 3
    assert sorted(pa.concat_tables(read)["n"].to_pylist()) == list(range(500, 3000))


def test_names_mean_what_the_session_says(catalog: SparkCatalog, schema: SparkSchema) -> None:
    """A name alone is in the session's schema; the catalog's may stand before it; any name is possible."""
    name = "odd ``name' 😀"
    made = schema.create_table(Call(), "odd `name' 😀", pa.schema([("n", pa.int64())]), CreateTableOptions())
    made.insert(Call(), pa.table({"n": [1, 2]}).to_reader())
    own = {"schema": schema.name}

    assert answer(catalog, f"SELECT n FROM `{name}`", **own).num_rows == 2
    for sql in (
        f"SELECT sum(`{name}`.n) AS s FROM `{name}`",
        f"SELECT sum(x.n) AS s FROM lake.{schema.name}.`{name}` x",
        f"WITH a AS (SELECT n FROM `{name}` WHERE n > 0) SELECT sum(n) AS s FROM a",
        f"SELECT sum(n) AS s FROM {schema.name}.`{name}` VERSION AS OF 1",
    ):
        assert answer(catalog, sql, **own).to_pylist() == [{"s": 3}]
    changed = SqlStatement(f"UPDATE `{name}` SET n = n + 1 WHERE n = 2", "lake", schema.name)
    assert catalog.update_sql(Call(), changed, None) == 1
    inserted = SqlStatement(
        f"INSERT INTO lake.{schema.name}.`{name}` SELECT n + 10 FROM `{name}`", "lake", schema.name
    )
    assert catalog.update_sql(Call(), inserted, None) == 2
    assert answer(catalog, f"SELECT sum(n) AS s FROM `{name}`", **own).to_pylist() == [{"s": 28}]
    with pytest.raises(SparkportError, match="not found"):
        answer(catalog, f"SELECT sum(n) AS s FROM `{name}`")


def test_the_time_zone_of_the_session_holds(catalog: SparkCatalog) -> None:
    """Times without a zone are read in that of the session; other sessions are not changed by it."""
    sql = "SELECT TIMESTAMP '2024-07-01 12:00:00' AS t, current_timezone() AS z"
    berlin = answer(catalog, sql, time_zone="Europe/Berlin").to_pylist()
    plain = answer(catalog, sql).to_pylist()

    assert berlin == [{"t": dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC), "z": "Europe/Berlin"}]
    assert plain == [{"t": dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC), "z": "UTC"}]


def test_columns_may_have_one_name(catalog: SparkCatalog, table: str) -> None:
    """A join has the columns of both tables, as in any database."""
    rows = answer(catalog, f"SELECT a.id, b.id, a.id + b.id AS ID FROM {table} a JOIN {table} b USING (day)")

    assert rows.schema.names == ["id", "id", "ID"]
    assert rows.num_rows == 3


def test_a_plan_is_explained_without_paths(catalog: SparkCatalog, table: str) -> None:
    """EXPLAIN tells how a query runs, and not where files are."""
    (row,) = answer(catalog, f"EXPLAIN SELECT count(*) AS n FROM {table} WHERE ratio > 0").to_pylist()

    assert "Aggregate" in row["plan"]
    assert catalog.engine.warehouse.root not in row["plan"]
    assert "file:" not in row["plan"]
