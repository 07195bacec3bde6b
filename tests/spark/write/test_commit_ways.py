"""Who writes a commit: the server itself, or Delta in Spark where the server must not."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.commit.folder_lock import while_writing
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import ids, inserted, made, newest, rows

_PATIENCE = 60.0


def engine_of(table: DeltaTable) -> str:
    """Return who has written the newest commit."""
    text = Path(table.root, "_delta_log", f"{newest(table):020}.json").read_text(encoding="utf-8")
    engine: str = json.loads(text.splitlines()[0])["commitInfo"]["engineInfo"]
    return engine.partition("/")[0]


def test_server_commits_what_only_adds_and_removes_files(schema: SparkSchema, spark: SparkSession) -> None:
    """INSERT, UPDATE and DELETE; Spark reads them, writes after them, and the server after Spark."""
    table = made(schema, pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
    engines = [engine_of(table)]
    table.update(Call(), pa.array(ids(table)[:1]), pa.table({"n": pa.array([7], pa.int64())}).to_reader())
    engines.append(engine_of(table))
    table.delete(Call(), pa.array(ids(table)[1:2]))
    engines.append(engine_of(table))
    seen = sorted(row["n"] for row in spark.read.format("delta").load(table.root).collect())
    spark.sql(f"DELETE FROM delta.`{table.root}` WHERE n = 3").collect()
    inserted(table, n=4)
    engines.append(engine_of(table))

    assert engines == ["sparkport"] * 4
    assert seen == [3, 7]
    assert sorted(row["n"] for row in rows(table)) == [4, 7]


@pytest.mark.parametrize("key", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_table_that_asks_for_more_is_committed_by_delta(
    schema: SparkSchema, spark: SparkSession, key: str
) -> None:
    """What a property means for a writer is Delta's to know."""
    table = made(schema, pa.table({"n": pa.array([1], pa.int64())}))
    spark.sql(f"ALTER TABLE delta.`{table.root}` SET TBLPROPERTIES ('{key}' = 'true')").collect()
    inserted(table, n=2)

    assert engine_of(table) == "Apache-Spark"
    assert sorted(row["n"] for row in rows(table)) == [1, 2]


def test_server_leaves_commits_to_spark_while_spark_may_commit(
    catalog: SparkCatalog, schema: SparkSchema
) -> None:
    """Delta could overwrite a commit that appears while it makes its own; statements go on meanwhile."""
    table = made(schema, pa.table({"n": pa.array([1], pa.int64())}))
    begun, go_on = threading.Event(), threading.Event()

    def slow(session: SparkSession) -> None:
        del session
        begun.set()
        assert go_on.wait(_PATIENCE)

    work = while_writing(table.root, str(table), slow)
    thread = threading.Thread(target=catalog.engine.jobs.run, args=(Call(), str(table), work))
    thread.start()
    assert begun.wait(_PATIENCE)
    inserted(table, n=2)
    meanwhile = engine_of(table)
    go_on.set()
    thread.join(_PATIENCE)
    inserted(table, n=3)

    assert (meanwhile, engine_of(table)) == ("Apache-Spark", "sparkport")
    assert sorted(row["n"] for row in rows(table)) == [1, 2, 3]
