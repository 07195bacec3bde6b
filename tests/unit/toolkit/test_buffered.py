from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, DMLResult, ScanOptions, StatementTable, Table
from sparkport.errors import (
    CancelledError,
    InvalidRequestError,
    LimitExceededError,
    UnsupportedOperationError,
)
from sparkport.toolkit import CatalogBuilder, buffered

COLUMNS = pa.schema([("n", pa.int64()), pa.field("rowid", pa.int64())])


class Log:
    """A simple table that writes down what it is asked to do."""

    name = "log"
    comment = ""
    arrow_schema = COLUMNS

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        raise AssertionError((call, options))

    def insert(self, call: Call, rows: pa.RecordBatchReader, *, returning: bool = False) -> DMLResult:
        call.check()
        data = rows.read_all()
        self.calls.append(("insert", data.to_pydict(), returning))
        return DMLResult(len(data), data.to_reader() if returning else None)

    def update(
        self, call: Call, row_ids: pa.Int64Array, rows: pa.RecordBatchReader, *, returning: bool = False
    ) -> DMLResult:
        call.check()
        data = rows.read_all()
        self.calls.append(("update", row_ids.to_pylist(), data.to_pydict(), returning))
        return DMLResult(len(row_ids), data.to_reader() if returning else None)

    def delete(self, call: Call, row_ids: pa.Int64Array, *, returning: bool = False) -> DMLResult:
        call.check()
        self.calls.append(("delete", row_ids.to_pylist(), returning))
        return DMLResult(len(row_ids), pa.table({"rowid": row_ids}).to_reader() if returning else None)


def read_only() -> Table:
    """Return a table that cannot be written."""
    schema = CatalogBuilder().schema("s").table("fixed", pa.table({"n": [1]})).build().schema(Call(), "s")
    assert schema is not None
    table = schema.table(Call(), "fixed")
    assert table is not None
    return table


def batch(*numbers: int) -> pa.RecordBatch:
    """Return rows of one column."""
    return pa.record_batch({"n": list(numbers)})


def test_insert_is_one_call_for_all_batches() -> None:
    """A simple table sees the whole statement at once, at its end."""
    table = Log()
    statement = buffered.begin_insert(Call(), table, returning=False)

    assert statement.write(batch(1, 2)) is None
    assert statement.write(batch(3)) is None
    assert table.calls == []
    assert statement.commit() == 3
    assert table.calls == [("insert", {"n": [1, 2, 3]}, False)]


def test_insert_returning_is_a_call_for_each_batch() -> None:
    """The client waits for the rows of a batch before it sends the next."""
    table = Log()
    statement = buffered.begin_insert(Call(), table, returning=True)
    first, second = statement.write(batch(1, 2)), statement.write(batch(3))

    assert first is not None
    assert second is not None
    assert (first.to_pydict(), second.to_pydict()) == ({"n": [1, 2]}, {"n": [3]})
    assert statement.commit() == 3
    assert table.calls == [("insert", {"n": [1, 2]}, True), ("insert", {"n": [3]}, True)]


def test_update_takes_the_row_id_from_the_last_column() -> None:
    """Ids and values are handed over apart, whatever the type of the ids."""
    table = Log()
    statement = buffered.begin_update(Call(), table, ("n",), returning=False)
    statement.write(pa.record_batch({"n": [10], "rowid": pa.array([1], pa.int32())}))
    statement.write(pa.record_batch({"n": [20], "rowid": pa.array([2], pa.int32())}))

    assert statement.commit() == 2
    assert table.calls == [("update", [1, 2], {"n": [10, 20]}, False)]


def test_update_returning_answers_each_batch() -> None:
    """What the table returns for a batch is its answer."""
    statement = buffered.begin_update(Call(), Log(), ("n",), returning=True)
    answer = statement.write(pa.record_batch({"n": [10], "rowid": [1]}))

    assert answer is not None
    assert answer.to_pydict() == {"n": [10]}
    assert statement.commit() == 1


def test_delete_is_one_call_for_all_ids() -> None:
    """A simple table sees the whole statement at once, at its end."""
    table = Log()
    statement = buffered.begin_delete(Call(), table, returning=False)
    statement.write(pa.record_batch({"rowid": [1]}))
    statement.write(pa.record_batch({"rowid": [2]}))

    assert statement.commit() == 2
    assert table.calls == [("delete", [1, 2], False)]


def test_delete_returning_answers_each_batch() -> None:
    """What the table returns for a batch is its answer."""
    statement = buffered.begin_delete(Call(), Log(), returning=True)
    answer = statement.write(pa.record_batch({"rowid": [1]}))

    assert answer is not None
    assert answer.to_pydict() == {"rowid": [1]}


def test_statement_without_rows_calls_nobody() -> None:
    """Nothing to do is nothing done."""
    table = Log()

    assert buffered.begin_insert(Call(), table, returning=False).commit() == 0
    assert table.calls == []


def test_aborted_statement_calls_nobody() -> None:
    """What was collected is forgotten, and the statement is over."""
    table = Log()
    statement = buffered.begin_insert(Call(), table, returning=False)
    statement.write(batch(1))
    statement.abort()
    statement.abort()

    with pytest.raises(InvalidRequestError, match=r"^statement already finished$"):
        statement.commit()
    assert table.calls == []


def test_committed_statement_is_over() -> None:
    """Rows after the end would be lost."""
    statement = buffered.begin_insert(Call(), Log(), returning=False)
    statement.write(batch(1))
    statement.commit()

    with pytest.raises(InvalidRequestError, match=r"^statement already finished$"):
        statement.write(batch(2))


def test_cancelled_statement_calls_nobody() -> None:
    """A client that is gone has written nothing."""
    table, call = Log(), Call()
    statement = buffered.begin_insert(call, table, returning=False)
    statement.write(batch(1))
    call.cancel()

    with pytest.raises(CancelledError):
        statement.write(batch(2))
    with pytest.raises(CancelledError):
        statement.commit()
    assert table.calls == []


def test_too_much_is_refused_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is collected is limited."""
    monkeypatch.setattr(buffered, "_MAX_BYTES", 100)
    statement = buffered.begin_insert(Call(), Log(), returning=False)
    statement.write(batch(*range(12)))

    with pytest.raises(LimitExceededError):
        statement.write(batch(1))


def test_tables_without_the_ability_say_so() -> None:
    """The messages are those of the specification."""
    table = read_only()

    with pytest.raises(
        UnsupportedOperationError, match=r"^table 'fixed' does not support INSERT operations$"
    ):
        buffered.begin_insert(Call(), table, returning=False)
    with pytest.raises(
        UnsupportedOperationError, match=r"^table 'fixed' does not support UPDATE \(no rowid\)$"
    ):
        buffered.begin_update(Call(), table, ("n",), returning=False)
    with pytest.raises(
        UnsupportedOperationError, match=r"^table 'fixed' does not support DELETE \(no rowid\)$"
    ):
        buffered.begin_delete(Call(), table, returning=False)


def test_table_that_takes_batches_is_used_directly() -> None:
    """Buffering is only for tables that cannot do better."""

    class Own(Log):
        def begin_insert(self, call: Call, *, returning: bool) -> str:
            return f"insert for {call.principal}, {returning}"

        def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> str:
            return f"update of {columns} for {call.principal}, {returning}"

        def begin_delete(self, call: Call, *, returning: bool) -> str:
            return f"delete for {call.principal}, {returning}"

    table = Own()

    assert isinstance(table, StatementTable)
    assert str(buffered.begin_insert(Call("ann"), table, returning=True)) == "insert for ann, True"
    assert (
        str(buffered.begin_update(Call("ann"), table, ("n",), returning=False))
        == "update of ('n',) for ann, False"
    )
    assert str(buffered.begin_delete(Call("ann"), table, returning=True)) == "delete for ann, True"
