"""Tables of Spark's plain types, whoever wrote them and however."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.predicates import Column, Comparison, ComparisonOperator, Constant
from tests.spark.read.lake import Lake, Way

_TYPES = """
    id INT, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i64 BIGINT, f FLOAT, d DOUBLE, n DECIMAL(9,2),
    m DECIMAL(38,10), s STRING, v VARCHAR(5), x BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ,
    l ARRAY<INT>, st STRUCT<a: INT, b: STRUCT<c: STRING, t: TIMESTAMP>>, ma MAP<STRING, ARRAY<BIGINT>>,
    deep ARRAY<MAP<INT, STRUCT<k: ARRAY<DATE>>>>
"""
_VALUES = [
    (
        "1, true, 127, 32767, 9223372036854775807, float('NaN'), double('-Infinity'), 1234567.89, "
        "-9999999999999999999999999999.9999999999, 'grün \\n 🦆', 'vwxyz', X'00FF', date'9999-12-31', "
        "timestamp'9999-12-31 23:59:59.999999 UTC', timestamp_ntz'1883-11-18 12:03:58.5', array(1, null, 3), "
        "struct(1, struct('q', timestamp'2024-03-31 01:30:00+02:00')), map('a', array(1L, null), 'b', null), "
        "array(map(1, struct(array(date'2024-02-29'))), null)"
    ),
    (
        "2, false, -128, -32768, -9223372036854775808, -0.0F, 5e-324D, -0.01, 0.0000000001, '', '', X'', "
        "date'0001-01-01', timestamp'0001-01-01 00:00:00 UTC', timestamp_ntz'0001-01-01 00:00:00', array(), "
        "struct(null, null), map(), array()"
    ),
    "3, " + ", ".join(["null"] * 18),
]


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_every_plain_type_is_read_alike(lake: Lake, timestamps: str) -> None:
    """All types of Spark, with their smallest and largest values, come the same in every way."""
    name = f"types {timestamps}"
    lake.spark.conf.set("spark.sql.parquet.outputTimestampType", timestamps)
    lake.run(name, f"CREATE TABLE {{t}} ({_TYPES}) USING delta")
    lake.run(name, "INSERT INTO {t} VALUES " + ", ".join(f"({row})" for row in _VALUES))
    lake.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    arrow, sql = lake.read(name), lake.read(name, way=Way.SQL)
    comparable = [column for column in arrow.column_names if column != "f"]
    found = {row["id"]: row for row in arrow.to_pylist()}

    assert arrow.schema.equals(sql.schema, check_metadata=True)
    assert str(arrow.sort_by("id").to_pylist()) == str(sql.sort_by("id").to_pylist())
    assert lake.rows(name, ScanOptions(columns=tuple(comparable))) == [
        {key: row[key] for key in comparable} for row in lake.spark_rows(name)
    ]
    assert found[1]["m"] == Decimal("-9999999999999999999999999999.9999999999")
    assert found[1]["st"]["b"]["t"] == datetime(2024, 3, 30, 23, 30, tzinfo=UTC)
    assert found[1]["deep"] == [[(1, {"k": [date(2024, 2, 29)]})], None]
    assert found[1]["at"].microsecond == (999000 if timestamps == "TIMESTAMP_MILLIS" else 999999)
    assert found[2]["at"] == datetime(1, 1, 1, tzinfo=UTC)
    assert [found[number]["s"] for number in (1, 2, 3)] == ["grün \n 🦆", "", None]
    assert set(found[3].values()) == {3, None}


def test_texts_of_fixed_length_are_padded(lake: Lake) -> None:
    """Spark fills a CHAR up as it reads it, so nothing that files say of it holds for clients."""
    lake.run("padded", "CREATE TABLE {t} (id INT, c CHAR(3), s STRUCT<v: CHAR(2)>) USING delta")
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "c": ["a", "b"],
            "s": pa.array([{"v": "x"}, None], pa.struct([("v", pa.string())])),
        }
    )
    write_deltalake(str(lake.root("padded")), rows, mode="append")
    found = lake.agreed("padded")
    column, short = Column("c"), Constant(pa.scalar("a"))
    other = Comparison(ComparisonOperator.NOT_EQUAL, column, short)
    greater = Comparison(ComparisonOperator.GREATER, column, Constant(pa.scalar("b")))
    known = lake.table("padded").column_statistics(Call(), "c")

    assert found == [{"id": 1, "c": "a  ", "s": {"v": "x "}}, {"id": 2, "c": "b  ", "s": None}]
    assert lake.rows("padded", ScanOptions(filter=other)) == found
    assert found[1] in lake.rows("padded", ScanOptions(filter=greater))
    assert not known.minimum.is_valid


def test_the_zone_of_a_session_does_not_move_times(lake: Lake) -> None:
    """A writer in another zone means the same moments, in columns and in partitions."""
    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    lake.run(
        "zones",
        "CREATE TABLE {t} (id INT, at TIMESTAMP, wall TIMESTAMP_NTZ, p TIMESTAMP, w TIMESTAMP_NTZ) "
        "USING delta PARTITIONED BY (p, w)",
        "INSERT INTO {t} VALUES (1, timestamp'2024-07-01 12:00:00', timestamp_ntz'2024-07-01 12:00:00', "
        "timestamp'2024-01-01 00:00:00.25', timestamp_ntz'2024-07-01 12:00:00.000001'), "
        "(2, null, null, null, null)",
    )
    lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    found = lake.agreed("zones")

    assert found[0] == {
        "id": 1,
        "at": datetime(2024, 7, 1, 16, tzinfo=UTC),
        "wall": datetime(2024, 7, 1, 12),  # noqa: DTZ001  (a clock on a wall)
        "p": datetime(2024, 1, 1, 5, 0, 0, 250000, tzinfo=UTC),
        "w": datetime(2024, 7, 1, 12, 0, 0, 1),  # noqa: DTZ001
    }
    assert found[1]["p"] is None


def test_a_table_of_delta_rs_is_read_alike(lake: Lake) -> None:
    """Files of another writer, with the Arrow types that it notes in them, are the same table."""
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "word": pa.array(["a", None, "c"]).dictionary_encode(),
            "view": pa.array(["x", "long enough for a buffer of its own", None], pa.string_view()),
            "large": pa.array(["l", None, "m"], pa.large_string()),
            "blob": pa.array([b"\x00", None, b""], pa.large_binary()),
            "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
            "items": pa.array([[{"a": 1}], [], None], pa.large_list(pa.struct([("a", pa.int64())]))),
            "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
            "part": ["p q", "50%/ü", None],
        }
    )
    write_deltalake(str(lake.root("foreign")), rows, partition_by=["part"])
    found = lake.agreed("foreign")

    assert [row["part"] for row in found] == ["p q", "50%/ü", None]
    assert [row["word"] for row in found] == ["a", None, "c"]
    assert found[0]["items"] == [{"a": 1}]


def test_properties_of_columns_do_not_change_what_is_read(lake: Lake) -> None:
    """NOT NULL, defaults, generated columns, checks and comments are for writers and people."""
    lake.run(
        "rules",
        "CREATE TABLE {t} (id INT NOT NULL COMMENT 'the key', n INT DEFAULT 7, at TIMESTAMP, "
        "day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), `a.b` STRUCT<xy: INT>) USING delta "
        "COMMENT 'with rules' TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {t} ADD CONSTRAINT small CHECK (n IS NULL OR n < 100)",
        "INSERT INTO {t} (id, at, `a.b`) VALUES (1, timestamp'2024-05-05 05:05:05', struct(4))",
        "INSERT INTO {t} (id, n) VALUES (2, null)",
    )
    found = lake.agreed("rules")
    table = lake.table("rules")
    schema = table.arrow_schema

    assert found[0]["n"] == 7
    assert found[0]["day"] == date(2024, 5, 5)
    assert found[0]["a.b"] == {"xy": 4}
    assert found[1] == {"id": 2, "n": None, "at": None, "day": None, "a.b": None}
    assert table.comment == "with rules"
    assert table.constraints.checks == ("n IS NULL OR n < 100",)
    assert not schema.field("id").nullable
    assert schema.field("id").metadata[b"comment"] == b"the key"
    assert lake.rows("rules", ScanOptions(columns=("a.b",)))[0] == {"a.b": {"xy": 4}}


@pytest.mark.parametrize("name", ["dots.and spaces", "ticks`and%20", "köpfe", "UPPER"])
def test_names_of_tables_and_columns_are_free(lake: Lake, name: str) -> None:
    """A name is data: whatever it holds, the table and its columns are found."""
    expected = {"id": 1, "a.b": 2, "two words": 3, "ti`ck": 4, "köpfe": 5, "x,;{}()=": 6}
    quoted = ", ".join(f"`{column.replace('`', '``')}` INT" for column in expected)
    root = str(lake.root(name)).replace("`", "``")
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    lake.spark.sql(f"CREATE TABLE delta.`{root}` ({quoted}) USING delta {mapped}")
    lake.spark.sql(f"INSERT INTO delta.`{root}` VALUES (1, 2, 3, 4, 5, 6)")

    assert lake.agreed(name) == [expected]
    assert lake.table(name.upper()).name == name
    for column, value in expected.items():
        assert lake.rows(name, ScanOptions(columns=(column,))) == [{column: value}]


def test_a_table_without_rows_has_its_columns(lake: Lake) -> None:
    """Neither a table without files nor a file without rows is an error."""
    lake.run("empty", "CREATE TABLE {t} (id INT, s STRUCT<a: INT>) USING delta")
    write_deltalake(str(lake.root("hollow")), pa.table({"id": pa.array([], pa.int32())}))
    hollow = pa.table({"id": pa.array([1], pa.int32())})
    write_deltalake(str(lake.root("hollow")), hollow, mode="append")

    assert lake.agreed("empty") == []
    assert lake.read("empty").schema.names == ["id", "s"]
    assert lake.agreed("hollow") == [{"id": 1}]
    assert lake.table("empty").snapshot(Call(), None).row_count == 0
    assert lake.read("empty", ScanOptions(columns=())).num_rows == 0


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS"])
def test_dates_in_the_calendar_of_early_spark(lake: Lake, timestamps: str) -> None:
    """Files that count days in the Julian calendar before 1582 give the dates that were written."""
    name = f"legacy {timestamps}"
    days = ["0001-01-01", "0100-03-01", "0900-02-28", "1500-03-01", "1582-10-04", "1582-10-15", "1970-01-01"]
    legacy = {
        "spark.sql.parquet.outputTimestampType": timestamps,
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    }
    before = {key: lake.spark.conf.get(key) for key in legacy}
    for key, value in legacy.items():
        lake.spark.conf.set(key, value)
    lake.run(name, "CREATE TABLE {t} (id INT, day DATE, at TIMESTAMP) USING delta")
    values = ", ".join(
        f"({number}, date'{day}', timestamp'{day} 12:34:56.789 UTC')" for number, day in enumerate(days)
    )
    lake.run(name, f"INSERT INTO {{t}} VALUES {values}, (9, null, null)")
    for key, old in before.items():
        lake.spark.conf.set(key, str(old))
    early = Comparison(
        ComparisonOperator.LESS, Column("day"), Constant(pa.scalar(date(1582, 10, 10), pa.date32()))
    )

    assert [str(row["day"]) for row in lake.agreed(name)] == [*days, "None"]
    assert len(lake.rows(name, ScanOptions(filter=early))) == 5
