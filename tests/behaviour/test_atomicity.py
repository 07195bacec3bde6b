"""A statement is made wholly or not at all: not even a version is left of one that fails."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkport.catalog import Call, CreateTableOptions, DynamicSchema
from sparkport.errors import (
    CancelledError,
    ConflictError,
    ConstraintViolationError,
    DeadlineExceededError,
    RowNotFoundError,
    SchemaMismatchError,
)
from tests.behaviour.engine import FullTable, add, create, ids, insert, numbers, values, version


def guarded(schema: DynamicSchema) -> FullTable:
    """Make a table with a CHECK and a key, and three rows."""
    options = CreateTableOptions(check_constraints=("n >= 0",), unique_constraints=(0,))
    table = create(schema, {"n": pa.int64()}, "t", options)
    insert(table, [{"n": 1}, {"n": 2}, {"n": 3}])
    return table


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (pa.record_batch({"n": ["text"]}), SchemaMismatchError),
        (pa.record_batch({"other": [1]}), SchemaMismatchError),
        (pa.record_batch({"n": [-1]}), ConstraintViolationError),
        (pa.record_batch({"n": [1]}), ConstraintViolationError),
        (pa.record_batch({"n": [10]}), ConstraintViolationError),
    ],
)
def test_failing_second_batch_takes_the_first_along(
    schema: DynamicSchema, second: pa.RecordBatch, error: type[Exception]
) -> None:
    """Rows of a failed INSERT are not there."""
    table = guarded(schema)
    before = version(table)
    statement = table.begin_insert(Call(), returning=True)
    statement.write(pa.record_batch({"n": [10]}))

    def finish() -> None:
        statement.write(second)
        statement.commit()

    with pytest.raises(error):
        finish()
    statement.abort()
    assert values(table) == [1, 2, 3]
    assert version(table) == before


def test_failing_update_changes_no_row(schema: DynamicSchema) -> None:
    """Rows of a failed UPDATE are as they were."""
    table = guarded(schema)
    before = version(table)
    first, second, _ = ids(table)
    statement = table.begin_update(Call(), ("n",), returning=False)
    statement.write(pa.record_batch({"n": [10], "rowid": [first]}))
    statement.write(pa.record_batch({"n": [-5], "rowid": [second]}))

    with pytest.raises(ConstraintViolationError):
        statement.commit()
    assert values(table) == [1, 2, 3]
    assert version(table) == before


def test_update_with_a_missing_row_in_the_second_batch(schema: DynamicSchema) -> None:
    """A missing row takes the batches before it along."""
    table = guarded(schema)
    statement = table.begin_update(Call(), ("n",), returning=False)
    statement.write(pa.record_batch({"n": [10], "rowid": ids(table)[:1]}))

    with pytest.raises(RowNotFoundError):  # noqa: PT012  (an engine may see it as late as at the end)
        statement.write(pa.record_batch({"n": [20], "rowid": [999]}))
        statement.commit()
    statement.abort()
    assert values(table) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["insert", "update", "delete"])
def test_aborted_statement_leaves_nothing(schema: DynamicSchema, kind: str) -> None:
    """What is aborted never was."""
    table = numbers(schema, 1, 2)
    before = version(table)
    start = {
        "insert": lambda: table.begin_insert(Call(), returning=True),
        "update": lambda: table.begin_update(Call(), ("n",), returning=True),
        "delete": lambda: table.begin_delete(Call(), returning=True),
    }
    data = {
        "insert": pa.record_batch({"n": [3]}),
        "update": pa.record_batch({"n": [3], "rowid": ids(table)[:1]}),
        "delete": pa.record_batch({"rowid": ids(table)[:1]}),
    }
    statement = start[kind]()
    statement.write(data[kind])
    statement.abort()

    assert values(table) == [1, 2]
    assert version(table) == before


def test_call_cancelled_before_commit_leaves_nothing(schema: DynamicSchema) -> None:
    """A client that is gone before the end has written nothing."""
    table = numbers(schema, 1)
    before = version(table)
    call = Call()
    statement = table.begin_insert(call, returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    call.cancel()

    with pytest.raises(CancelledError):
        statement.commit()
    assert values(table) == [1]
    assert version(table) == before


def test_call_past_its_deadline_leaves_nothing(schema: DynamicSchema) -> None:
    """Time that is up ends a statement as a cancellation does."""
    table = numbers(schema, 1)
    call = Call(timeout=0.05)
    statement = table.begin_insert(call, returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    call.wait_cancelled(0.06)

    with pytest.raises(DeadlineExceededError):
        statement.commit()
    assert values(table) == [1]


def test_stream_that_breaks_off_leaves_nothing(schema: DynamicSchema) -> None:
    """An error of the client's stream ends the statement."""
    table = numbers(schema, 1)

    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [2]})
        raise OSError("the line is dead")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), broken())
    with pytest.raises(OSError, match="the line is dead"):
        table.insert(Call(), reader)
    assert values(table) == [1]


def test_statement_conflicts_with_altered_columns(schema: DynamicSchema) -> None:
    """Rows that were checked against other columns are not stored."""
    table = numbers(schema, 1)
    statement = table.begin_insert(Call(), returning=False)
    statement.write(pa.record_batch({"n": [2]}))
    table.alter(Call(), add("m", pa.int64()))

    with pytest.raises(
        ConflictError, match=r"^conflict on table 't': its columns were altered meanwhile; run the"
    ):
        statement.commit()
    assert values(table) == [1]
