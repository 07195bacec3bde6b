"""INSERTs of many rows: data files that are written once, as the rows come, and that everyone reads right."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import QueryBuilder
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.ddl import RenameColumn
from sparkport.errors import ConflictError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.commit import row_group_writer
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.files import data_files
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta_jvm import file_commit, transaction
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import actions, ids, made, newest

MANY = data_files.MAX_ROWS + 10_000
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def many(count: int = MANY) -> pa.Table:
    """Return rows of several types, with nulls."""
    keys = range(count)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": pa.array([None if key % 7 == 0 else f"text {key:06}" for key in keys], pa.string()),
            "x": [key / 8 for key in keys],
            "d": pa.array([Decimal(key).scaleb(-2) for key in keys], pa.decimal128(12, 2)),
            "t": pa.array([START + dt.timedelta(seconds=key) for key in keys], pa.timestamp("us", "UTC")),
        }
    )


def added(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    """Return the files that a commit has added."""
    text = Path(table.root, "_delta_log", f"{version:020}.json").read_text(encoding="utf-8")
    return [said["add"] for line in text.splitlines() if "add" in (said := json.loads(line))]


def data_paths(table: DeltaTable) -> set[str]:
    """Return the paths of the Parquet files in a table's folder, whether it knows of them or not."""
    root = Path(table.root)
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}


def count(spark: SparkSession, table: DeltaTable, where: str = "true") -> int:
    """Return how many rows Spark finds."""
    return int(spark.read.format("delta").load(table.root).where(where).count())


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be cut after each row group, and these be small."""
    monkeypatch.setattr(row_group_writer, "_GROUP_BYTES", 1 << 20)
    monkeypatch.setattr(data_files, "_FILE_BYTES", 1)


@pytest.fixture
def staged_folders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the folders that Spark is asked to read."""
    asked: list[str] = []
    on_disk = Stage.on_disk

    def noted(self: Stage) -> str:
        asked.append(on_disk(self))
        return asked[-1]

    monkeypatch.setattr(Stage, "on_disk", noted)
    return asked


@pytest.mark.usefixtures("small_files")
def test_large_insert_is_read_by_everyone(
    schema: SparkSchema, spark: SparkSession, staged_folders: list[str]
) -> None:
    """One commit names several files; Spark, delta-rs and sparkport see the same rows, each with an id."""
    rows = many()
    table = made(schema, rows[:0])
    table.insert(Call(), rows.to_reader(max_chunksize=4_000))
    version = newest(table)
    files = added(table, version)

    assert version == 1
    assert actions(table, version).count("add") == len(files) > 2
    assert data_paths(table) == {file["path"] for file in files}
    assert staged_folders == []
    assert count(spark, table) == MANY
    assert count(spark, table, "k = 51234 AND s = 'text 051234' AND x = 51234 / 8 AND d = 512.34") == 1
    assert count(spark, table, "t >= '2026-01-01 14:00:00Z' AND t < '2026-01-01 14:00:10Z'") == 10
    query = QueryBuilder().register("t", deltalake.DeltaTable(table.root))
    by_delta_rs = pa.table(query.execute("SELECT k, s, x, d, t FROM t ORDER BY k").read_all())
    assert by_delta_rs.cast(rows.schema).equals(rows)
    found = table.scan(Call(), ScanOptions(columns=tuple(rows.column_names))).read_all()
    assert found.sort_by("k").cast(rows.schema).equals(rows)
    assert len(set(ids(table))) == MANY
    metrics = deltalake.DeltaTable(table.root).history(1)[0]["operationMetrics"]
    assert int(metrics["numOutputRows"]) == MANY
    assert int(metrics["numFiles"]) == len(files)


def test_each_commit_has_its_checksum(schema: SparkSchema) -> None:
    """Delta's checksum, by which Spark need not read the whole log, is there after each commit."""
    table = made(schema, many(2))
    table.insert(Call(), many().to_reader())
    table.delete(Call(), pa.array(ids(table)[5:8]))
    table.delete(Call(), pa.array(ids(table)[:2]))
    logs = Path(table.root, "_delta_log")
    said = json.loads((logs / f"{newest(table):020}.crc").read_text(encoding="utf-8"))
    files = DeltaLog(table.root).snapshot().files

    assert {path.stem for path in logs.glob("[0-9]*.crc")} == {path.stem for path in logs.glob("*.json")}
    assert said["numFiles"] == len(files) == 1
    assert said["tableSizeBytes"] == sum(file.size for file in files)
    assert said["numDeletedRecordsOpt"] == sum(file.deleted_rows for file in files) == 3
    assert said["numDeletionVectorsOpt"] == 1
    assert not list(logs.glob(".*.tmp*"))


@pytest.mark.usefixtures("small_files")
def test_statistics_of_each_file_are_exact(schema: SparkSchema) -> None:
    """What the log says of a file is what is in the file, by the names that columns have there."""
    table = made(schema, many()[:0])
    table.insert(Call(), many().to_reader(max_chunksize=4_000))
    files = added(table, newest(table))

    assert len(files) > 2
    for file in files:
        said = json.loads(file["stats"])
        path = Path(table.root, file["path"])
        held = pq.read_table(path)
        assert file["size"] == path.stat().st_size
        assert said["numRecords"] == len(held)
        assert said["nullCount"] == {name: held[name].null_count for name in held.column_names}
        assert set(said["minValues"]) == set(held.column_names) == set(said["maxValues"])
        for name in held.column_names:
            ends = pc.min_max(held[name])
            for logged, end in (("minValues", "min"), ("maxValues", "max")):
                value = ends[end].as_py()
                if isinstance(value, dt.datetime):
                    value = value.strftime("%Y-%m-%dT%H:%M:%S.000Z")
                assert said[logged][name] == (float(value) if isinstance(value, Decimal) else value)


def test_renamed_columns_are_written_under_their_physical_names(
    schema: SparkSchema, spark: SparkSession
) -> None:
    """Files of before and after a RENAME COLUMN have the same names and numbers in them."""
    table = made(schema, many())
    table.alter(Call(), RenameColumn("s", "word"))
    table.insert(Call(), many().rename_columns(["k", "word", "x", "d", "t"]).to_reader())

    assert count(spark, table, "word = 'text 000001'") == 2
    forms = {str(pq.read_schema(Path(table.root, name)).remove_metadata()) for name in data_paths(table)}
    assert len(forms) == 1


def test_table_that_needs_spark_meanwhile_gets_the_rows_from_spark(
    schema: SparkSchema, spark: SparkSession, staged_folders: list[str]
) -> None:
    """Files that no longer suit the table are no part of it: Spark reads them and writes its own."""
    table = made(schema, many(1))
    statement = table.begin_insert(Call(), returning=False)
    for batch in many().to_batches():
        statement.write(batch)
    spark.sql(f"ALTER TABLE delta.`{table.root}` ADD CONSTRAINT positive CHECK (k >= 0)")

    assert statement.commit() == MANY
    assert len(staged_folders) == 1
    assert count(spark, table, "s = 'text 000001'") == 1
    assert count(spark, table) == MANY + 1
    assert data_paths(table) == {file["path"] for at in (1, 3) for file in added(table, at)}


def test_conflict_is_tried_again_with_the_same_files(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a conflict the rows are there once; when conflicts do not end nothing is left of them."""
    table = made(schema, many(1))
    conflicts = [ConflictError("t", "another writer was faster")] * 3
    commit_files = file_commit.commit_files

    def commit(*arguments: Any) -> transaction.CommitResult:
        if conflicts:
            raise conflicts.pop()
        return commit_files(*arguments)

    monkeypatch.setattr(file_commit, "commit_files", commit)
    with pytest.raises(ConflictError):
        table.insert(Call(), many().to_reader())

    assert len(data_paths(table)) == 1
    conflicts.append(ConflictError("t", "another writer was faster"))
    assert table.insert(Call(), many().to_reader()).affected_rows == MANY
    assert count(spark, table) == MANY + 1
    assert data_paths(table) == {file["path"] for at in (1, 2) for file in added(table, at)}


def test_real_conflict_takes_the_files_out_again(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit after another that has changed the table is refused; the rows land once, at the next try."""
    table = made(schema, many(1))
    commit_files = file_commit.commit_files
    files: list[int] = []
    refusals: list[str] = []

    def commit(change: file_commit.FileChange, session: SparkSession | None) -> transaction.CommitResult:
        files.append(len(data_paths(table)))
        if not refusals:
            spark.sql(f"ALTER TABLE delta.`{table.root}` SET TBLPROPERTIES ('of.others' = 'yes')")
        try:
            return commit_files(change, session)
        except Exception as error:
            refusals.append(str(error))
            raise

    monkeypatch.setattr(file_commit, "commit_files", commit)
    inserted = table.insert(Call(), many().to_reader()).affected_rows

    assert files == [2, 2]
    assert ["columns or properties were changed" in refusal for refusal in refusals] == [True]
    assert inserted == MANY
    assert newest(table) == 3
    assert count(spark, table) == MANY + 1
    assert data_paths(table) == {file["path"] for at in (1, 3) for file in added(table, at)}


def test_aborted_insert_leaves_nothing(schema: SparkSchema, catalog: SparkCatalog) -> None:
    """Neither in the table's folder nor where rows are staged."""
    table = made(schema, many(1))
    staging = Path(catalog.engine.staging)
    before = set(staging.glob("*"))
    statement = table.begin_insert(Call(), returning=False)
    for batch in many().to_batches():
        statement.write(batch)
    during = set(staging.glob("*"))
    statement.abort()

    assert during > before
    assert set(staging.glob("*")) == before
    assert len(data_paths(table)) == 1
    assert newest(table) == 1
