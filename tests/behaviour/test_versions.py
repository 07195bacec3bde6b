"""The history of a table: every statement adds one version, and old ones stay readable."""

from __future__ import annotations

import datetime as dt
import time

import pyarrow as pa
import pytest

from sparkport.catalog import (
    Call,
    CreateTableOptions,
    DynamicSchema,
    OnConflict,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    ScanOptions,
    SetDefault,
    TimePoint,
    TimeUnit,
)
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.errors import InvalidRequestError, NotFoundError
from tests.behaviour.engine import (
    FullTable,
    add,
    at_version,
    columns_of,
    create,
    delete,
    ids,
    insert,
    numbers,
    rows,
    update,
    version,
)


def at(table: FullTable, number: int) -> list[object]:
    """Return column `n` as of a version."""
    return [row["n"] for row in rows(table, options=ScanOptions(time_point=at_version(number)))]


def test_new_table_is_version_zero_and_empty(schema: DynamicSchema) -> None:
    """History begins with the empty table."""
    table = create(schema, {"n": pa.int64()})

    assert version(table) == 0
    assert at(table, 0) == []


def test_every_statement_adds_one_version(schema: DynamicSchema) -> None:
    """INSERT, UPDATE, DELETE and ALTER count, however many rows they change."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}, {"n": 2}])
    update(table, ids(table)[:1], {"n": [10]})
    delete(table, ids(table)[1:])
    table.alter(Call(), SetDefault("n", "5"))
    table.alter(Call(), RenameTable("renamed"))

    assert version(table) == 5
    assert [at(table, number) for number in range(6)] == [[], [1, 2], [10, 2], [10], [10], [10]]


def test_old_version_has_its_own_columns(schema: DynamicSchema) -> None:
    """The schema of an old version is the schema it had."""
    table = create(schema, {"n": pa.int64()})
    insert(table, [{"n": 1}])
    table.alter(Call(), add("m", pa.string(), "'new'"))
    table.alter(Call(), RenameColumn("n", "renamed"))
    table.alter(Call(), RemoveColumn("m"))

    assert [columns_of(table, at=at_version(number)).names for number in range(5)] == [
        ["n"],
        ["n"],
        ["n", "m"],
        ["renamed", "m"],
        ["renamed"],
    ]
    assert rows(table, options=ScanOptions(time_point=at_version(1))) == [{"n": 1}]
    assert rows(table, options=ScanOptions(time_point=at_version(3))) == [{"renamed": 1, "m": "new"}]
    assert current_arrow_schema(Call(), table, at_version(2)).names == ["n", "m", "rowid"]


@pytest.mark.parametrize("value", ["3", "-1", "1000000"])
def test_version_that_never_was_is_not_found(schema: DynamicSchema, value: str) -> None:
    """A version number outside of history is an error that names it."""
    table = numbers(schema, 1)

    with pytest.raises(NotFoundError, match=f"^version '{value}' not found$"):
        table.snapshot(Call(), TimePoint(TimeUnit.VERSION, value))


@pytest.mark.parametrize("value", ["", "one", "1.0", "0x1", "²", "1e3"])
def test_version_must_be_a_number(schema: DynamicSchema, value: str) -> None:
    """Anything else is malformed."""
    table = numbers(schema, 1)

    with pytest.raises(InvalidRequestError, match=r"is not a version number$"):
        rows(table, options=ScanOptions(time_point=TimePoint(TimeUnit.VERSION, value)))


def moment(when: dt.datetime) -> ScanOptions:
    """Return a scan as of a time."""
    return ScanOptions(time_point=TimePoint(TimeUnit.TIMESTAMP, when.isoformat()))


def test_timestamp_means_the_version_of_that_time(schema: DynamicSchema) -> None:
    """AT TIMESTAMP reads what was newest then; a far future is now."""
    table = numbers(schema, 1)
    time.sleep(0.01)
    between = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    insert(table, [{"n": 2}])

    assert rows(table, options=moment(between)) == [{"n": 1}]
    assert rows(table, options=moment(between + dt.timedelta(days=365))) == [{"n": 1}, {"n": 2}]


def test_timestamp_may_have_any_zone(schema: DynamicSchema) -> None:
    """Without a zone it is UTC; with one it is that moment."""
    table = numbers(schema, 1)
    time.sleep(0.01)
    now = dt.datetime.now(dt.UTC)
    time.sleep(0.01)
    insert(table, [{"n": 2}])
    elsewhere = now.astimezone(dt.timezone(dt.timedelta(hours=-7)))

    assert rows(table, options=moment(elsewhere)) == [{"n": 1}]
    assert rows(table, options=moment(now.replace(tzinfo=None))) == [{"n": 1}]
    spaced = TimePoint(TimeUnit.TIMESTAMP, now.isoformat(sep=" ").replace("+00:00", "Z"))
    assert rows(table, options=ScanOptions(time_point=spaced)) == [{"n": 1}]


@pytest.mark.parametrize("value", ["2000-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_time_before_the_table_is_not_found(schema: DynamicSchema, value: str) -> None:
    """There is nothing to read before there was a table."""
    table = numbers(schema, 1)

    with pytest.raises(NotFoundError, match="version at timestamp"):
        table.snapshot(Call(), TimePoint(TimeUnit.TIMESTAMP, value))


@pytest.mark.parametrize("value", ["", "yesterday", "2024-13-01", "1700000000.5", "infinity"])
def test_timestamp_must_be_one(schema: DynamicSchema, value: str) -> None:
    """A malformed time is refused with an example of a good one."""
    table = numbers(schema, 1)

    with pytest.raises(InvalidRequestError, match=r"is not a timestamp such as 2024-01-15T10:30:00Z$"):
        table.snapshot(Call(), TimePoint(TimeUnit.TIMESTAMP, value))


def test_versions_of_one_moment_can_be_told_apart(schema: DynamicSchema) -> None:
    """Times of versions rise, however fast they are made."""
    table = create(schema, {"n": pa.int64()})
    for number in range(20):
        insert(table, [{"n": number}])
    pins = {table.snapshot(Call(), at_version(number)).time_point for number in range(21)}

    assert len(pins) == 21


def test_snapshot_id_reads_the_same_state_for_good(schema: DynamicSchema) -> None:
    """A pin survives statements, ALTER and a rename."""
    table = numbers(schema, 1, 2)
    pin = table.snapshot(Call(), None)
    delete(table, ids(table))
    table.alter(Call(), RenameColumn("n", "m"))
    table.alter(Call(), RenameTable("moved"))

    assert pin.row_count == 2
    assert pin.arrow_schema.names == ["n", "rowid"]
    assert rows(table, options=ScanOptions(time_point=pin.time_point)) == [{"n": 1}, {"n": 2}]
    assert table.snapshot(Call(), pin.time_point) == pin


@pytest.mark.parametrize("spoiled", ["", "x", "{}x", "{}²", "x{}", "{}" + "9" * 5000])
def test_unknown_snapshot_id_is_not_found(schema: DynamicSchema, spoiled: str) -> None:
    """Only what a table gave out leads back into it."""
    table = numbers(schema, 1)
    good = table.snapshot(Call(), None).time_point.value

    with pytest.raises(NotFoundError):
        table.snapshot(Call(), TimePoint(TimeUnit.SNAPSHOT, spoiled.format(good)))


def test_snapshot_of_another_table_is_not_found(schema: DynamicSchema) -> None:
    """A replaced table does not answer for its predecessor."""
    old = numbers(schema, 1)
    pin = old.snapshot(Call(), None).time_point
    new = create(schema, {"n": pa.int64()}, "t", CreateTableOptions(OnConflict.REPLACE))

    with pytest.raises(NotFoundError, match="snapshot"):
        new.snapshot(Call(), pin)


def test_snapshot_counts_its_rows(schema: DynamicSchema) -> None:
    """The row count is exact for the version."""
    table = numbers(schema, 1, 2, 3)
    delete(table, ids(table)[:1])

    assert [table.snapshot(Call(), at_version(number)).row_count for number in range(3)] == [0, 3, 2]
