"""Tables that Spark wrote: the log's reader and Spark agree on them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.tables import ColumnStatistics
from sparkport.spark.delta.errors import CorruptLogError, VersionNotFoundError
from sparkport.spark.delta.files.deletion_vectors import deleted_positions, keep_mask
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.mapping import mapping_mode, physical_path
from sparkport.spark.delta.readable import unreadable_reason
from sparkport.spark.delta.statistics import StoredColumn, bounds, exact_statistics


def spark_files(spark: SparkSession, root: Path, version: int) -> list[str]:
    """Return the files that Spark would read of a version."""
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(root))
    return sorted(uri.removeprefix("file:") for uri in frame.inputFiles())


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Return rows by way of the JVM: PySpark's collect leaves its socket to the garbage collector."""
    return [json.loads(text) for text in frame._jdf.toJSON().collectAsList()]


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set a property of the session for a while."""
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(key)


def agree(spark: SparkSession, root: Path) -> None:
    """Compare the files of every version and the rows of the newest with Spark."""
    log = DeltaLog(str(root))
    for version in range(log.newest_version() + 1):
        ours = DeltaLog(str(root)).snapshot(version)

        assert sorted(file.path for file in ours.files) == spark_files(spark, root, version)
        assert log.snapshot(version) == ours
    assert log.snapshot().row_count == spark.read.format("delta").load(str(root)).count()


def test_partition_values_with_special_characters(spark: SparkSession, tmp_path: Path) -> None:
    """Partition values are as written, and paths lead to real files, whatever the characters."""
    root = tmp_path / "tab le%20ü"
    odd = ["a b", "50%", "x/y", "ü:=?#", "", None, "a%20b"]
    rows = [(number, text, date(2024, 1, 31)) for number, text in enumerate(odd)]
    frame = spark.createDataFrame(rows, "id int, word string, day date").coalesce(1)
    frame.write.format("delta").partitionBy("word", "day").save(str(root))
    snapshot = DeltaLog(str(root)).snapshot()
    values = {file.partition_values["word"] for file in snapshot.files}

    assert values == {"a b", "50%", "x/y", "ü:=?#", None, "a%20b"}
    assert {file.partition_values["day"] for file in snapshot.files} == {"2024-01-31"}
    assert all(Path(file.path).stat().st_size == file.size for file in snapshot.files)
    assert snapshot.metadata.partition_columns == ("word", "day")
    agree(spark, root)


def test_deletion_vectors(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that DELETE marked are known by position, and the row count is exact at every version."""
    root = tmp_path / "deleted"
    frame = spark.range(0, 1000, 1, 1)
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(root))
    spark.sql(f"DELETE FROM delta.`{root}` WHERE id % 10 = 3")
    spark.sql(f"DELETE FROM delta.`{root}` WHERE id < 20")
    log = DeltaLog(str(root))
    file = log.snapshot().files[0]
    assert file.deletion_vector is not None
    ids = pq.read_table(file.path).column("id").combine_chunks()
    mask = keep_mask(file.deletion_vector, str(root), len(ids))
    kept = ids.filter(pa.BooleanArray.from_buffers(pa.bool_(), len(ids), [None, pa.py_buffer(mask)]))
    gone = deleted_positions(file.deletion_vector, str(root))

    assert [log.snapshot(version).row_count for version in range(3)] == [1000, 900, 882]
    assert file.physical_rows == 1000
    assert gone[:4].tolist() == [0, 1, 2, 3]
    assert kept.to_pylist() == [number for number in range(20, 1000) if number % 10 != 3]
    assert unreadable_reason(log.snapshot().protocol, log.snapshot().metadata) is None
    assert exact_statistics(log.snapshot(), StoredColumn(("id",), pa.int64())) == ColumnStatistics(
        pa.scalar(None, pa.int64()), pa.scalar(None, pa.int64()), False, True, 0
    )
    agree(spark, root)


def test_column_mapping(spark: SparkSession, tmp_path: Path) -> None:
    """A renamed column keeps its physical name, by which statistics and partition values go."""
    root = tmp_path / "mapped"
    spark.sql(
        f"CREATE TABLE delta.`{root}` (a INT, gone INT, s STRUCT<x: INT, y: STRING>, p STRING) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{root}` VALUES (1, 2, struct(3, 'q'), 'north'), (4, 5, null, 'north')")
    spark.sql(f"ALTER TABLE delta.`{root}` RENAME COLUMN a TO b")
    spark.sql(f"ALTER TABLE delta.`{root}` RENAME COLUMN s.x TO z")
    spark.sql(f"ALTER TABLE delta.`{root}` DROP COLUMN gone")
    spark.sql(f"ALTER TABLE delta.`{root}` RENAME COLUMN p TO q")
    snapshot = DeltaLog(str(root)).snapshot()
    column = StoredColumn(physical_path(snapshot.metadata, ["b"]), pa.int32())
    nested = StoredColumn(physical_path(snapshot.metadata, ["s", "z"]), pa.int32())
    partition = StoredColumn(physical_path(snapshot.metadata, ["q"]), pa.string())
    file = snapshot.files[0]

    assert mapping_mode(snapshot.metadata) == "name"
    assert column.path[0].startswith("col-")
    assert column.path[0] in pq.read_schema(file.path).names
    assert {each.row_count for each in snapshot.files} <= {1, 2}
    assert exact_statistics(snapshot, column) == ColumnStatistics(
        pa.scalar(1, pa.int32()), pa.scalar(4, pa.int32()), False, True, 0
    )
    assert exact_statistics(snapshot, nested) == ColumnStatistics(
        pa.scalar(3, pa.int32()), pa.scalar(3, pa.int32()), True, True, 0
    )
    assert exact_statistics(snapshot, partition) == ColumnStatistics(
        pa.scalar("north"), pa.scalar("north"), False, True, 0
    )
    assert unreadable_reason(snapshot.protocol, snapshot.metadata) is None
    agree(spark, root)


def test_classic_checkpoint_and_cleaned_log(spark: SparkSession, tmp_path: Path) -> None:
    """The commits before a checkpoint may go: later versions stay, earlier ones are told to be gone."""
    root = tmp_path / "classic"
    for number in range(5):
        writer = spark.range(number, number + 1, 1, 1).write.format("delta").mode("append")
        writer.option("delta.checkpointInterval", "3").save(str(root))
    whole = {version: DeltaLog(str(root)).snapshot(version) for version in range(5)}
    agree(spark, root)
    checkpoint = root / "_delta_log" / f"{3:020d}.checkpoint.parquet"
    assert checkpoint.exists()
    for version in range(4):
        (root / "_delta_log" / f"{version:020d}.json").unlink()
    log = DeltaLog(str(root))

    assert log.snapshot() == whole[4]
    assert log.header() == whole[4].header
    assert log.snapshot(3).files == whole[3].files
    assert log.header(3).metadata == whole[3].metadata
    assert log.newest_version() == 4
    with pytest.raises(VersionNotFoundError, match=r"version 2 of .* not found: versions 3 to 4 are avail"):
        log.snapshot(2)
    checkpoint.write_bytes(b"PAR1 nonsense")
    with pytest.raises(CorruptLogError, match=r"at version 3: .*checkpoint\.parquet cannot be decoded"):
        DeltaLog(str(root)).snapshot()


def test_multi_part_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint in parts is read if all parts are there, and ignored if not."""
    root = tmp_path / "parts"
    spark.range(0, 30, 1, 3).write.format("delta").option("delta.checkpointInterval", "1").save(str(root))
    with setting(spark, "spark.databricks.delta.checkpoint.partSize", "2"):
        spark.range(30, 40, 1, 2).write.format("delta").mode("append").save(str(root))
    expected = DeltaLog(str(root)).snapshot()
    parts = sorted((root / "_delta_log").glob("*.checkpoint.*.*.parquet"))
    (root / "_delta_log" / f"{0:020d}.json").unlink()
    from_parts = DeltaLog(str(root)).snapshot()
    header = DeltaLog(str(root)).header()
    parts[0].unlink()

    assert len(parts) > 1
    assert len(from_parts.files) == 5
    assert from_parts == expected
    assert header == expected.header
    with pytest.raises(CorruptLogError, match="damaged at version 0"):
        DeltaLog(str(root)).snapshot()


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_v2_checkpoint(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """A checkpoint with sidecars says the same as the commits, in both its forms."""
    root = tmp_path / "v2"
    with setting(spark, "spark.databricks.delta.checkpointV2.topLevelFileFormat", form):
        for number in range(4):
            writer = spark.range(number, number + 1, 1, 1).write.format("delta").mode("append")
            options = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
            writer.options(**options).save(str(root))
    expected = DeltaLog(str(root)).snapshot()
    log_folder = root / "_delta_log"
    for version in range(2):
        (log_folder / f"{version:020d}.json").unlink()
    (log_folder / "_last_checkpoint").unlink()
    checkpoints = list(log_folder.glob(f"{2:020d}.checkpoint.*.{form}"))
    log = DeltaLog(str(root))

    assert len(checkpoints) == 1
    assert log.snapshot() == expected
    assert log.header() == expected.header
    assert len(log.snapshot(2).files) == 3
    assert unreadable_reason(expected.protocol, expected.metadata) is None
    for sidecar in (log_folder / "_sidecars").glob("*.parquet"):
        sidecar.unlink()
    with pytest.raises(CorruptLogError, match=r"at version 2: _sidecars/.* is missing"):
        DeltaLog(str(root)).snapshot()


def test_checkpoint_with_parsed_statistics_only(spark: SparkSession, tmp_path: Path) -> None:
    """Statistics that a checkpoint holds as a struct are as good as JSON."""
    root = tmp_path / "parsed"
    options = {
        "delta.checkpointInterval": "1",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    frame = spark.sql(
        "SELECT 7 AS id, DATE'2024-02-29' AS day, 1.50BD AS price, "
        "TIMESTAMP'2024-02-29 12:30:00.005' AS moment"
    )
    instant = datetime(2024, 2, 29, 12, 30, 0, 5_000, tzinfo=UTC)
    for _ in range(2):
        frame.coalesce(1).write.format("delta").mode("append").options(**options).save(str(root))
    (root / "_delta_log" / f"{0:020d}.json").unlink()
    snapshot = DeltaLog(str(root)).snapshot()

    assert snapshot.row_count == 2
    assert [json.loads(file.statistics or "")["numRecords"] for file in snapshot.files] == [1, 1]
    for file in snapshot.files:
        assert bounds(file, StoredColumn(("id",), pa.int32())).minimum == pa.scalar(7, pa.int32())
        assert bounds(file, StoredColumn(("day",), pa.date32())).maximum == pa.scalar(date(2024, 2, 29))
        price = bounds(file, StoredColumn(("price",), pa.decimal128(3, 2)))
        assert price.minimum == pa.scalar(Decimal("1.50"), pa.decimal128(3, 2))
        moment = bounds(file, StoredColumn(("moment",), pa.timestamp("us", "UTC")))
        assert moment.minimum == pa.scalar(instant, pa.timestamp("us", "UTC"))


def test_in_commit_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    """Times of versions are those of DESCRIBE HISTORY, also where the feature came later."""
    root = tmp_path / "timed"
    spark.range(0, 1, 1, 1).write.format("delta").save(str(root))
    spark.range(0, 1, 1, 1).write.format("delta").mode("append").save(str(root))
    spark.sql(f"ALTER TABLE delta.`{root}` SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    spark.range(0, 1, 1, 1).write.format("delta").mode("append").save(str(root))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{root}`").selectExpr(
        "version", "unix_millis(timestamp) AS at"
    )
    log = DeltaLog(str(root))
    times = {row["version"]: row["at"] for row in collected(history)}

    assert {version: log.snapshot(version).timestamp_ms for version in range(4)} == times
    assert [log.version_at(times[version]) for version in range(4)] == [0, 1, 2, 3]
    assert [log.version_at(times[version] - 1) for version in range(1, 4)] == [0, 1, 2]


def test_bounds_hold_for_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """Statistics of Spark are sound bounds, and exact where they claim to be."""
    root = tmp_path / "typed"
    spark.sql(
        f"CREATE TABLE delta.`{root}` (i BIGINT, d DECIMAL(38,0), e DECIMAL(10,2), f DOUBLE, w STRING, "
        "l STRING, day DATE, t TIMESTAMP, n TIMESTAMP_NTZ, b BINARY, o BOOLEAN) USING delta"
    )
    spark.sql(
        f"INSERT INTO delta.`{root}` SELECT /*+ COALESCE(1) */ * FROM VALUES "
        "(-5L, 12345678901234567890123456789012345678BD, 1.10BD, 1.5D, 'ä', repeat('a', 40), "
        "DATE'2024-01-01', TIMESTAMP'2024-01-01 00:00:00.123456', "
        "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456', X'00', true), "
        "(9L, 3BD, 2.25BD, double('NaN'), null, repeat('b', 40), DATE'2024-03-01', "
        "TIMESTAMP'2024-01-02 00:00:00.999999', TIMESTAMP_NTZ'2024-01-02 00:00:00.999999', X'FF', false)"
    )
    log = DeltaLog(str(root))
    snapshot = log.snapshot()
    file = snapshot.files[0]
    rows = pq.read_table(file.path)

    for name in rows.column_names:
        column = StoredColumn((name,), _storage_type(rows.schema.field(name).type))
        known = bounds(file, column)
        for value in rows.column(name).cast(column.arrow_type).drop_null().to_pylist():
            assert known.minimum is None or not value < known.minimum.as_py()
            assert known.maximum is None or not value > known.maximum.as_py()

    def exact(name: str, arrow_type: pa.DataType) -> tuple[object, object]:
        found = exact_statistics(snapshot, StoredColumn((name,), arrow_type))
        assert found is not None
        return found.minimum.as_py(), found.maximum.as_py()

    assert exact("i", pa.int64()) == (-5, 9)
    assert exact("e", pa.decimal128(10, 2)) == (Decimal("1.10"), Decimal("2.25"))
    assert exact("day", pa.date32()) == (date(2024, 1, 1), date(2024, 3, 1))
    assert exact("w", pa.string()) == ("ä", "ä")
    for name, kind in {"l": pa.string(), "f": pa.float64(), "t": pa.timestamp("us", "UTC")}.items():
        assert exact(name, kind) == (None, None)
    words = exact_statistics(snapshot, StoredColumn(("w",), pa.string()))
    assert words is not None
    assert words.has_null
    assert words.has_not_null
    skipped = bounds(file, StoredColumn(("l",), pa.string()))
    assert skipped.minimum == pa.scalar("a" * 32)
    assert skipped.maximum == pa.scalar("b" * 32 + "\x7f")


def _storage_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", "UTC" if arrow_type.tz else None)
    return arrow_type


def test_widened_and_variant_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A widened column can be read without Spark, a variant cannot."""
    wide, variant = tmp_path / "wide", tmp_path / "variant"
    spark.sql(
        f"CREATE TABLE delta.`{wide}` (a SMALLINT) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{wide}` VALUES (1)")
    spark.sql(f"ALTER TABLE delta.`{wide}` ALTER COLUMN a TYPE INT")
    spark.sql(f"CREATE TABLE delta.`{variant}` (v VARIANT) USING delta")
    widened = DeltaLog(str(wide)).header()
    varied = DeltaLog(str(variant)).header()

    assert unreadable_reason(widened.protocol, widened.metadata) is None
    assert (
        unreadable_reason(varied.protocol, varied.metadata) == "the table uses the reader feature variantType"
    )


def test_description_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Name, comment, properties and size are those of DESCRIBE DETAIL."""
    root = tmp_path / "detail"
    spark.sql(
        f"CREATE TABLE delta.`{root}` (id BIGINT COMMENT 'key', day DATE) USING delta PARTITIONED BY (day) "
        "COMMENT 'all of it' TBLPROPERTIES ('team' = 'us')"
    )
    spark.sql(f"INSERT INTO delta.`{root}` VALUES (1, DATE'2024-01-01'), (2, null)")
    detail = collected(spark.sql(f"DESCRIBE DETAIL delta.`{root}`"))[0]
    snapshot = DeltaLog(str(root)).snapshot()
    other = DeltaTable(str(root))

    assert snapshot.metadata.description == "all of it" == detail["description"]
    assert snapshot.metadata.table_id == detail["id"]
    assert snapshot.metadata.partition_columns == tuple(detail["partitionColumns"])
    assert snapshot.metadata.configuration["team"] == "us"
    assert snapshot.metadata.fields[0].metadata == {"comment": "key"}
    assert len(snapshot.files) == detail["numFiles"]
    assert sum(file.size for file in snapshot.files) == detail["sizeInBytes"]
    assert snapshot.protocol.min_reader == detail["minReaderVersion"]
    assert snapshot.version == other.version() == 1
    assert sorted(file.path for file in snapshot.files) == sorted(
        unquote(urlparse(uri).path) for uri in other.file_uris()
    )
