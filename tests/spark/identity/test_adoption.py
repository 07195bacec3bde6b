"""Tables made by others get row ids with their first UPDATE or DELETE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call, ScanOptions
from sparkport.errors import PreconditionError
from sparkport.spark.table import DeltaTable
from tests.spark.reading.lake import Lake, at_version

_SPARK = (
    "CREATE TABLE {t} (id INT NOT NULL, part STRING, twice INT GENERATED ALWAYS AS (id * 2)) USING delta"
    " CLUSTER BY (part) TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true)",
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
    "INSERT INTO {t} (id, part) SELECT /*+ REPARTITION(2) */ CAST(id AS INT), 'a' FROM range(1, 9)",
    "INSERT INTO {t} (id, part) VALUES (9, 'b'), (10, NULL)",
    "DELETE FROM {t} WHERE id IN (3, 10)",
)
_MAPPED = (
    "CREATE TABLE {t} (id INT, `a ``part`` b` STRING, twice INT) USING delta PARTITIONED BY (`a ``part`` b`)"
    " TBLPROPERTIES (delta.columnMapping.mode = 'id', delta.enableDeletionVectors = true)",
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
    first = _newest(table)
    before = lake.read(kind)
    with pytest.raises(PreconditionError, match=f"row ids of table '{kind}' are provisional"):
        _delete(table, before["rowid"].to_pylist()[:1])
    commit = _actions(table, first + 1)
    ids = _ids(lake, kind)

    assert sorted(before["id"].to_pylist()) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert len(set(before["rowid"].to_pylist())) == 8
    assert max(before["rowid"].to_pylist()) < -(1 << 36)
    assert _newest(table) == first + 1
    assert not [action for _, action in commit if action.get("dataChange")]
    assert {kind for kind, _ in commit} >= {"metaData", "add", "remove"}
    assert min(ids.values()) >= 0
    assert len(set(ids.values())) == 8
    assert _ids(lake, kind, by_sql=True) == ids

    assert _delete(lake.table(kind, by_sql=True), [ids[9], ids[1]]) == 2
    rows = pa.table({"part": ["new"]})
    assert table.update(Call(), pa.array([ids[7]]), rows.to_reader()).affected_rows == 1
    left = {id: number for id, number in ids.items() if id not in {1, 9}}
    parts = {row["id"]: (row["part"], row["twice"]) for row in lake.spark_rows(kind)}

    assert _ids(lake, kind) == left
    assert _newest(table) == first + 3
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


def _delete(table: DeltaTable, ids: list[int]) -> int:
    return table.delete(Call(), pa.array(ids, pa.int64())).affected_rows


def _ids(lake: Lake, name: str, *, by_sql: bool = False) -> dict[int, int]:
    found = lake.read(name, by_sql=by_sql)
    return dict(zip(found["id"].to_pylist(), found["rowid"].to_pylist(), strict=True))


def _newest(table: DeltaTable) -> int:
    return max(int(path.stem) for path in Path(table.root, "_delta_log").glob("*.json"))


def _actions(table: DeltaTable, version: int) -> list[tuple[str, dict[str, Any]]]:
    text = Path(table.root, "_delta_log", f"{version:020}.json").read_text(encoding="utf-8")
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]
