"""States of a table that are over, by version, by time and by snapshot."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions, TimePoint, TimeUnit
from sparkport.errors import InvalidRequestError, NotFoundError
from tests.spark.read.lake import Lake, Way, at_time, at_version, ids

_START = datetime(2024, 3, 31, 0, 30, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def history(lake: Lake) -> None:
    """Make a table with a version at each full hour from a moment on, and one that was vacuumed."""
    lake.run(
        "history",
        "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.deletedFileRetentionDuration' = 'interval 5000 weeks', "
        "'delta.logRetentionDuration' = 'interval 5000 weeks')",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} ADD COLUMN (name STRING)",
        "INSERT INTO {t} VALUES (2, 'b')",
        "ALTER TABLE {t} RENAME COLUMN name TO word",
        "INSERT OVERWRITE {t} VALUES (3, 'c')",
    )
    for version in range(6):
        moment = (_START + timedelta(hours=version)).timestamp()
        os.utime(lake.root("history") / "_delta_log" / f"{version:020d}.json", (moment, moment))


def test_every_version_has_its_rows_and_columns(lake: Lake) -> None:
    """A version is read with the columns that it had then."""
    expected = [
        (["id"], []),
        (["id"], [1]),
        (["id", "name"], [1]),
        (["id", "name"], [1, 2]),
        (["id", "word"], [1, 2]),
        (["id", "word"], [3]),
    ]
    table = lake.table("history")
    for version, (names, numbers) in enumerate(expected):
        assert [row["id"] for row in lake.agreed("history", version)] == numbers
        assert table.snapshot(Call(), at_version(version)).arrow_schema.names == names
    with pytest.raises(NotFoundError, match="column 'word' not found"):
        lake.read("history", ScanOptions(("word",), time_point=at_version(3)))


def test_a_moment_is_the_version_of_its_time(lake: Lake) -> None:
    """The last version that is not younger is meant, in whatever zone the moment is said."""
    eastern = timezone(timedelta(hours=-4))
    for moment, numbers in (
        (_START.isoformat(), []),
        ((_START + timedelta(hours=1)).isoformat(), [1]),
        ((_START + timedelta(hours=1, milliseconds=-1)).isoformat(), []),
        ((_START + timedelta(hours=3, minutes=59)).astimezone(eastern).isoformat(), [1, 2]),
        ("2024-03-31 03:45:00", [1, 2]),
        ("2024-03-31T05:45:00+02:00", [1, 2]),
        ("9999-12-31T23:59:59Z", [3]),
    ):
        found = lake.rows("history", ScanOptions(time_point=at_time(moment)))
        assert sorted(row["id"] for row in found) == numbers


def test_a_snapshot_is_one_state_of_one_table(lake: Lake) -> None:
    """The name of a state reads that state; that of another table's is unknown here."""
    table = lake.table("history")
    pin = table.snapshot(Call(), at_version(3)).time_point
    owner = pin.value.partition(":")[0]

    assert pin.unit is TimeUnit.SNAPSHOT
    assert sorted(ids(lake.read("history", ScanOptions(time_point=pin)))) == [1, 2]
    for value in (
        "",
        ":",
        "x:1",
        f"{owner}:",
        f"{owner}:²",
        f"{owner}:-1",
        f"{owner}:{'9' * 5000}",
        f"{owner}:77",
    ):
        with pytest.raises(NotFoundError):
            table.snapshot(Call(), TimePoint(TimeUnit.SNAPSHOT, value))


@pytest.mark.parametrize(
    ("point", "text"),
    [
        (at_version(6), "version 6 of table '[a-z0-9_]+[.]history' not found: versions 0 to 5 are available"),
        (at_version(-1), "version -1 of table '[a-z0-9_]+[.]history' not found"),
        (at_version(10**30), "not found"),
        (at_time("2024-03-31T00:29:59Z"), "version at timestamp '2024-03-31 00:29:59.000.00:00' not found"),
        (at_time("0001-01-01T00:00:00+14:00"), "version at timestamp '0001-01-01"),
    ],
)
def test_a_state_that_is_not_there_is_told(lake: Lake, point: TimePoint, text: str) -> None:
    """The message says what there is, or the time that was understood."""
    for way in Way:
        with pytest.raises(NotFoundError, match=text):
            lake.read("history", ScanOptions(time_point=point), way=way)


@pytest.mark.parametrize(
    "point",
    [
        TimePoint(TimeUnit.VERSION, "one"),
        TimePoint(TimeUnit.VERSION, ""),
        TimePoint(TimeUnit.VERSION, "1.5"),
        at_time("yesterday"),
        at_time("2024-02-30"),
        at_time(""),
    ],
)
def test_what_is_no_time_point_is_told(lake: Lake, point: TimePoint) -> None:
    """A malformed point is the caller's mistake."""
    with pytest.raises(InvalidRequestError, match="is not a"):
        lake.table("history").snapshot(Call(), point)


def test_vacuumed_and_cleaned_up_versions_are_told(lake: Lake) -> None:
    """Without its files a version cannot be read, without its log it is not there; the newest is."""
    lake.run(
        "vacuumed",
        "CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')",
        "INSERT INTO {t} VALUES (1)",
        "INSERT OVERWRITE {t} VALUES (2)",
        "INSERT INTO {t} VALUES (3)",
    )
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    lake.run("vacuumed", "VACUUM {t} RETAIN 0 HOURS")
    gone = r"data files of table '.*vacuumed' not found: .* was vacuumed"
    table = lake.table("vacuumed")

    for way in Way:
        with pytest.raises(NotFoundError, match=gone):
            lake.read("vacuumed", ScanOptions(time_point=at_version(1)), way=way)
    (lake.root("vacuumed") / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(NotFoundError, match=r"version 0 of .* not found: versions 2 to 5 are available"):
        table.snapshot(Call(), at_version(0))
    assert [row["id"] for row in lake.agreed("vacuumed")] == [2, 3]
    assert lake.read("vacuumed").schema == pa.schema([("id", pa.int32())])
