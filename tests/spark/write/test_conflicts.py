"""First to commit wins, row by row, whoever else writes and however often a commit has to be tried again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.errors import ConflictError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.commit.group_commit import CommitQueue
from sparkport.spark.sql_names import quoted
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import made

WAYS = {
    "deletion vectors": "delta.enableDeletionVectors = true",
    "files written again": "delta.enableDeletionVectors = false",
    "change feed": "delta.enableChangeDataFeed = true",
    "Delta's own statements": "delta.enableRowTracking = true",
}


@pytest.fixture(params=WAYS)
def table(request: pytest.FixtureRequest, schema: SparkSchema, spark: SparkSession) -> DeltaTable:
    """Return a table whose rows are changed in each way there is."""
    rows = pa.table({"k": pa.array(range(6), pa.int64()), "n": pa.array([0] * 6, pa.int64())})
    table = made(schema, rows)
    spark.sql(f"ALTER TABLE delta.{quoted(table.root)} SET TBLPROPERTIES ({WAYS[request.param]})").collect()
    return table


@pytest.fixture
def begun(catalog: SparkCatalog, table: DeltaTable) -> Call:
    """Return a call of a transaction that has read the table."""
    call = Call(transaction_id=catalog.transactions.begin_transaction(Call()))
    table.scan(call, ScanOptions()).read_all()
    return call


def values(table: DeltaTable, call: Call | None = None) -> dict[int, int]:
    """Return the number of each key."""
    rows = table.scan(call or Call(), ScanOptions()).read_all()
    return dict(zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True))


def id_of(table: DeltaTable, key: int) -> int:
    """Return the row id of a key."""
    rows = table.scan(Call(), ScanOptions()).read_all()
    ids: dict[int, int] = dict(zip(rows["k"].to_pylist(), rows["rowid"].to_pylist(), strict=True))
    return ids[key]


def set_number(table: DeltaTable, call: Call, row_id: int, number: int) -> int:
    """Update one row."""
    rows = pa.table({"n": pa.array([number], pa.int64())})
    return table.update(call, pa.array([row_id], pa.int64()), rows.to_reader()).affected_rows


def remove(table: DeltaTable, call: Call, row_id: int) -> int:
    """Delete one row."""
    return table.delete(call, pa.array([row_id], pa.int64())).affected_rows


def before_each_commit(monkeypatch: pytest.MonkeyPatch, others: list[Callable[[], Any]]) -> None:
    """Let others write after a statement has looked at its rows, and right before it commits."""
    run = CommitQueue._run

    def late(*arguments: Any) -> Any:
        if others:
            others.pop(0)()
        return run(*arguments)

    monkeypatch.setattr(CommitQueue, "_run", late)


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("change", [set_number, remove], ids=["update", "delete"])
def test_row_that_another_changes_before_the_commit_is_a_conflict(
    table: DeltaTable,
    begun: Call,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[..., int],
    tries: int,
) -> None:
    """The rows are checked again in every attempt, on the version that the commit is based on."""
    if tries > 1 and "rowTracking" in table.versions.header().protocol.writer_features:
        pytest.skip("Delta's own statements need no second attempt for other rows of the same file")
    location = f"delta.{quoted(table.root)}"
    row_id = id_of(table, 1)
    same, beside = (f"UPDATE {location} SET n = 7 WHERE k = {key}" for key in (1, 2))
    statements = [beside, same][-tries:]
    others: list[Callable[[], Any]] = [
        functools.partial(lambda text: spark.sql(text).collect(), text) for text in statements
    ]
    before_each_commit(monkeypatch, others)

    with pytest.raises(ConflictError, match="changed the same rows"):
        change(table, begun, row_id, *([5] if change is set_number else []))
    assert others == []
    assert values(table) == {0: 0, 1: 7, 2: 7 if tries > 1 else 0, 3: 0, 4: 0, 5: 0}


def test_row_that_goes_before_the_commit_is_not_written_again(
    table: DeltaTable,
    begun: Call,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row that another deletes is a conflict too; other rows of the same file are none."""
    location = f"delta.{quoted(table.root)}"
    gone, kept = id_of(table, 1), id_of(table, 2)
    others: list[Callable[[], Any]] = [lambda: spark.sql(f"DELETE FROM {location} WHERE k = 1").collect()]
    before_each_commit(monkeypatch, others)
    with pytest.raises(ConflictError):
        set_number(table, begun, gone, 5)
    others.append(lambda: spark.sql(f"UPDATE {location} SET n = 9 WHERE k = 3").collect())

    assert set_number(table, begun, kept, 5) == 1
    assert values(table) == {0: 0, 2: 5, 3: 9, 4: 0, 5: 0}


def test_rows_that_share_an_id_are_not_changed(table: DeltaTable, spark: SparkSession) -> None:
    """Another program may copy rows with their ids: then an id does not say which row is meant."""
    location = f"delta.{quoted(table.root)}"
    spark.sql(f"INSERT INTO {location} SELECT * FROM {location} WHERE k = 1").collect()
    row_id = id_of(table, 1)

    with pytest.raises(PreconditionError, match=f"row id {row_id} .* names more than one row"):
        remove(table, Call(), row_id)
    with pytest.raises(PreconditionError, match=f"row id {row_id} .* names more than one row"):
        set_number(table, Call(), row_id, 5)
    assert sorted(values(table)) == [0, 1, 2, 3, 4, 5]
    assert table.scan(Call(), ScanOptions()).read_all().num_rows == 7
