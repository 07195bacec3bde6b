"""Files with nested columns and partitions that the server writes without Spark, as Spark reads them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.transactions import TransactionMode
from sparkport.errors import PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import made, rows
from tests.spark.write.test_commit_ways import engine_of

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.int32())]))])),
        ("l", pa.list_(pa.struct([("x", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)
PARTED = "id BIGINT, day DATE, moment TIMESTAMP, text STRING, money DECIMAL(9, 2), s STRUCT<a: INT>"


def nested(number: int) -> dict[str, Any]:
    """Return a row; NULL turns up at every depth."""
    chance = random.Random(number)
    inner = chance.choice([None, {"c": number}, {"c": None}])
    return {
        "id": number,
        "s": chance.choice([None, {"a": f"text{number}", "b": inner}, {"a": None, "b": None}]),
        "l": chance.choice([None, [], [{"x": number}, None]]),
        "m": chance.choice([None, [], [("k", [0.5, None]), ("n", None)]]),
    }


@pytest.fixture(scope="module")
def adopting(spark_host: SparkHost) -> Iterator[SparkCatalog]:
    """Return a catalog that gives row ids to the tables of others."""
    engine = Engine(spark_host, adopts=True)
    yield SparkCatalog(engine)
    engine.jobs.close()


@pytest.fixture
def parted(adopting: SparkCatalog, schema: SparkSchema, spark: SparkSession) -> DeltaTable:
    """Return an empty table of Spark's own, with partitions."""
    root = Path(adopting.engine.warehouse.root, f"{schema.name}.db", "parted")
    columns = f"({PARTED}) USING delta PARTITIONED BY (day, moment, text, money)"
    spark.sql(f"CREATE TABLE delta.`{root}` {columns}").collect()
    found = adopting.schema(Call(), schema.name)
    table = None if found is None else found.table(Call(), "parted")
    assert isinstance(table, DeltaTable)
    return table


def test_nested_rows_are_inserted_and_updated_without_spark(schema: SparkSchema, spark: SparkSession) -> None:
    """Spark reads what the server wrote, finds it by fields of structs, and writes after it."""
    expected = [nested(number) for number in range(40)]
    table = made(schema, pa.Table.from_pylist(expected, NESTED))
    found = table.scan(Call(), ScanOptions(columns=("id", "rowid"))).read_all()
    row_ids = dict(zip(found["id"].to_pylist(), found["rowid"].to_pylist(), strict=True))
    changed = nested(41) | {"s": {"a": "new", "b": {"c": -5}}}
    new = pa.Table.from_pylist([changed], NESTED).select(["s", "l"])
    engines = [engine_of(table)]
    table.update(Call(), pa.array([row_ids[3]]), new.to_reader())
    engines.append(engine_of(table))
    expected[3] |= {"s": changed["s"], "l": changed["l"]}
    by_spark = spark.read.format("delta").load(table.root)
    by_field = by_spark.where("s.b.c = -5").select("id").collect()
    dicts = [row.asDict(recursive=True) for row in by_spark.drop("_sparkport_rowid").collect()]

    assert engines == ["sparkport"] * 2
    assert rows(table) == sorted(expected, key=repr)
    assert [row["id"] for row in by_field] == [3]
    as_spark = [row | {"m": None if row["m"] is None else dict(row["m"])} for row in expected]
    assert sorted(dicts, key=repr) == sorted(as_spark, key=repr)


def test_partitions_are_written_without_spark(parted: DeltaTable, spark: SparkSession) -> None:
    """Spark prunes the partitions, counts by them, and overwrites one; an empty text is NULL."""
    columns = parted.arrow_schema
    wanted: list[dict[str, Any]] = [
        {
            "id": 1,
            "day": "2024-02-29",
            "moment": "2024-01-01T10:00:00.5Z",
            "text": "a/b=c %",
            "money": "1.50",
        },
        {
            "id": 2,
            "day": "2024-02-29",
            "moment": "2024-01-01T10:00:00.5Z",
            "text": "a/b=c %",
            "money": "1.50",
        },
        {"id": 3, "day": "0999-01-01", "moment": None, "text": "", "money": None},
        {"id": 4, "day": None, "moment": "1969-12-31T23:59:59.999999Z", "text": "ü", "money": "-0.01"},
    ]
    arrays = [
        pa.array([row.get(field.name) for row in wanted]).cast(field.type)
        if field.name in wanted[0]
        else pa.array([{"a": row["id"]} for row in wanted], field.type)
        for field in columns
        if field.name != "rowid"
    ]
    batch = pa.Table.from_arrays(arrays, [field.name for field in columns if field.name != "rowid"])
    parted.insert(Call(), batch.to_reader())
    engine = engine_of(parted)
    mine = rows(parted)
    by_spark = spark.read.format("delta").load(parted.root)
    counted = by_spark.where("text = 'a/b=c %' AND day = DATE'2024-02-29' AND money = 1.5").count()
    moments = by_spark.where("moment = TIMESTAMP'2024-01-01 10:00:00.5Z'").count()
    empty = by_spark.where("text IS NULL").select("id").collect()
    spark.sql(f"DELETE FROM delta.`{parted.root}` WHERE day = DATE'0999-01-01'").collect()

    assert engine == "sparkport"
    assert len(mine) == len(wanted)
    assert (counted, moments) == (2, 2)
    assert [row["id"] for row in empty] == [3]
    assert sorted(row["id"] for row in rows(parted)) == [1, 2, 4]


def begin(catalog: SparkCatalog) -> Call:
    """Return a call of a new staged transaction."""
    return Call(transaction_id=catalog.transactions.begin_transaction(Call(), TransactionMode.STAGED))


def row_ids(table: DeltaTable, call: Call) -> dict[int, int]:
    """Return the row id of each key that a call sees."""
    found = table.scan(call, ScanOptions(columns=("id", "rowid"))).read_all()
    return dict(zip(found["id"].to_pylist(), found["rowid"].to_pylist(), strict=True))


def test_transaction_changes_nested_and_parted_tables(
    adopting: SparkCatalog, schema: SparkSchema, parted: DeltaTable, spark: SparkSession
) -> None:
    """INSERT, UPDATE, which moves a row to another partition, and DELETE are staged and committed."""
    own = adopting.schema(Call(), schema.name)
    assert isinstance(own, SparkSchema)
    table = made(own, pa.Table.from_pylist([nested(number) for number in range(3)], NESTED))
    plain = pa.schema([field for field in parted.arrow_schema if field.name != "rowid"])
    first = {"id": 1, "text": "old", "s": {"a": 1}}
    parted.insert(Call(), pa.Table.from_pylist([first], plain).to_reader())
    vectors = "SET TBLPROPERTIES (delta.enableDeletionVectors = true)"
    spark.sql(f"ALTER TABLE delta.`{parted.root}` {vectors}").collect()
    adopted = row_ids(parted, Call())
    with pytest.raises(PreconditionError):
        parted.update(Call(), pa.array([adopted[1]]), pa.table({"text": ["new"]}).to_reader())
    call = begin(adopting)
    table.insert(call, pa.Table.from_pylist([nested(7)], NESTED).to_reader())
    parted.insert(call, pa.Table.from_pylist([first | {"id": 2, "text": "b"}], plain).to_reader())
    parted.update(call, pa.array([row_ids(parted, call)[1]]), pa.table({"text": ["new"]}).to_reader())
    table.delete(call, pa.array([row_ids(table, call)[0]]))
    inside = sorted(row_ids(table, call))
    outside = len(rows(table))
    assert call.transaction_id is not None
    adopting.transactions.commit_transaction(Call(), call.transaction_id)
    seen = {row["id"]: row["text"] for row in spark.read.format("delta").load(parted.root).collect()}
    pruned = spark.read.format("delta").load(parted.root).where("text = 'new'").count()

    assert (inside, outside) == ([1, 2, 7], 3)
    assert rows(table) == sorted((nested(number) for number in (1, 2, 7)), key=repr)
    assert seen == {1: "new", 2: "b"}
    assert pruned == 1
