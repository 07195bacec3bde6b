"""Checkpoints that the server writes beside the statements."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, DropTableOptions
from sparkport.errors import LimitExceededError
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.delta_jvm import log_cache
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import inserted, made, newest, rows

from .disk import Identity, identities

_PATIENCE = 60.0  # seconds, on a machine that does other things too
_INTERVAL = "delta.checkpointInterval"


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < until, "it never came to hold"
        time.sleep(0.02)


def checkpoints(table: DeltaTable) -> list[int]:
    """Return the versions that have a checkpoint."""
    found = Path(table.root, "_delta_log").glob("*.checkpoint*.parquet")
    return sorted(int(path.name[:20]) for path in found if not path.name.startswith("."))


def wanting(schema: SparkSchema, spark: SparkSession, interval: int) -> DeltaTable:
    """Return a table at version 1 that wants a checkpoint after so many commits."""
    table = made(schema, pa.table({"n": pa.array([], pa.int64())}))
    spark.sql(f"ALTER TABLE delta.`{table.root}` SET TBLPROPERTIES ({_INTERVAL} = {interval})")
    return table


def is_idle(table: DeltaTable) -> bool:
    """Tell whether no checkpoint is being written."""
    return not table.versions._checkpoints._writing.locked()


def test_checkpoints_are_written_while_statements_go_on(schema: SparkSchema, spark: SparkSession) -> None:
    """They are there soon after they were due, and all readers see the same rows with them."""
    table = wanting(schema, spark, 3)
    for number in range(2):
        inserted(table, n=number)
    eventually(lambda: checkpoints(table) == [3])
    inserted(table, n=2)
    for commit in range(3):  # only the checkpoint tells what they have done
        Path(table.root, "_delta_log", f"{commit:020}.json").unlink()
    log_cache.forget(table.root, spark)
    seen = [{"n": 0}, {"n": 1}, {"n": 2}]

    assert newest(table) == 4
    assert rows(table) == seen
    assert sorted(row["n"] for row in spark.read.format("delta").load(table.root).collect()) == [0, 1, 2]
    assert deltalake.DeltaTable(table.root).version() == 4
    assert (Path(table.root) / "_delta_log" / "_last_checkpoint").exists()


def test_no_statement_waits_for_a_checkpoint(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is written statements end, and no other is begun; a table is dropped after it."""
    begun, go_on = threading.Event(), threading.Event()
    write, asked = log_cache.checkpoint, []

    def slow(root: str, session: SparkSession) -> None:
        asked.append(root)
        begun.set()
        assert go_on.wait(_PATIENCE)
        write(root, session)

    monkeypatch.setattr(log_cache, "checkpoint", slow)
    table = wanting(schema, spark, 2)
    for number in range(4):
        inserted(table, n=number)
    assert begun.wait(_PATIENCE)
    dropping = threading.Thread(target=schema.drop_table, args=(Call(), "t", DropTableOptions()))
    dropping.start()
    before = (checkpoints(table), len(rows(table)), asked, dropping.is_alive())
    go_on.set()
    dropping.join(_PATIENCE)

    assert before == ([], 4, [table.root], True)
    assert not Path(table.root).exists()


@pytest.mark.parametrize("error", [LimitExceededError("full"), RuntimeError("who knows")])
def test_checkpoint_that_fails_is_tried_again_later(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The statements know nothing of it, and not each of them tries anew."""
    tries: list[int] = []

    def fail(root: str, session: SparkSession) -> None:
        del root, session
        tries.append(newest(table))
        raise error

    monkeypatch.setattr(log_cache, "checkpoint", fail)
    table = wanting(schema, spark, 2)
    for number in range(4):
        inserted(table, n=number)
        eventually(lambda: is_idle(table))

    assert tries == [2, 4]
    assert len(rows(table)) == 4


def test_table_that_is_gone_gets_no_checkpoint(schema: SparkSchema, spark: SparkSession) -> None:
    """Nothing is left in the place of a dropped table."""
    table = wanting(schema, spark, 100)
    inserted(table, n=1)
    schema.drop_table(Call(), "t", DropTableOptions())
    log_cache.checkpoint(table.root, spark)
    table.versions._checkpoints.write_if_due("t", table.versions.log)

    assert not Path(table.root).exists()
    assert is_idle(table)


@pytest.mark.parametrize("word", ["", "ten", "-1", "0", "1000000"])
def test_odd_intervals_are_no_error(schema: SparkSchema, word: str) -> None:
    """A table of others may have any text as a property."""
    table = made(schema, pa.table({"n": pa.array([], pa.int64())}))
    first = Path(table.root, "_delta_log", f"{0:020}.json")
    text = first.read_text(encoding="utf-8")
    assert f'"{_INTERVAL}":"200"' in text
    first.write_text(text.replace(f'"{_INTERVAL}":"200"', f'"{_INTERVAL}":"{word}"'), encoding="utf-8")
    table.versions._checkpoints.write_if_due("t", table.versions.log)

    assert is_idle(table)


def test_checkpoints_are_on_the_disk(schema: SparkSchema, spark: SparkSession, synced: set[Identity]) -> None:
    """One that was lost in part would hide the commits behind it."""
    table = wanting(schema, spark, 2)
    inserted(table, n=1)
    log = Path(table.root, "_delta_log")
    eventually(lambda: checkpoints(table) == [2] and is_idle(table))

    assert identities([*log.glob("*.checkpoint*.parquet"), log / "_last_checkpoint"]) <= synced
