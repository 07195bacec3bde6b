"""Random predicates as Spark evaluates them, and as DuckDB does."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparkport.spark.predicates import identifier, literal, spark_sql
from tests.unit.spark.predicates.random_sql import RandomSql
from tests.unit.spark.predicates.samples import NAN, TARGETS, connect, duckdb_ids, make_rows, pushed

FILTERS = 120

# PySpark leaves the sockets of its results to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_keeps_the_rows_of_duckdb(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    """Filters keep DuckDB's rows in either ANSI mode, and plain filters keep no other."""
    r = random.Random(ansi)
    rows = make_rows(r, blocks=15, rows_per_block=4)
    pq.write_table(pa.Table.from_batches([rows.stored]), tmp_path / "t.parquet", row_group_size=20)
    connection, sql = connect(rows.exact), RandomSql(r)
    cases: list[tuple[str, bool, str, set[int]]] = []
    while len(cases) < FILTERS:
        plain = len(cases) % 2 == 0
        predicate = sql.boolean(r.randrange(3), plain=plain)
        expression = pushed(connection, predicate, combined=r.random() < 0.5)
        expected = duckdb_ids(connection, predicate)
        if expression is None or expected is None or (text := spark_sql(expression, TARGETS)) is None:
            continue
        cases.append((predicate, plain, text, expected))
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = spark.read.parquet(str(tmp_path / "t.parquet"))
        tests = [f"coalesce({text}, false) AS c{number}" for number, (_, _, text, _) in enumerate(cases)]
        found = frame.selectExpr("id", *tests).toArrow()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))

    for number, (predicate, plain, text, expected) in enumerate(cases):
        kept = set(found.filter(found[f"c{number}"])["id"].to_pylist())
        assert expected <= kept, f"lost {expected - kept} of {predicate} as {text}"
        assert not plain or expected == kept, f"kept {kept - expected} of {predicate} as {text}"


@pytest.mark.parametrize("rows_per_group", [1, 2, 5])
def test_statistics_of_floats_cost_no_row(spark: SparkSession, tmp_path: Path, rows_per_group: int) -> None:
    """NaN and both zeros are found, although Parquet files hide the one and tell the others apart."""
    values = [0.0, -0.0, 1.0, NAN, None]
    ids = pa.array(range(5))
    connection = connect(pa.table({"id": ids, "d": values}))
    pq.write_table(
        pa.table({"id": ids, "col-d": values}), tmp_path / "t.parquet", row_group_size=rows_per_group
    )
    frame = spark.read.parquet(str(tmp_path / "t.parquet"))
    tests = [
        f"d {operator} '{n}'::DOUBLE" for operator in ("=", "<>", "<=", ">", ">=") for n in ("-0", "5", "nan")
    ]
    tests += ["d IN (0.0::DOUBLE, 7, 'nan')", "d NOT IN (1.0::DOUBLE, 7)", "d NOT IN ('nan'::DOUBLE, 1)"]
    found: dict[str, set[int]] = {}
    for predicate in tests:
        expression = pushed(connection, predicate, combined=False)
        if expression is not None and (text := spark_sql(expression, TARGETS)) is not None:
            found[predicate] = {row.id for row in frame.filter(text).collect()}

    assert len(found) >= 14
    assert found == {predicate: duckdb_ids(connection, predicate) for predicate in found}


def test_every_literal_is_the_value(spark: SparkSession) -> None:
    """A literal has the value and the type that it stands for, whatever its characters."""
    scalars = [
        pa.scalar(-128, pa.int8()),
        pa.scalar(-(2**63), pa.int64()),
        pa.scalar(0.1, pa.float32()),
        pa.scalar(1e300),
        pa.scalar("\\' ${x} \u0000\n🦆`\"--"),
        pa.scalar(b"\x00\xff"),
        pa.scalar(True),
        pa.scalar(2**31 - 1, pa.date32()),
        pa.scalar(2**62, pa.timestamp("us", "UTC")),
        pa.scalar(-1, pa.timestamp("us")),
    ]
    columns = [f"{literal(scalar)} AS c{number}" for number, scalar in enumerate(scalars)]
    row = spark.sql("SELECT " + ", ".join(columns)).toArrow()

    assert [row[f"c{number}"][0] for number in range(len(scalars))] == scalars


def test_a_quoted_name_is_one_name(spark: SparkSession) -> None:
    """Back-ticks and dots in a name are part of it."""
    name = "a`.b` OR 1=1"
    frame = spark.range(1).withColumnRenamed("id", name)

    assert frame.selectExpr(str(identifier(name))).columns == [name]
