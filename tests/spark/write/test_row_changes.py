"""UPDATE and DELETE in place: deletion vectors and small files that every Delta reader understands."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import QueryBuilder
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateTableOptions, ScanOptions
from sparkport.catalog.budget import ByteBudget, Resources
from sparkport.errors import LimitExceededError, NotFoundError, RowNotFoundError
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.commit import folder_lock, group_commit
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.sql_names import quoted
from sparkport.spark.table import DeltaTable
from sparkport.spark.write import deletion_vector_update, file_rewrite
from tests.spark.ddl.tables import actions, ids, made, newest, rows

UTC = dt.UTC


def numbers(count: int, start: int = 0) -> pa.Table:
    """Return rows with a key and a text."""
    keys = range(start, start + count)
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"text {key}" for key in keys]})


def id_of(table: DeltaTable) -> dict[int, int]:
    """Return the row id of each key."""
    found = table.scan(Call(), ScanOptions(columns=("k", "rowid"))).read_all()
    return dict(zip(found["k"].to_pylist(), found["rowid"].to_pylist(), strict=True))


def update(table: DeltaTable, keys: list[int], **values: list[Any]) -> int:
    """Set columns of the rows with these keys."""
    known = id_of(table)
    row_ids = pa.array([known[key] for key in keys], pa.int64())
    types = {field.name: field.type for field in table.arrow_schema}
    changes = pa.table({name: pa.array(column, types[name]) for name, column in values.items()})
    return table.update(Call(), row_ids, changes.to_reader()).affected_rows


def delete(table: DeltaTable, keys: list[int]) -> int:
    """Remove the rows with these keys."""
    known = id_of(table)
    return table.delete(Call(), pa.array([known[key] for key in keys], pa.int64())).affected_rows


def by_spark(spark: SparkSession, table: DeltaTable, where: str = "true") -> list[int]:
    """Return the keys that Spark finds."""
    found = spark.read.format("delta").load(table.root).where(where).select("k").collect()
    return sorted(row.k for row in found)


def by_delta_rs(table: DeltaTable) -> list[int]:
    """Return the keys that delta-rs finds."""
    query = QueryBuilder().register("t", deltalake.DeltaTable(table.root))
    found = pa.table(query.execute("SELECT k FROM t ORDER BY k").read_all())
    keys: list[int] = found["k"].to_pylist()
    return keys


def test_changes_in_place_are_read_by_everyone(schema: SparkSchema, spark: SparkSession) -> None:
    """Rows keep their ids; Spark and delta-rs see what sparkport sees, and the history tells how much."""
    table = made(schema, numbers(50))
    table.insert(Call(), numbers(50, 50).to_reader())
    before = id_of(table)
    version = newest(table)

    assert update(table, [3, 60, 99], s=["drei", "sechzig", None]) == 3
    assert delete(table, [0, 3, 50]) == 3
    assert delete(table, [1, 51]) == 2
    assert update(table, [60], s=["again"]) == 1
    left = [key for key in range(100) if key not in {0, 1, 3, 50, 51}]
    assert newest(table) == version + 4
    assert {key: before[key] for key in left} == id_of(table)
    texts = {row["k"]: row["s"] for row in rows(table)}
    assert (texts[60], texts[99], texts[98]) == ("again", None, "text 98")
    assert by_spark(spark, table) == left
    assert by_delta_rs(table) == left
    history = spark.sql(f"DESCRIBE HISTORY delta.{quoted(table.root)}").collect()
    told = [(entry.operation, dict(entry.operationMetrics)) for entry in history[:4]]
    assert [operation for operation, _ in told] == ["UPDATE", "DELETE", "DELETE", "UPDATE"]
    assert (told[0][1]["numUpdatedRows"], told[2][1]["numDeletedRows"]) == ("1", "3")


def test_file_without_rows_leaves_the_table(schema: SparkSchema, spark: SparkSession) -> None:
    """A file whose last row goes is removed, and needs no deletion vector."""
    table = made(schema, numbers(3))
    delete(table, [0])
    delete(table, [1, 2])

    assert actions(table, newest(table)).count("remove") == 1
    assert "add" not in actions(table, newest(table))
    assert rows(table) == []
    assert by_spark(spark, table) == []


EVERY_TYPE = pa.table(
    {
        "k": pa.array([1, 2, 3], pa.int64()),
        "tiny": pa.array([-128, 0, None], pa.int8()),
        "small": pa.array([-32768, 5, 32767], pa.int16()),
        "real": pa.array([1.5, -0.0, None], pa.float32()),
        "double": pa.array([float("nan"), 1e300, 2.0]),
        "flag": pa.array([True, None, False]),
        "day": pa.array([dt.date(1, 1, 1), dt.date(2026, 11, 16), None]),
        "at": pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)] * 3, pa.timestamp("us", "UTC")),
        "local": pa.array([-1, None, None], pa.timestamp("us")),
        "price": pa.array([Decimal("-0.01"), Decimal("99999999.99"), None], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(10) ** 37, None, Decimal(-1)], pa.decimal128(38, 0)),
        "text": pa.array(["", "ä" * 40, "z\U0001f600" * 20]),
        "bytes": pa.array([b"\x00\xff", None, b""]),
    }
)


def test_small_files_have_every_flat_type(schema: SparkSchema, spark: SparkSession) -> None:
    """A row that the server writes itself is what Spark would have written, and found by every filter."""
    table = made(schema, EVERY_TYPE)
    before = rows(table)
    known = id_of(table)
    row_ids = pa.array([known[1], known[2], known[3]], pa.int64())
    table.update(Call(), row_ids, EVERY_TYPE.to_reader())
    commit = Path(table.root, "_delta_log", f"{newest(table):020}.json").read_text(encoding="utf-8")
    added = [json.loads(line)["add"] for line in commit.splitlines() if line.startswith('{"add"')]

    assert len(added) == 1
    assert json.dumps(rows(table), default=str) == json.dumps(before, default=str)
    frame = spark.read.format("delta").load(table.root)
    assert frame.count() == 3
    assert all(field_ids(Path(table.root, added[0]["path"])))
    conditions = {
        "tiny = -128": [1],
        "small > 5": [3],
        "double = double('NaN')": [1],
        "double > 1e299": [1, 2],
        "day = date'0001-01-01'": [1],
        "at = timestamp'2026-01-01 00:00:00.123456Z'": [1, 2, 3],
        "local = timestamp_ntz'1969-12-31 23:59:59.999999'": [1],
        "price = -0.01": [1],
        "wide = -1": [3],
        "text = repeat('ä', 40)": [2],
        "text > 'zz'": [2, 3],
        "bytes = X'00FF'": [1],
        "flag": [1],
        "local IS NULL": [2, 3],
    }
    assert {where: by_spark(spark, table, where) for where in conditions} == conditions


def field_ids(path: Path) -> list[str | None]:
    """Return the Parquet field ids of a file's columns."""
    found = pq.read_schema(path)
    return [(field.metadata or {}).get(b"PARQUET:field_id") for field in found]


def test_tables_that_only_delta_can_change(schema: SparkSchema, spark: SparkSession) -> None:
    """With a change feed, or without deletion vectors, Delta's own statements do it, feed included."""
    table = made(schema, numbers(10))
    location = f"delta.{quoted(table.root)}"
    spark.sql(f"ALTER TABLE {location} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)").collect()
    begun = newest(table) + 1
    update(table, [1], s=["one"])
    delete(table, [2])
    feed = spark.sql(f"SELECT * FROM table_changes_by_path('{table.root}', {begun})").collect()
    spark.sql(
        f"ALTER TABLE {location} SET TBLPROPERTIES"
        " (delta.enableChangeDataFeed = false, delta.enableDeletionVectors = false)"
    ).collect()
    delete(table, [3, 4])

    assert sorted((row._change_type, row.k) for row in feed) == [
        ("delete", 2),
        ("update_postimage", 1),
        ("update_preimage", 1),
    ]
    assert by_spark(spark, table) == [0, 1, 5, 6, 7, 8, 9]


def test_nested_rows_are_written_by_spark(schema: SparkSchema, spark: SparkSession) -> None:
    """Deletion vectors are set in place; the rows that need more than a flat file go through Spark."""
    nested = numbers(4).append_column("l", pa.array([[1], [], None, [2, None]], pa.list_(pa.int32())))
    table = made(schema, nested)
    update(table, [0, 3], s=["null", "drei"])

    assert by_spark(spark, table) == [0, 1, 2, 3]
    assert [row["l"] for row in sorted(rows(table), key=lambda row: row["k"])] == [[1], [], None, [2, None]]


def test_other_writers_in_between(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append meanwhile does no harm, a change of the same file is seen, a row that went is missing."""
    table = made(schema, numbers(10))
    location = f"delta.{quoted(table.root)}"
    real = deletion_vector_update.commit
    meanwhile: list[str] = []

    def late(*arguments: Any) -> CommitResult:
        if meanwhile:
            spark.sql(meanwhile.pop()).collect()
        return real(*arguments)

    monkeypatch.setattr(deletion_vector_update, "commit", late)
    meanwhile.append(f"INSERT INTO {location} SELECT 100, 'outside', 1 << 40")
    update(table, [1], s=["one"])
    meanwhile.append(f"DELETE FROM {location} WHERE k = 2")
    update(table, [3], s=["three"])
    meanwhile.append(f"DELETE FROM {location} WHERE k = 4")
    with pytest.raises(RowNotFoundError):
        update(table, [4], s=["four"])

    texts = {row["k"]: row["s"] for row in rows(table)}
    assert (texts[1], texts[3], texts[100]) == ("one", "three", "outside")
    assert sorted(texts) == [0, 1, 3, 5, 6, 7, 8, 9, 100]
    assert list(Path(table.root).glob("deletion_vector_*")) != []


def test_files_of_many_rows_are_written_again(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what the server keeps in memory, Spark joins the rows, with the same outcome."""
    monkeypatch.setattr(deletion_vector_update, "MAX_UPDATED", 5)
    monkeypatch.setattr(deletion_vector_update, "MAX_DELETED", 5)
    monkeypatch.setattr(file_rewrite, "_MAX_LISTED", 3)
    table = made(schema, numbers(20), CreateTableOptions())
    before = ids(table)
    update(table, list(range(10)), s=["new"] * 10)
    delete(table, list(range(5, 15)))

    assert [row["s"] for row in rows(table)].count("new") == 5
    assert by_spark(spark, table) == [0, 1, 2, 3, 4, 15, 16, 17, 18, 19]
    assert set(ids(table)) < set(before)


def test_wide_rows_are_not_collected_in_memory(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows may have many bytes, before or after: Spark changes them, with the same outcome."""
    monkeypatch.setattr(deletion_vector_update, "MAX_UPDATED_BYTES", 2000)
    table = made(schema, numbers(20))
    update(table, [1, 2], s=["a", "b"])
    in_place = len(list(Path(table.root).glob("deletion_vector_*")))
    update(table, [3], s=["new" * 1000])
    update(table, [3, 4], s=["c", "d"])

    assert in_place == 1
    assert len(list(Path(table.root).glob("deletion_vector_*"))) == in_place
    assert [row["s"] for row in sorted(rows(table), key=lambda row: row["k"])[1:5]] == ["a", "b", "c", "d"]
    assert by_spark(spark, table) == list(range(20))


@pytest.mark.parametrize("limit", [100, 500])
@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_statement_without_memory_changes_nothing(schema: SparkSchema, operation: str, limit: int) -> None:
    """Ids, and the rows that they name, count for the memory of all calls."""
    table = made(schema, numbers(20))
    before, version = rows(table), newest(table)
    row_ids = pa.array(ids(table), pa.int64())
    budget = ByteBudget(limit)
    call = Call(resources=Resources(budget))
    new = pa.table({"s": ["new"] * 20}).to_reader()
    run = functools.partial(table.update, rows=new) if operation == "UPDATE" else table.delete
    with pytest.raises(LimitExceededError, match="no memory is left"):
        run(call, row_ids)

    assert budget.held == 0
    assert newest(table) == version
    assert rows(table) == before


def test_memory_is_given_back_after_a_statement(schema: SparkSchema) -> None:
    """Also a statement that names a row twice, or none that is there, leaves nothing behind."""
    table = made(schema, numbers(20))
    budget = ByteBudget(100_000)
    call = Call(resources=Resources(budget))
    twice = pa.array([ids(table)[0]] * 2, pa.int64())
    assert table.update(call, twice, pa.table({"s": ["a", "b"]}).to_reader()).affected_rows == 1
    with pytest.raises(RowNotFoundError):
        table.update(call, pa.array([12345], pa.int64()), pa.table({"s": ["a"]}).to_reader())
    assert table.delete(call, pa.array(ids(table), pa.int64())).affected_rows == 20

    assert budget.held == 0


def test_a_table_that_took_the_place_of_another_is_not_written_to(
    schema: SparkSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even in the moment before the commit, and if it has as many versions."""
    table, other = made(schema, numbers(3), name="replaced"), made(schema, numbers(5), name="replacing")
    shared = folder_lock.shared

    def replacing(root: str, name: str) -> contextlib.AbstractContextManager[None]:
        monkeypatch.undo()
        Path(root).rename(tmp_path / "away")
        shutil.copytree(other.root, root)
        return shared(root, name)

    known = id_of(table)
    monkeypatch.setattr(group_commit, "shared", replacing)
    with pytest.raises(NotFoundError):
        table.delete(Call(), pa.array([known[1]], pa.int64()))

    again = schema.table(Call(), "replaced")
    assert isinstance(again, DeltaTable)
    assert sorted(id_of(again)) == [0, 1, 2, 3, 4]
    assert newest(again) == newest(other)
