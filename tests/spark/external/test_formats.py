from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from sparkport.catalog import (
    Call,
    Catalog,
    HasTableKind,
    InsertableTable,
    ScanOptions,
    ScanSlice,
    SplittableTable,
    StatisticsTable,
    Table,
    TableKind,
    TimePoint,
    TimeUnit,
    VersionedCatalog,
    VersionedTable,
)
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant, Expression
from sparkport.errors import InvalidRequestError, NotFoundError, PreconditionError
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.engine import Engine
from sparkport.spark.external.catalog import SessionCatalog
from sparkport.spark.model.columns import ROWID_KEY
from tests.logs import captured_logs

_SCHEMA = "catalog_formats"
_PEOPLE = [
    {"i": 1, "s": "one", "d": date(2024, 1, 2)},
    {"i": 2, "s": "two", "d": None},
    {"i": 3, "s": None, "d": date(2024, 3, 4)},
]
_ROWS = "(1, 'one', DATE '2024-01-02'), (2, 'two', NULL), (3, NULL, DATE '2024-03-04')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for tables with a place of their own."""
    return tmp_path_factory.mktemp("a folder")


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, engine: Engine, folder: Path) -> SessionCatalog:
    """Return the session's own catalog, with a schema of tables in many formats."""
    spark.sql(f"CREATE DATABASE {_SCHEMA} COMMENT 'all sorts'")
    spark.sql(f"USE {_SCHEMA}")
    columns = "(i INT COMMENT 'a number', s STRING, d DATE)"
    for kind in ("parquet", "orc", "csv", "json"):
        spark.sql(f"CREATE TABLE in_{kind} {columns} USING {kind} COMMENT 'as {kind}'")
        spark.sql(f"INSERT INTO in_{kind} VALUES {_ROWS}")
    spark.sql("CREATE TABLE parted (n BIGINT, label STRING) USING parquet PARTITIONED BY (label)")
    spark.sql("INSERT INTO parted VALUES (1, 'a/b'), (2, 'a/b'), (3, NULL), (4, 'c d')")
    spark.sql("CREATE TABLE padded (c CHAR(3), f STRING COLLATE UTF8_LCASE, o VARIANT) USING parquet")
    spark.sql("INSERT INTO padded VALUES ('x', 'Up', parse_json('{\"k\": 1}')), ('xyz', 'down', NULL)")
    spark.sql("CREATE TABLE managed (i INT, s STRING) USING delta COMMENT 'a Delta table'")
    spark.sql(f"CREATE TABLE placed (i INT, s STRING) USING delta LOCATION '{folder}/p l%20'")
    for table in ("managed", "placed"):
        spark.sql(f"INSERT INTO {table} VALUES (5, 'five'), (7, 'seven')")
        spark.sql(f"INSERT INTO {table} VALUES (6, NULL)")
    view = "doubled (i2 COMMENT 'twice') COMMENT 'a view'"
    spark.sql(f"CREATE VIEW {view} AS SELECT i * 2 AS n FROM in_orc WHERE i < 3")
    numbers = spark.range(3).select(col("id").alias("n"), col("id").alias("kept", metadata={ROWID_KEY: True}))
    numbers.write.format("delta").save(f"{folder}/with ids")
    spark.sql(f"CREATE VIEW without_ids AS SELECT * FROM delta.`{folder}/with ids`")
    spark.sql("CREATE TABLE gone (x INT) USING parquet")
    spark.sql(f"CREATE VIEW broken AS SELECT x FROM {_SCHEMA}.gone")
    spark.sql("DROP TABLE gone")
    spark.sql("CREATE OR REPLACE TEMP VIEW of_the_session AS SELECT 1 AS x")
    spark.sql("USE default")
    return SessionCatalog("spark_catalog", engine)


def test_a_session_catalog_has_the_abilities_of_a_catalog(catalog: SessionCatalog) -> None:
    """Databases are schemas with their comments; a name in another letter case finds them too."""
    call = Call()
    names = [schema.name for schema in catalog.schemas(call)]
    schema = catalog.schema(call, _SCHEMA.upper())

    assert isinstance(catalog, Catalog)
    assert isinstance(catalog, VersionedCatalog)
    assert {_SCHEMA, "default"} <= set(names)
    assert schema is not None
    assert (schema.name, schema.comment) == (_SCHEMA, "all sorts")
    assert catalog.schema(call, "nowhere") is None
    assert schema.table(call, "nothing") is None
    assert list(schema.scalar_functions(call)) == []
    assert list(schema.table_functions(call)) == []


def test_what_cannot_be_read_is_left_out_and_explained(
    spark: SparkSession, engine: Engine, catalog: SessionCatalog
) -> None:
    """A view on a dropped table is named in the log, once, and says what is wrong when it is asked for."""
    del catalog
    call = Call()
    schema = SessionCatalog("spark_catalog", engine).schema(call, _SCHEMA)
    assert schema is not None
    with captured_logs() as logs:
        names = [table.name for table in schema.tables(call)]
        schema.tables(call)
    with pytest.raises(PreconditionError) as failure:
        schema.table(call, "broken")

    assert names == [
        "doubled",
        "in_csv",
        "in_json",
        "in_orc",
        "in_parquet",
        "managed",
        "padded",
        "parted",
        "placed",
        "without_ids",
    ]
    assert [(log["event"], log["name"]) for log in logs if log["log_level"] == "warning"] == [
        ("table left out of the listing", f"spark_catalog.{_SCHEMA}.broken")
    ]
    assert str(failure.value) == f"table '{_SCHEMA}.broken' cannot be read: table '{_SCHEMA}.gone' not found"
    assert spark.catalog.currentDatabase() == "default"


def test_views_are_told_from_tables(engine: Engine, catalog: SessionCatalog) -> None:
    """A view says that it is one."""
    del catalog
    schema = SessionCatalog("spark_catalog", engine).schema(Call(), _SCHEMA)
    assert schema is not None
    kinds = {one.name: one.table_kind for one in schema.tables(Call()) if isinstance(one, HasTableKind)}

    assert {name for name, kind in kinds.items() if kind is TableKind.VIEW} == {"doubled", "without_ids"}
    assert kinds["in_csv"] is TableKind.TABLE


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_a_table_in_any_format_is_read(catalog: SessionCatalog, kind: str) -> None:
    """Columns, comments and rows are those that Spark has; nothing but reading is offered."""
    table = _table(catalog, f"IN_{kind}")
    rows = table.scan(Call(), ScanOptions()).read_all()

    assert (table.name, table.comment) == (f"in_{kind}", f"as {kind}")
    assert table.arrow_schema == pa.schema([("i", pa.int32()), ("s", pa.string()), ("d", pa.date32())])
    assert table.arrow_schema.field("i").metadata == {b"comment": b"a number"}
    assert rows.schema == table.arrow_schema
    assert sorted(rows.to_pylist(), key=lambda row: row["i"]) == _PEOPLE
    assert not isinstance(table, InsertableTable | StatisticsTable | VersionedTable | SplittableTable)


def test_columns_filter_limit_and_slice_narrow_a_scan(catalog: SessionCatalog) -> None:
    """Spark delivers what was asked for, and the first slice is all of it."""
    table = _table(catalog, "in_parquet")
    call = Call()
    over_one = _compared("i", ">", pa.scalar(1, pa.int32()))
    projected = table.scan(call, ScanOptions(columns=("S", "i"), filter=over_one)).read_all()
    counted = table.scan(call, ScanOptions(columns=())).read_all()
    limited = table.scan(call, ScanOptions(limit=2)).read_all()
    beside = table.scan(call, ScanOptions(slice=ScanSlice(1, 2))).read_all()

    assert projected.sort_by("i").to_pylist() == [{"s": "two", "i": 2}, {"s": None, "i": 3}]
    assert counted.num_rows == 3
    assert limited.num_rows == 2
    assert beside.num_rows == 0
    with pytest.raises(NotFoundError, match="column 'z' not found"):
        table.scan(call, ScanOptions(columns=("z",)))


def test_partitions_are_columns(catalog: SessionCatalog) -> None:
    """The values of partitions come back as they were, also those that a path cannot hold."""
    table = _table(catalog, "parted")
    in_one = _compared("label", "=", pa.scalar("a/b"))
    rows = table.scan(Call(), ScanOptions()).read_all().sort_by("n").to_pylist()
    filtered = table.scan(Call(), ScanOptions(filter=in_one)).read_all().sort_by("n").to_pylist()

    assert [(row["n"], row["label"]) for row in rows] == [(1, "a/b"), (2, "a/b"), (3, None), (4, "c d")]
    assert [row["n"] for row in filtered] == [1, 2]


def test_a_filter_never_costs_a_row_that_the_client_wants(catalog: SessionCatalog) -> None:
    """Where Spark compares otherwise than clients do, it does not filter; types without a match are text."""
    table = _table(catalog, "padded")
    call = Call()
    rows = table.scan(call, ScanOptions()).read_all().sort_by("c").to_pylist()
    padded = table.scan(call, ScanOptions(filter=_compared("c", "<>", pa.scalar("x")))).read_all()
    collated = table.scan(call, ScanOptions(filter=_compared("f", "<>", pa.scalar("UP")))).read_all()

    assert rows == [{"c": "x  ", "f": "Up", "o": '{"k":1}'}, {"c": "xyz", "f": "down", "o": None}]
    assert sorted(padded["c"].to_pylist()) == ["x  ", "xyz"]
    assert sorted(collated["f"].to_pylist()) == ["Up", "down"]


def test_a_view_is_a_table(catalog: SessionCatalog) -> None:
    """A view has its own columns and comments, and the rows of its query."""
    view = _table(catalog, "doubled")
    rows = view.scan(Call(), ScanOptions()).read_all()

    assert view.comment == "a view"
    assert view.arrow_schema == pa.schema([("i2", pa.int32())])
    assert view.arrow_schema.field("i2").metadata == {b"comment": b"twice"}
    assert sorted(rows["i2"].to_pylist()) == [2, 4]


def test_what_has_no_history_says_so(catalog: SessionCatalog) -> None:
    """A point in time is refused for a table without one, before and while it is read."""
    table = _table(catalog, "in_csv")
    point = TimePoint(TimeUnit.VERSION, "1")

    with pytest.raises(InvalidRequestError, match="table 'in_csv' does not support time travel"):
        current_arrow_schema(Call(), table, point)
    with pytest.raises(InvalidRequestError, match="table 'in_csv' does not support time travel"):
        table.scan(Call(), ScanOptions(time_point=point))


@pytest.mark.parametrize(("name", "comment"), [("managed", "a Delta table"), ("placed", "")])
def test_delta_tables_are_read_by_their_logs(catalog: SessionCatalog, name: str, comment: str) -> None:
    """Wherever it lies, a Delta table has its history and its statistics."""
    table = _table(catalog, name)
    call = Call()
    assert isinstance(table, VersionedTable)
    assert isinstance(table, StatisticsTable)
    assert isinstance(table, SplittableTable)
    newest = table.snapshot(call, None)
    first = TimePoint(TimeUnit.VERSION, "1")
    rows = table.scan(call, ScanOptions(time_point=newest.time_point)).read_all()
    past = table.scan(call, ScanOptions(time_point=first)).read_all()
    known = table.column_statistics(call, "i")
    moment = TimePoint(TimeUnit.TIMESTAMP, datetime(2000, 1, 1).isoformat())  # noqa: DTZ001

    assert table.comment == comment
    assert newest.arrow_schema == pa.schema([("i", pa.int32()), ("s", pa.string())])
    assert newest.row_count == 3
    assert sorted(rows["i"].to_pylist()) == [5, 6, 7]
    assert sorted(past["i"].to_pylist()) == [5, 7]
    assert table.snapshot(call, first).row_count == 2
    assert (known.minimum.as_py(), known.maximum.as_py(), known.has_null) == (5, 7, False)
    assert table.slice_count(call, ScanOptions()) >= 1
    assert not isinstance(table, InsertableTable)
    with pytest.raises(NotFoundError):
        table.snapshot(call, moment)


def test_a_delta_table_out_of_reach_is_left_to_spark(
    engine: Engine, catalog: SessionCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only Spark has the means to get at the files, it reads them."""

    def refuse(root: str) -> DeltaLog:
        raise PermissionError(root)

    assert isinstance(_table(catalog, "managed"), VersionedTable)
    monkeypatch.setattr(engine, "log", refuse)
    table = _table(SessionCatalog("spark_catalog", engine), "managed")
    rows = table.scan(Call(), ScanOptions()).read_all()

    assert not isinstance(table, VersionedTable)
    assert table.arrow_schema == pa.schema([("i", pa.int32()), ("s", pa.string())])
    assert sorted(rows["i"].to_pylist()) == [5, 6, 7]


def test_the_ids_of_rows_are_not_among_the_columns_of_a_view(catalog: SessionCatalog) -> None:
    """A view of all columns of a table that keeps row ids does not show them."""
    view = _table(catalog, "without_ids")
    rows = view.scan(Call(), ScanOptions()).read_all()

    assert rows.schema == pa.schema([("n", pa.int64())])
    assert sorted(rows["n"].to_pylist()) == [0, 1, 2]


def _table(catalog: SessionCatalog, name: str) -> Table:
    call = Call()
    schema = catalog.schema(call, _SCHEMA)
    assert schema is not None
    table = schema.table(call, name)
    assert table is not None
    return table


def _compared(column: str, operator: str, value: pa.Scalar) -> Expression:
    return Comparison(ComparisonOperator(operator), Column(column), Constant(value))
