"""Tables made by others get row ids with their first UPDATE or DELETE."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call, ScanOptions
from sparkport.errors import ConflictError, PreconditionError, UnsupportedOperationError
from sparkport.spark.engine import Engine
from sparkport.spark.row_ids.allocator import RowIdAllocator
from tests.spark.read.lake import Lake, Way, at_version
from tests.spark.row_ids.tables import actions, delete, ids_of, newest

_SPARK = (
    """
    CREATE TABLE {t} (id INT NOT NULL, part STRING, twice INT GENERATED ALWAYS AS (id * 2)) USING delta
    CLUSTER BY (part) TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true)
    """,
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
    "INSERT INTO {t} (id, part) SELECT /*+ REPARTITION(2) */ CAST(id AS INT), 'a' FROM range(1, 9)",
    "INSERT INTO {t} (id, part) VALUES (9, 'b'), (10, NULL)",
    "DELETE FROM {t} WHERE id IN (3, 10)",
)
_MAPPED = (
    """
    CREATE TABLE {t} (id INT, `a ``part`` b` STRING, twice INT) USING delta PARTITIONED BY (`a ``part`` b`)
    TBLPROPERTIES (delta.columnMapping.mode = 'id', delta.enableDeletionVectors = true)
    """,
    "INSERT INTO {t} SELECT CAST(id AS INT), concat('p', id % 2), CAST(id * 2 AS INT) FROM range(1, 9)",
    "INSERT INTO {t} VALUES (9, NULL, 18)",
    "DELETE FROM {t} WHERE id = 3",
    "ALTER TABLE {t} RENAME COLUMN `a ``part`` b` TO part",
)


def _rust(lake: Lake, name: str) -> None:
    rows = {"id": list(range(1, 10)), "part": list("abcabcabc"), "twice": list(range(2, 20, 2))}
    table = pa.table(rows, schema=pa.schema({"id": pa.int32(), "part": pa.string(), "twice": pa.int32()}))
    write_deltalake(str(lake.root(name)), table.slice(0, 5), partition_by=["part"])
    write_deltalake(str(lake.root(name)), table.slice(5), mode="append")
    lake.run(name, "DELETE FROM {t} WHERE id = 3")


@pytest.mark.parametrize("kind", ["spark", "mapped", "rust"])
def test_tables_of_others_are_adopted_by_their_first_change(lake: Lake, kind: str) -> None:
    """One commit that changes no data gives every row an id, for all servers, and nothing else changes."""
    if kind == "rust":
        _rust(lake, kind)
    else:
        lake.run(kind, *(_SPARK if kind == "spark" else _MAPPED))
    table = lake.table(kind)
    first = newest(table)
    before = lake.read(kind)
    with pytest.raises(PreconditionError, match=f"row ids of table '{kind}' are provisional"):
        delete(table, before["rowid"].to_pylist()[:1])
    commit = actions(table, first + 1)
    ids = ids_of(lake, kind)

    assert sorted(before["id"].to_pylist()) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert len(set(before["rowid"].to_pylist())) == 8
    assert max(before["rowid"].to_pylist()) < -(1 << 36)
    assert newest(table) == first + 1
    assert not [action for _, action in commit if action.get("dataChange")]
    assert {kind for kind, _ in commit} >= {"metaData", "add", "remove"}
    assert min(ids.values()) >= 0
    assert len(set(ids.values())) == 8
    assert ids_of(lake, kind, way=Way.SQL) == ids

    assert delete(lake.table(kind, way=Way.SQL), [ids[9], ids[1]]) == 2
    rows = pa.table({"part": ["new"]})
    assert table.update(Call(), pa.array([ids[7]]), rows.to_reader()).affected_rows == 1
    left = {key: number for key, number in ids.items() if key not in {1, 9}}
    parts = {row["id"]: (row["part"], row["twice"]) for row in lake.spark_rows(kind)}

    assert ids_of(lake, kind) == left
    assert newest(table) == first + 3
    assert sorted(parts) == [2, 4, 5, 6, 7, 8]
    assert parts[7] == ("new", 14)
    assert lake.read(kind, ScanOptions(time_point=at_version(first))).equals(before)
    lake.run(kind, "INSERT INTO {t} (id, part, twice) VALUES (20, 'x', 40)")
    if kind == "spark":
        changes = f"SELECT _change_type, count(*) FROM table_changes('delta.`{table.root}`', {first + 1})"
        found = {row[0]: row[1] for row in lake.spark.sql(f"{changes} GROUP BY 1").collect()}
        assert found == {"delete": 2, "update_preimage": 1, "update_postimage": 1, "insert": 1}
        with pytest.raises(Exception, match="positive"):
            lake.run(kind, "INSERT INTO {t} (id, part) VALUES (-1, 'x')")
        detail = lake.spark.sql(f"DESCRIBE DETAIL delta.`{table.root}`").collect()[0]
        assert detail["clusteringColumns"] == ["part"]


def test_what_may_not_be_adopted_is_listed_without_ids(lake: Lake) -> None:
    """The server's setting, the table's, and properties that forbid the change keep a table as it is."""
    lake.run("kept", "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('sparkport.adopt' = 'false')")
    lake.run("only", "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES (delta.appendOnly = true)")
    lake.run(
        "tracked", "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES (delta.enableRowTracking = true)"
    )
    lake.run(
        "direct", "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('sparkport.directReads' = 'true')"
    )
    lake.run("free", "CREATE TABLE {t} (id INT) USING delta")
    engine = Engine(lake.engine.host)
    try:
        strict = lake.with_engine(engine).table("free")
        tables = [strict, *map(lake.table, ("kept", "only", "tracked"))]

        for table in tables:
            assert table.arrow_schema.names == ["id"]
            reason = rf"^table '{table.name}' does not support (UPDATE|DELETE) \(no rowid\)$"
            with pytest.raises(UnsupportedOperationError, match=reason):
                table.begin_update(Call(), ("id",), returning=False)
            with pytest.raises(UnsupportedOperationError, match=reason):
                table.begin_delete(Call(), returning=False)
            assert newest(table) == 0
        assert lake.table("free").arrow_schema.names == ["id", "rowid"]
        assert lake.table("direct").arrow_schema.names == ["id", "rowid"]
    finally:
        engine.jobs.close()


def test_inserts_that_began_before_an_adoption_are_kept(lake: Lake) -> None:
    """Adding the column for ids is no conflict for rows on their way, which get theirs later."""
    lake.run(
        "meanwhile", "CREATE TABLE {t} (id INT, s STRING) USING delta", "INSERT INTO {t} VALUES (1, 'a')"
    )
    table = lake.table("meanwhile")
    row = pa.record_batch({"id": pa.array([2], pa.int32()), "s": ["b"]})
    statement = table.begin_insert(Call(), returning=True)
    answer = statement.write(row)
    update = table.begin_update(Call(), ("s",), returning=True)
    (found,) = ids_of(lake, "meanwhile").values()
    update.write(pa.record_batch({"s": ["c"], "rowid": [found]}))

    assert answer is not None
    assert answer.to_pylist() == [{"id": 2, "s": "b", "rowid": answer["rowid"][0].as_py()}]
    assert answer["rowid"][0].as_py() < -(1 << 36)
    assert statement.commit() == 1
    assert update.commit() == 1
    assert ids_of(lake, "meanwhile")[2] < 0
    table.begin_delete(Call(), returning=False).abort()
    ids = ids_of(lake, "meanwhile")

    assert ids[1] == found
    assert ids[2] >= 0
    assert {row["id"]: row["s"] for row in lake.spark_rows("meanwhile")} == {1: "c", 2: "b"}


def test_scan_of_a_statement_waits_for_its_ids(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB may read the table before it knows that the statement is ready: others read on meanwhile."""
    lake.run("early", "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (1), (2)")
    table = lake.table("early")
    call = Call(transaction_id=lake.engine.transactions.begin_transaction(Call()))
    ranges, under_way, go_on = RowIdAllocator.ranges, threading.Event(), threading.Event()

    def slow(self: RowIdAllocator, count: int, size: int) -> list[int]:
        under_way.set()
        assert go_on.wait(60)
        return ranges(self, count, size)

    monkeypatch.setattr(RowIdAllocator, "ranges", slow)
    with ThreadPoolExecutor(3) as threads:
        planned = ScanOptions(time_point=table.snapshot(call, None).time_point)
        begun = threads.submit(table.begin_delete, call, returning=False)
        assert under_way.wait(60)
        read = threads.submit(lake.read, "early", call=call)
        late = threads.submit(lake.read, "early", planned, call)
        others = ids_of(lake, "early")
        waits = not read.done()
        go_on.set()
        ids = read.result(60)["rowid"].to_pylist()
        assert late.result(60)["rowid"].to_pylist() == ids
        statement = begun.result(60)
    statement.write(pa.record_batch({"rowid": ids}))

    assert waits
    assert max(others.values()) < 0
    assert min(ids) >= 0
    assert statement.commit() == 2


def test_commits_of_others_during_an_adoption_are_kept(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come between the plan and the commit get ids too, and no id or row is there twice."""
    lake.run("crowded", "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (1), (2), (3)")
    table = lake.table("crowded")
    root = str(lake.root("crowded"))
    between = [
        lambda: lake.run("crowded", "INSERT INTO {t} VALUES (4), (5)"),
        lambda: write_deltalake(root, pa.table({"id": pa.array([6], pa.int32())}), mode="append"),
        lambda: lake.run("crowded", "DELETE FROM {t} WHERE id = 2", "INSERT INTO {t} VALUES (7)"),
    ]
    ranges = RowIdAllocator.ranges

    def disturbed(self: RowIdAllocator, count: int, size: int) -> list[int]:
        if between:
            between.pop(0)()
        return ranges(self, count, size)

    monkeypatch.setattr(RowIdAllocator, "ranges", disturbed)
    table.begin_delete(Call(), returning=False).abort()
    found = lake.read("crowded")
    ids = ids_of(lake, "crowded")

    assert not between
    assert sorted(found["id"].to_pylist()) == [1, 3, 4, 5, 6, 7]
    assert min(ids.values()) >= 0
    assert len(set(ids.values())) == 6
    assert ids_of(lake, "crowded", way=Way.SQL) == ids
    assert delete(table, [ids[6], ids[7]]) == 2
    assert sorted(row["id"] for row in lake.spark_rows("crowded")) == [1, 3, 4, 5]


def test_transaction_that_has_read_is_told_of_others_during_an_adoption(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statement would change rows that it has not seen: it is ABORTED, and nothing is deleted."""
    lake.run("watched", "CREATE TABLE {t} (id INT) USING delta", "INSERT INTO {t} VALUES (1), (2)")
    table = lake.table("watched")
    call = Call(transaction_id=lake.engine.transactions.begin_transaction(Call()))
    lake.read("watched", ScanOptions(time_point=table.snapshot(call, None).time_point), call)
    between = ["INSERT INTO {t} VALUES (3)"]
    ranges = RowIdAllocator.ranges

    def disturbed(self: RowIdAllocator, count: int, size: int) -> list[int]:
        if between:
            lake.run("watched", between.pop())
        return ranges(self, count, size)

    monkeypatch.setattr(RowIdAllocator, "ranges", disturbed)
    with pytest.raises(ConflictError, match="others have changed it while its rows were given ids"):
        table.begin_delete(call, returning=False)

    assert not between
    assert sorted(ids_of(lake, "watched")) == [1, 2, 3]
