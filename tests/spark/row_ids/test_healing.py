"""Rows that others append without ids get theirs with the next UPDATE or DELETE."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call, ChangeColumnType, CreateTableOptions, ScanOptions
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from sparkport.errors import PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.model.columns import table_columns
from sparkport.spark.read.planning import matching_files
from sparkport.spark.row_ids.allocator import RowIdAllocator
from sparkport.spark.table import DeltaTable
from tests.spark.read.lake import Lake, Way
from tests.spark.row_ids.tables import actions, delete, ids_of, newest


def _made(lake: Lake, name: str, columns: pa.Schema | None = None) -> DeltaTable:
    """Return a table of our own with two files of rows that have ids."""
    columns = columns or pa.schema({"id": pa.int64(), "s": pa.string()})
    table = SparkSchema(lake.schema, lake.catalog.tables).create_table(
        Call(), name, columns, CreateTableOptions()
    )
    for start in (1, 3):
        rows = [{"id": start, "s": "own"}, {"id": start + 1, "s": "own"}]
        table.insert(Call(), pa.Table.from_pylist(rows, columns).to_reader())
    return table


def test_rows_of_outside_writers_get_ids(lake: Lake) -> None:
    """Only files with such rows are written again, once for all servers; until then numbers stand in."""
    table = _made(lake, "healed")
    own = ids_of(lake, "healed")
    lake.run("healed", "INSERT INTO {t} (id, s) VALUES (5, 'x'), (6, 'x')", "INSERT INTO {t} (id) VALUES (7)")
    shown = ids_of(lake, "healed")
    at = newest(table)
    below = ScanOptions(("id",), _compared(ComparisonOperator.LESS, 0))
    above = ScanOptions(("id",), _compared(ComparisonOperator.GREATER_OR_EQUAL, 0))
    unknown = table.column_statistics(Call(), "rowid")
    counted = lake.read("healed", ScanOptions(("rowid",)))

    assert {key: shown[key] for key in own} == own
    assert all(shown[key] < 0 for key in (5, 6, 7))
    assert [row["id"] for row in lake.rows("healed", below)] == [5, 6, 7]
    assert [row["id"] for row in lake.rows("healed", above)] == [1, 2, 3, 4]
    assert not unknown.minimum.is_valid
    assert sorted(counted["rowid"].to_pylist()) == sorted(shown.values())

    tables = [table, lake.table("healed", way=Way.SQL)]
    reader = Call(transaction_id=lake.engine.transactions.begin_transaction(Call()))
    assert table.snapshot(reader, None).row_count == 7
    together = threading.Barrier(3)
    with ThreadPoolExecutor(3) as threads:
        starts = [
            threads.submit(_begin, part, call, together)
            for part, call in [(tables[0], Call()), (tables[1], Call()), (tables[0], reader)]
        ]
        for start in starts:
            start.result()
    ids = ids_of(lake, "healed")
    outside = {
        action["path"]
        for version in (at - 1, at)
        for kind, action in actions(table, version)
        if kind == "add"
    }
    removed = {action["path"] for kind, action in actions(table, at + 1) if kind == "remove"}

    assert newest(table) == at + 1
    assert removed == outside
    assert min(ids.values()) >= 0
    assert len(set(ids.values())) == 7
    assert {key: ids[key] for key in own} == own
    assert lake.read("healed", call=reader).sort_by("id").equals(lake.read("healed").sort_by("id"))
    with pytest.raises(PreconditionError, match="provisional"):
        delete(table, [own[1], shown[7]])
    assert delete(table, [own[1], ids[7]], reader) == 2
    assert sorted(ids_of(lake, "healed", way=Way.SQL)) == [2, 3, 4, 5, 6]


def test_writers_that_come_between_lose_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows appended while others get ids get theirs too; a delete meanwhile makes it try again."""
    table = _made(lake, "busy")
    lake.run("busy", "INSERT INTO {t} (id) VALUES (5), (6)")
    between = [
        "INSERT INTO {t} (id) VALUES (7)",
        "DELETE FROM {t} WHERE id = 5",
        "INSERT INTO {t} (id) VALUES (8)",
    ]
    monkeypatch.setattr(
        RowIdAllocator,
        "ranges",
        _disturbed(RowIdAllocator.ranges, lambda: lake.run("busy", between.pop(0)), between),
    )
    table.begin_delete(Call(), returning=False).abort()
    ids = ids_of(lake, "busy")

    assert not between
    assert sorted(ids) == [1, 2, 3, 4, 6, 7, 8]
    assert min(ids.values()) >= 0
    assert len(set(ids.values())) == 7


def test_appends_of_delta_rs_to_an_adopted_table_get_ids(lake: Lake) -> None:
    """A writer that knows nothing of Spark leaves the ids out, and its rows are none the worse."""
    root = str(lake.root("rust"))
    write_deltalake(root, pa.table({"id": [1, 2], "s": ["a", "b"]}))
    table = lake.table("rust")
    table.begin_delete(Call(), returning=False).abort()
    before = ids_of(lake, "rust")
    write_deltalake(root, pa.table({"id": [3], "s": ["c"]}), mode="append", schema_mode="merge")
    table.begin_delete(Call(), returning=False).abort()
    ids = ids_of(lake, "rust")

    assert ids == before | {3: ids[3]}
    assert ids[3] not in before.values()
    assert min(ids.values()) >= 0


def test_rows_without_ids_stay_so_when_a_table_is_altered(lake: Lake) -> None:
    """Rows that are written again for another reason are not given their numbers for good."""
    table = _made(lake, "altered")
    lake.run("altered", "INSERT INTO {t} (id) VALUES (5)")
    before = ids_of(lake, "altered")
    table.alter(Call(), ChangeColumnType("id", pa.int32()))
    hidden = {row["id"]: row["_sparkport_rowid"] for row in lake.spark_rows("altered")}

    assert hidden == {key: number if number >= 0 else None for key, number in before.items()}


def test_ids_of_a_wide_table_have_statistics(lake: Lake) -> None:
    """A statement by id skips files also where Delta would keep no statistics of the last column."""
    columns = pa.schema([("id", pa.int64()), ("s", pa.string()), *((f"c{n}", pa.int64()) for n in range(40))])
    table = _made(lake, "wide", columns)
    ids = ids_of(lake, "wide")
    some = ScanOptions(filter=_compared(ComparisonOperator.EQUAL, ids[1]))

    assert [row["id"] for row in lake.rows("wide", some)] == [1]
    assert _files(lake.catalog, table, some) == 1
    assert delete(table, [ids[3]]) == 1
    assert sorted(ids_of(lake, "wide")) == [1, 2, 4]


def _begin(table: DeltaTable, call: Call, together: threading.Barrier) -> None:
    together.wait(30)
    table.begin_update(call, ("s",), returning=False).abort()


def _compared(operator: ComparisonOperator, value: int) -> Comparison:
    return Comparison(operator, Column("rowid"), Constant(pa.scalar(value, pa.int64())))


def _disturbed(
    ranges: Callable[[RowIdAllocator, int, int], list[int]], disturb: Callable[[], None], left: list[str]
) -> Callable[[RowIdAllocator, int, int], list[int]]:
    def disturbed(self: RowIdAllocator, count: int, size: int) -> list[int]:
        if left:
            disturb()
        return ranges(self, count, size)

    return disturbed


def _files(catalog: SparkCatalog, table: DeltaTable, options: ScanOptions) -> int:
    snapshot = catalog.engine.log(table.root).snapshot()
    return len(matching_files(snapshot, table_columns(snapshot.metadata), options.filter))
