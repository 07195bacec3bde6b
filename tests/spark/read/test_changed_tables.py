"""Tables whose rows or columns were changed after they were written."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake

from sparkport.catalog import Call, ScanOptions, ScanSlice
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant, IsNull
from tests.spark.read.lake import Lake, at_version, ids

_VECTORS = "'delta.enableDeletionVectors' = 'true'"


def test_partition_values_come_back(lake: Lake) -> None:
    """Values that are in the log only, of every type and with every character, are those of the rows."""
    lake.run(
        "parts",
        "CREATE TABLE {t} (id INT, s STRING, n INT, day DATE, b BOOLEAN, d DECIMAL(5,2), f DOUBLE, x BINARY) "
        "USING delta PARTITIONED BY (s, n, day, b, d, f, x)",
        "INSERT INTO {t} VALUES (1, 'a b', 1, date'2024-02-29', true, 1.50, 0.1, X'61'), "
        "(2, 'x/y=z%20', -5, date'0001-01-01', false, -0.01, double('NaN'), X'62'), "
        "(3, null, null, null, null, null, null, null), "
        "(4, 'ü:?#', 2147483647, date'9999-12-31', null, 999.99, double('Infinity'), null)",
    )
    columns = ("id", "s", "n", "day", "b", "d", "x")
    found = lake.rows("parts", ScanOptions(columns=columns))

    assert found == [{name: row[name] for name in columns} for row in lake.spark_rows("parts")]
    assert [row["s"] for row in found] == ["a b", "x/y=z%20", None, "ü:?#"]
    assert found[1]["day"] == date(1, 1, 1)
    assert found[3]["d"] == Decimal("999.99")
    assert str(lake.read("parts").sort_by("id")["f"].to_pylist()) == "[0.1, nan, None, inf]"
    assert lake.rows("parts", ScanOptions(columns=("n",), filter=IsNull(Column("day")))) == [{"n": None}]


def test_deleted_updated_and_merged_rows(lake: Lake) -> None:
    """Rows under deletion vectors are gone at every version from theirs on, in all parts of a file."""
    lake.spark.range(0, 20_000, 1, 1).selectExpr("id", "id % 7 AS n").write.format("delta").option(
        "delta.enableDeletionVectors", "true"
    ).option("parquet.block.size", 20_000).save(str(lake.root("vectors")))
    lake.run(
        "vectors",
        "DELETE FROM {t} WHERE id % 5 = 0",
        "UPDATE {t} SET n = 100 WHERE id BETWEEN 1000 AND 1100",
        "MERGE INTO {t} USING (SELECT explode(sequence(19990, 20010)) AS k) ON id = k "
        "WHEN MATCHED AND id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (k, -2)",
    )
    counts = [len(lake.agreed("vectors", version)) for version in range(4)]
    small = Comparison(ComparisonOperator.LESS, Column("n"), Constant(pa.scalar(0, pa.int64())))
    lake.run("vectors", "OPTIMIZE {t}", "DELETE FROM {t} WHERE true")

    assert counts == [20_000, 16_000, 16_000, 16_009]
    assert [
        row["n"] for row in lake.rows("vectors", ScanOptions(filter=small, time_point=at_version(3)))
    ] == [
        *[-2, -1, -1, -2, -1, -1],
        *([-2] * 11),
    ]
    assert len(lake.agreed("vectors", 4)) == 16_009
    assert lake.agreed("vectors") == []


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_dropped_and_added_columns(lake: Lake, mode: str) -> None:
    """A column is what its number says: neither an old name nor a dropped column comes back."""
    name = f"mapped by {mode}"
    lake.run(
        name,
        "CREATE TABLE {t} (id INT, a INT, gone INT, s STRUCT<x: INT, y: INT, z: STRUCT<q: INT>>, "
        "l ARRAY<STRUCT<x: INT, y: INT>>, m MAP<STRING, STRUCT<x: INT, y: INT>>, p STRING) USING delta "
        f"PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}', {_VECTORS})",
        "INSERT INTO {t} VALUES (1, 10, 100, struct(1, 2, struct(3)), array(struct(4, 5)), "
        "map('k', struct(6, 7)), 'north'), (2, 20, null, null, null, null, null)",
        "ALTER TABLE {t} RENAME COLUMN a TO tmp",
        "ALTER TABLE {t} RENAME COLUMN gone TO a",
        "ALTER TABLE {t} RENAME COLUMN tmp TO gone",
        "ALTER TABLE {t} DROP COLUMN a",
        "ALTER TABLE {t} ADD COLUMNS (a INT, s.w STRING, l.element.w INT, m.value.w INT)",
        "ALTER TABLE {t} DROP COLUMN s.y",
        "ALTER TABLE {t} DROP COLUMN l.element.y",
        "ALTER TABLE {t} DROP COLUMN m.value.y",
        "ALTER TABLE {t} ADD COLUMNS (s.y INT AFTER x, l.element.y INT AFTER x, m.value.y INT AFTER x)",
        "ALTER TABLE {t} RENAME COLUMN s.z.q TO r",
        "ALTER TABLE {t} RENAME COLUMN p TO area",
        "INSERT INTO {t} (id, a, s, area) VALUES (3, 30, struct(1, 22, struct(33), 'w'), 'south')",
        "DELETE FROM {t} WHERE id = 2",
    )
    found = lake.agreed(name)
    old = lake.agreed(name, 1)

    assert found[0] == {
        "id": 1,
        "gone": 10,
        "s": {"x": 1, "y": None, "z": {"r": 3}, "w": None},
        "l": [{"x": 4, "y": None, "w": None}],
        "m": [("k", {"x": 6, "y": None, "w": None})],
        "area": "north",
        "a": None,
    }
    assert found[1]["s"] == {"x": 1, "y": 22, "z": {"r": 33}, "w": "w"}
    assert [row["gone"] for row in old] == [100, None]
    assert old[0]["s"] == {"x": 1, "y": 2, "z": {"q": 3}}
    assert lake.rows(name, ScanOptions(columns=("a",), filter=IsNull(Column("a"))))[0] == {"a": None}
    for value, expected in ((10, [1]), (100, [])):
        same = Comparison(ComparisonOperator.EQUAL, Column("gone"), Constant(pa.scalar(value, pa.int32())))
        assert [row["id"] for row in lake.rows(name, ScanOptions(("id",), same))] == expected


def test_mapping_of_a_table_that_had_none(lake: Lake) -> None:
    """Where old names are the physical ones, a new column of an old name is not the old column."""
    lake.run(
        "upgraded",
        "CREATE TABLE {t} (id INT, a INT, s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: INT, y: INT>>) "
        "USING delta",
        "INSERT INTO {t} VALUES (1, 10, struct(1, 2), array(struct(3, 4)))",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
        "ALTER TABLE {t} DROP COLUMN a",
        "ALTER TABLE {t} ADD COLUMN (a INT AFTER id)",
        "ALTER TABLE {t} DROP COLUMN s.y",
        "ALTER TABLE {t} ADD COLUMN (s.y INT)",
        "ALTER TABLE {t} RENAME COLUMN l.element.x TO t",
        "ALTER TABLE {t} RENAME COLUMN l.element.y TO x",
        "ALTER TABLE {t} RENAME COLUMN l.element.t TO y",
        "INSERT INTO {t} VALUES (2, 20, struct(5, 6), array(struct(7, 8)))",
    )

    assert lake.agreed("upgraded") == [
        {"id": 1, "a": None, "s": {"x": 1, "y": None}, "l": [{"y": 3, "x": 4}]},
        {"id": 2, "a": 20, "s": {"x": 5, "y": 6}, "l": [{"y": 7, "x": 8}]},
    ]


def test_widened_types(lake: Lake) -> None:
    """Files keep the narrow type they were written with; values and filters do not show it."""
    lake.run(
        "wide",
        "CREATE TABLE {t} (id TINYINT, n SMALLINT, f FLOAT, d DECIMAL(5,2), i INT, day DATE, "
        "s STRUCT<n: TINYINT>, l ARRAY<SMALLINT>, m MAP<SMALLINT, INT>, p SMALLINT) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        "'delta.feature.timestampNtz' = 'supported')",
        "INSERT INTO {t} VALUES (1, 32767, 0.1, 123.45, 2147483647, date'2024-02-29', struct(7), "
        "array(1, null), map(2S, 3), 4)",
        "ALTER TABLE {t} ALTER COLUMN id TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20,4)",
        "ALTER TABLE {t} ALTER COLUMN i TYPE DECIMAL(12,2)",
        "ALTER TABLE {t} ALTER COLUMN day TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} ALTER COLUMN s.n TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN m.key TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN p TYPE BIGINT",
        "INSERT INTO {t} VALUES (100000, 1234567890123, 1e300, 1234567890.1234, 0.5, "
        "timestamp_ntz'2024-02-29 12:00:00', struct(1234567890123), array(5), map(6L, 7), 1234567890123)",
    )
    found = lake.agreed("wide")
    large = Comparison(ComparisonOperator.GREATER, Column("n"), Constant(pa.scalar(40_000, pa.int64())))
    noon = Constant(pa.scalar(datetime(2024, 2, 29, 11), pa.timestamp("us")))  # noqa: DTZ001  (a wall clock)

    assert found[0] == {
        "id": 1,
        "n": 32767,
        "f": 0.10000000149011612,
        "d": Decimal("123.4500"),
        "i": Decimal("2147483647.00"),
        "day": datetime(2024, 2, 29),  # noqa: DTZ001  (a wall clock)
        "s": {"n": 7},
        "l": [1, None],
        "m": [(2, 3)],
        "p": 4,
    }
    assert [row["id"] for row in lake.rows("wide", ScanOptions(("id",), large))] == [100000]
    early = Comparison(ComparisonOperator.LESS, Column("day"), noon)
    assert [row["id"] for row in lake.rows("wide", ScanOptions(("id",), early))] == [1]
    assert lake.agreed("wide", 1)[0]["n"] == 32767


def test_a_type_that_arrow_lacks_comes_as_text(lake: Lake) -> None:
    """A VARIANT is read by Spark SQL and shown as JSON; the other columns are as ever."""
    lake.run(
        "variant",
        "CREATE TABLE {t} (id INT, v VARIANT, n INT) USING delta",
        """INSERT INTO {t} SELECT 1, parse_json('{"a": [1, "x"]}'), 5 UNION ALL SELECT 2, null, 6""",
    )
    table = lake.table("variant")
    same = Comparison(ComparisonOperator.EQUAL, Column("n"), Constant(pa.scalar(6, pa.int32())))
    text = Comparison(ComparisonOperator.EQUAL, Column("v"), Constant(pa.scalar("[]")))

    assert table.arrow_schema.field("v").type == pa.string()
    assert lake.rows("variant") == [{"id": 1, "v": '{"a":[1,"x"]}', "n": 5}, {"id": 2, "v": None, "n": 6}]
    assert lake.rows("variant", ScanOptions(("v",), same)) == [{"v": None}]
    assert len(lake.rows("variant", ScanOptions(("id",), text))) == 2
    assert table.slice_count(Call(), ScanOptions()) == 1
    assert not table.column_statistics(Call(), "v").minimum.is_valid


def test_a_deletion_vector_of_an_uncounted_file(lake: Lake) -> None:
    """Without the number of its rows, a file with a deletion vector is left to Spark SQL."""
    lake.run(
        "uncounted",
        f"CREATE TABLE {{t}} (id INT) USING delta TBLPROPERTIES ({_VECTORS})",
        "INSERT INTO {t} VALUES (1), (2), (3)",
        "DELETE FROM {t} WHERE id = 2",
    )
    log = lake.root("uncounted") / "_delta_log"
    for checksum in {*log.glob(".*.crc"), *log.glob("*.crc")}:
        checksum.unlink()
    for commit in log.glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    table = lake.table("uncounted")
    parts = [ScanOptions(("id",), slice=ScanSlice(index, 2)) for index in range(2)]

    assert lake.rows("uncounted") == [{"id": 1}, {"id": 3}]
    assert table.snapshot(Call(), None).row_count is None
    assert lake.read("uncounted", ScanOptions(columns=())).num_rows == 2
    assert sorted(number for part in parts for number in ids(lake.read("uncounted", part))) == [1, 3]


def test_many_commits_and_checkpoints(lake: Lake) -> None:
    """However long the history, every version is the sum of the commits up to it."""
    rows = pa.table({"id": pa.array([0], pa.int64())})
    write_deltalake(str(lake.root("long")), rows, configuration={"delta.checkpointInterval": "100000"})
    log = lake.root("long") / "_delta_log"
    first = next(line for line in (log / f"{0:020d}.json").read_text().splitlines() if '"add"' in line)
    file = next(lake.root("long").glob("*.parquet"))
    for version in range(1, 500):
        (file.parent / f"{version}.parquet").hardlink_to(file)
        (log / f"{version:020d}.json").write_text(first.replace(file.name, f"{version}.parquet") + "\n")
    RustTable(str(lake.root("long")), version=300).create_checkpoint()
    tail = Comparison(ComparisonOperator.GREATER, Column("id"), Constant(pa.scalar(0, pa.int64())))

    assert len(lake.agreed("long")) == 500
    assert lake.table("long").snapshot(Call(), at_version(299)).row_count == 300
    assert lake.read("long", ScanOptions(time_point=at_version(301))).num_rows == 302
    assert lake.rows("long", ScanOptions(filter=tail)) == []


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_of_every_form(lake: Lake, policy: str) -> None:
    """A table is the same whether its state is in commits or in a checkpoint of any form."""
    name = f"checkpoint {policy}"
    lake.run(
        name,
        f"CREATE TABLE {{t}} (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({_VECTORS}, "
        f"'delta.checkpointPolicy' = '{policy}', 'delta.checkpointInterval' = '2')",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, null)",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (4, 'ü')",
        "OPTIMIZE {t}",
    )
    log = lake.root(name) / "_delta_log"
    for version in (0, 1):
        (log / f"{version:020d}.json").unlink()

    assert list(log.glob("*.checkpoint.*"))
    assert lake.agreed(name) == [{"id": 1, "p": "a"}, {"id": 3, "p": None}, {"id": 4, "p": "ü"}]
