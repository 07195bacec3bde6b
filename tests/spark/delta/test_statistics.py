"""What file statistics prove, and what they do not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sparkport.catalog.tables import ColumnStatistics
from sparkport.spark.delta.log.actions import DataFile, DeletionVector, Metadata, Protocol
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.statistics import Bounds, StoredColumn, bounds, exact_statistics, file_statistics
from sparkport.spark.delta.values import partition_scalar

UTC_US = pa.timestamp("us", "UTC")
ID = StoredColumn(("id",), pa.int64())


def file(
    low: object = None,
    high: object = None,
    *,
    nulls: int | None = 0,
    rows: int = 10,
    deleted: int = 0,
    tight: bool | None = None,
    values: dict[str, str | None] | None = None,
) -> DataFile:
    """Return a file with statistics of the column `id`."""
    said: dict[str, Any] = {"numRecords": rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    said |= {} if tight is None else {"tightBounds": tight}
    for kind, value in {"minValues": low, "maxValues": high, "nullCount": nulls}.items():
        if value is not None:
            said[kind] = {"id": value}
    vector = DeletionVector("u", "x" * 20, 1, 40, deleted) if deleted else None
    return DataFile("/t/a", values or {}, 10, 1, json.dumps(said), vector, rows)


def snapshot(*files: DataFile, **configuration: str) -> DeltaSnapshot:
    """Return a table of these files."""
    metadata = Metadata("id", None, None, (), configuration=configuration)
    return DeltaSnapshot(0, 0, Protocol(1, 2), metadata, files, {}, None)


def exact(*files: DataFile, kind: pa.DataType | None = None) -> ColumnStatistics | None:
    """Return the exact statistics of the column `id`."""
    return exact_statistics(snapshot(*files), StoredColumn(("id",), kind or pa.int64()))


def known(
    low: object, high: object, kind: pa.DataType, *, has_null: bool = False, has_not_null: bool = True
) -> ColumnStatistics:
    """Return the statistics expected."""
    return ColumnStatistics(pa.scalar(low, kind), pa.scalar(high, kind), has_null, has_not_null, 0)


@pytest.mark.parametrize(
    ("kind", "low", "high", "lowest", "highest"),
    [
        (pa.int32(), -3, 7, -3, 7),
        (pa.int8(), 1, 1000, 1, None),
        (pa.int64(), "1", 1.5, None, None),
        (pa.int64(), True, None, None, None),
        (pa.bool_(), False, True, False, True),
        (pa.string(), "ab", "zz\x7f", "ab", "zz\x7f"),
        (pa.date32(), "2024-01-31", "+10000-01-01", date(2024, 1, 31), None),
        (pa.decimal128(10, 2), 1, 2.5, Decimal("1.00"), Decimal("2.50")),
        (pa.decimal128(10, 2), "1.10", 2.555, Decimal("1.10"), None),
        (pa.decimal128(38, 0), -(10**37), 5, Decimal(-(10**37) - 10**22 - 1), Decimal(5)),
        (pa.decimal128(20, 0), 10**15, 2**63 - 1, Decimal(10**15 - 2), None),
        (pa.float64(), 1.0, 2.0, 1.0 - 2.0**-23, None),
        (pa.float64(), "NaN", "NaN", None, None),
        (pa.float32(), 0.0, 2.0, 0.0, None),
        (pa.binary(), "a", "b", None, None),
        (
            UTC_US,
            "2024-01-01T10:00:00.123Z",
            "2024-01-01T10:00:00.123+02:00",
            datetime(2024, 1, 1, 10, 0, 0, 123_000, UTC),
            datetime(2024, 1, 1, 8, 0, 0, 124_000, UTC),
        ),
        (
            UTC_US,
            "1880-01-01T00:00:00.000+00:53",
            "1880-01-01T00:00:00.000+00:53",
            datetime(1879, 12, 31, 23, 6, 0, 0, UTC),
            datetime(1879, 12, 31, 23, 8, 0, 1_000, UTC),
        ),
        (
            pa.timestamp("us"),
            "2024-01-01",
            "2024-01-01 10:00:00.123",
            datetime(2024, 1, 1),  # noqa: DTZ001
            datetime(2024, 1, 1, 10, 0, 0, 124_000),  # noqa: DTZ001
        ),
        (UTC_US, "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", None),
    ],
)
def test_bounds_are_sound(
    kind: pa.DataType, low: object, high: object, lowest: object, highest: object
) -> None:
    """A bound gives room to what its writer may have lost, and is left out where nothing is sure."""
    found = bounds(file(low, high), StoredColumn(("id",), kind))
    expected = datetime.fromisoformat(lowest) if isinstance(lowest, str) and kind == UTC_US else lowest

    assert (found.minimum.as_py() if found.minimum is not None else None) == expected
    assert (found.maximum.as_py() if found.maximum is not None else None) == highest
    assert found.null_count == 0


def test_nested_fields_have_paths() -> None:
    """Statistics of a field in a struct are found by its names."""
    low, high, nulls = ({"a": {"b": {"c": number}}} for number in (1, 5, 1))
    text = json.dumps({"numRecords": 3, "minValues": low, "maxValues": high, "nullCount": nulls})
    nested = DataFile("/t/a", {}, 1, 1, text, None, 3)

    assert file_statistics(nested).minimum == {("a", "b", "c"): 1}
    assert bounds(nested, StoredColumn(("a", "b", "c"), pa.int64())) == Bounds(pa.scalar(1), pa.scalar(5), 1)
    assert bounds(nested, StoredColumn(("a", "b"), pa.int64())) == Bounds(None, None, None)


@pytest.mark.parametrize(("nulls", "expected"), [(0, 0), (10, 10), (3, None)])
def test_wide_null_counts_say_only_none_or_all(nulls: int, expected: int | None) -> None:
    """Once bounds are not tight, a count of nulls in between means nothing."""
    assert bounds(file(1, 2, nulls=nulls, tight=False), ID).null_count == expected


def test_file_without_statistics_is_unknown() -> None:
    """No statistics, no bounds."""
    bare = DataFile("/t/a", {}, 1, 1)

    assert bounds(bare, ID) == Bounds(None, None, None)
    assert exact(bare) is None


def test_exact_range_spans_all_files() -> None:
    """Minimum and maximum are those of the whole table; files without rows do not count."""
    assert exact(file(3, 9), file(-1, 4, nulls=2), file(rows=0)) == known(-1, 9, pa.int64(), has_null=True)


def test_zero_is_a_bound_like_any_other() -> None:
    """A bound that is false to Python is still a bound."""
    assert exact(file(0, 0)) == known(0, 0, pa.int64())
    assert exact(file(False, False), kind=pa.bool_()) == known(False, False, pa.bool_())
    assert exact(file("", ""), kind=pa.string()) == known("", "", pa.string())


def test_empty_table_has_neither_nulls_nor_values() -> None:
    """Nothing is exactly nothing."""
    assert exact() == known(None, None, pa.int64(), has_not_null=False)


def test_column_of_nulls_has_no_range() -> None:
    """All null is exact, too, and does not spoil the range of other files."""
    assert exact(file(nulls=10)) == known(None, None, pa.int64(), has_null=True, has_not_null=False)
    assert exact(file(nulls=10), file(1, 2)) == known(1, 2, pa.int64(), has_null=True)


def test_missing_bound_leaves_the_range_unknown() -> None:
    """One file whose range is not known is enough."""
    assert exact(file(1, 2), file()) == known(None, None, pa.int64())


def test_missing_null_count_is_not_exact() -> None:
    """Nothing is told of a column whose nulls nobody counted."""
    assert exact(file(1, 2, nulls=None)) is None


def test_deleted_rows_make_the_range_unknown() -> None:
    """The smallest value may be deleted; nulls are sure only if there are none or nothing else."""
    assert exact(file(1, 2, deleted=1)) == known(None, None, pa.int64())
    assert exact(file(1, 2, deleted=1, nulls=10)) == known(
        None, None, pa.int64(), has_null=True, has_not_null=False
    )
    assert exact(file(1, 2, deleted=1, nulls=3)) is None
    assert exact(file(1, 2, deleted=10)) == known(None, None, pa.int64(), has_not_null=False)
    assert exact(file(1, 2, tight=False)) == known(None, None, pa.int64())


@pytest.mark.parametrize(
    ("low", "high", "sure"),
    [
        ("a" * 31, "b" * 31, True),
        ("a" * 32, "b", False),
        ("a", "b" * 32 + "\x7f", False),
        ("a", "b\x7f", False),
        ("a", "😀" * 16, False),
    ],
)
def test_strings_that_may_be_cut_are_not_exact(low: str, high: str, sure: bool) -> None:
    """Spark keeps 32 characters of a string."""
    expected = known(low, high, pa.string()) if sure else known(None, None, pa.string())

    assert exact(file(low, high), kind=pa.string()) == expected


def test_shorter_prefix_of_the_table_counts() -> None:
    """A table may keep fewer characters."""
    table = snapshot(file("abcd", "efgh"), **{"delta.dataSkippingStringPrefixLength": "4"})

    assert exact_statistics(table, StoredColumn(("id",), pa.string())) == known(None, None, pa.string())


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.float64(), 1.0, 2.0),
        (UTC_US, "2024-01-01T10:00:00.123Z", "2024-01-01T10:00:00.123Z"),
        (pa.decimal128(20, 0), 1, 10**15),
    ],
)
def test_imprecise_statistics_are_not_exact(kind: pa.DataType, low: object, high: object) -> None:
    """Floats hide NaN, timestamps lose microseconds, long decimals may have been doubles."""
    assert exact(file(low, high), kind=kind) == known(None, None, kind)


def test_partition_values_are_exact() -> None:
    """All rows of a file have its partition value, deleted or not; no value is null."""
    files = [file(values={"id": text}, deleted=3) for text in ("7", "0", None, "")]

    assert exact(*files) == known(0, 7, pa.int64(), has_null=True)
    assert bounds(files[2], ID) == Bounds(None, None, 10)


def test_partition_value_that_is_none_is_unknown() -> None:
    """A text that is no value of its type proves nothing, and a time without zone little."""
    assert bounds(file(values={"id": "seven"}), ID) == Bounds(None, None, None)
    assert bounds(file(values={"id": "maybe"}), StoredColumn(("id",), pa.bool_())) == Bounds(None, None, None)
    zoned = StoredColumn(("id",), UTC_US)
    assert bounds(file(values={"id": "2024-01-01 00:00:00"}), zoned) == Bounds(None, None, 0)
    assert bounds(file(values={"id": "NaN"}), StoredColumn(("id",), pa.float64())) == Bounds(None, None, 0)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int16(), 7),
        ("1.50", pa.decimal128(38, 2), Decimal("1.50")),
        (
            "12345678901234567890123456789012345678",
            pa.decimal128(38, 0),
            Decimal(12345678901234567890123456789012345678),
        ),
        ("-0.5", pa.float32(), -0.5),
        ("TRUE", pa.bool_(), True),
        ("2024-01-31", pa.date32(), date(2024, 1, 31)),
        ("2024-01-31 01:02:03.5", UTC_US, datetime(2024, 1, 31, 1, 2, 3, 500_000, UTC)),
        ("2024-01-31T01:02:03.000004Z", UTC_US, datetime(2024, 1, 31, 1, 2, 3, 4, UTC)),
        ("2024-01-31 01:02:03", pa.timestamp("us"), datetime(2024, 1, 31, 1, 2, 3)),  # noqa: DTZ001
        ("\x01ä", pa.binary(), b"\x01\xc3\xa4"),
        ("a b", pa.string(), "a b"),
        ("", pa.string(), None),
        (None, pa.int64(), None),
    ],
)
def test_partition_text_becomes_a_value(text: str | None, kind: pa.DataType, value: object) -> None:
    """Partition values are texts in the log and values in a column."""
    assert partition_scalar(text, kind) == pa.scalar(value, kind)


def test_bounds_of_delta_rs_hold(tmp_path: Path) -> None:
    """Statistics of the other writer, which rounds decimals and leaves out NaN, are not trusted too far."""
    columns = {
        "i": pa.array([1, 2]),
        "d": pa.array([Decimal("12345678901234567.89"), Decimal("2.50")], pa.decimal128(20, 2)),
        "big": pa.array([Decimal(5), Decimal(12345678901234567890)], pa.decimal128(20, 0)),
        "f": pa.array([1.5, float("nan")]),
        "s": pa.array(["a" * 100, "z" * 100]),
        "t": pa.array([datetime(2024, 1, 1, 0, 0, 0, 123_456, UTC), None], UTC_US),
    }
    write_deltalake(tmp_path / "rust", pa.table(columns))
    table = DeltaLog(str(tmp_path / "rust")).snapshot()

    for name, array in columns.items():
        found = bounds(table.files[0], StoredColumn((name,), array.type))
        for value in array.drop_null().to_pylist():
            assert found.minimum is None or not value < found.minimum.as_py()
            assert found.maximum is None or not value > found.maximum.as_py()
    assert bounds(table.files[0], StoredColumn(("f",), pa.float64())).maximum is None
    assert exact_statistics(table, StoredColumn(("i",), pa.int64())) == known(1, 2, pa.int64())
    assert table.row_count == 2
