"""Statistics of columns are exact, or they say nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog import Call
from tests.spark.read.lake import Lake


def known(lake: Lake, name: str, column: str) -> tuple[Any, Any, bool, bool]:
    """Return range and nulls as a client learns them."""
    found = lake.table(name).column_statistics(Call(), column)
    return found.minimum.as_py(), found.maximum.as_py(), found.has_null, found.has_not_null


@pytest.fixture(scope="module", autouse=True)
def tables(lake: Lake) -> None:
    """Make a table of all kinds of statistics, and copies of it with changes."""
    lake.run(
        "all",
        "CREATE TABLE {t} (id INT, s STRING, long STRING, d DOUBLE, at TIMESTAMP, day DATE, n DECIMAL(9,2), "
        "none INT, b BOOLEAN, st STRUCT<a: INT>, p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES "
        "(1, 'ant', repeat('a', 40), 1.5, timestamp'2024-01-01 00:00:00.123456', "
        "date'2024-01-01', 1.25, null, false, struct(1), 'x'), (9, 'zoo', null, double('NaN'), null, "
        "date'2024-12-31', null, null, true, null, 'x'), (5, 'mid', 'short', null, null, null, null, null, "
        "null, null, null)",
    )


def test_ranges_are_exact_or_unknown(lake: Lake) -> None:
    """What writers cut, round or leave out gives no range; nulls are told all the same."""
    assert known(lake, "all", "id") == (1, 9, False, True)
    assert known(lake, "all", "s") == ("ant", "zoo", False, True)
    assert known(lake, "all", "long") == (None, None, True, True)
    assert known(lake, "all", "d") == (None, None, True, True)
    assert known(lake, "all", "at") == (None, None, True, True)
    assert known(lake, "all", "day") == (date(2024, 1, 1), date(2024, 12, 31), True, True)
    assert known(lake, "all", "none") == (None, None, True, False)
    assert known(lake, "all", "p") == ("x", "x", True, True)
    assert known(lake, "all", "st")[:2] == (None, None)


def test_deleted_rows_leave_no_range(lake: Lake) -> None:
    """A file that lost rows to a deletion vector may have lost its least or greatest."""
    lake.run("all", "DELETE FROM {t} WHERE id = 9")
    read = [row["id"] for row in lake.agreed("all")]

    assert read == [1, 5]
    assert known(lake, "all", "id")[:2] == (None, None)
    assert known(lake, "all", "none") == (None, None, True, False)
    assert known(lake, "all", "b")[2:] == (True, True)


def test_a_table_without_statistics_says_nothing(lake: Lake) -> None:
    """Columns beyond those that a writer measures have no range and may have nulls."""
    lake.run(
        "silent",
        "CREATE TABLE {t} (id INT, n INT) USING delta "
        "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')",
        "INSERT INTO {t} VALUES (1, 5)",
    )

    assert known(lake, "silent", "id") == (1, 1, False, True)
    assert known(lake, "silent", "n") == (None, None, True, True)


def test_statistics_of_delta_rs_are_not_trusted_too_far(lake: Lake) -> None:
    """Another writer's ranges are exact for integers, and silent for moments and floats."""
    rows = pa.table(
        {
            "id": [3, 7],
            "d": [1.0, float("nan")],
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
            "s": ["ä", "🦆" * 40],
        }
    )
    write_deltalake(str(lake.root("rust")), rows)

    assert known(lake, "rust", "id") == (3, 7, False, True)
    assert known(lake, "rust", "d") == (None, None, False, True)
    assert known(lake, "rust", "at") == (None, None, False, True)
    assert known(lake, "rust", "s")[1] is None
