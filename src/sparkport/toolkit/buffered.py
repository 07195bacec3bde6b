"""Statements on tables that take a whole statement in one call."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkport.arrow.sizes import byte_size
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.dml import (
    DeletableTable,
    DMLResult,
    InsertableTable,
    Statement,
    StatementTable,
    UpdatableTable,
)
from sparkport.catalog.tables import Table
from sparkport.errors import InvalidRequestError, LimitExceededError, UnsupportedOperationError

_MAX_BYTES = 1 << 30

Run = Callable[[list[pa.RecordBatch]], DMLResult]


def begin_insert(call: Call, table: Table, *, returning: bool) -> Statement:
    """Start an INSERT on any table that can take one."""
    if isinstance(table, StatementTable):
        return table.begin_insert(call, returning=returning)
    if not isinstance(table, InsertableTable):
        raise UnsupportedOperationError("table", table.name, "INSERT operations")
    target = table
    return _Buffered(
        call, lambda batches: target.insert(call, _reader(batches), returning=returning), returning=returning
    )


def begin_update(call: Call, table: Table, columns: tuple[str, ...], *, returning: bool) -> Statement:
    """Start an UPDATE on any table that can take one."""
    if isinstance(table, StatementTable):
        return table.begin_update(call, columns, returning=returning)
    if not isinstance(table, UpdatableTable):
        raise UnsupportedOperationError("table", table.name, "UPDATE (no rowid)")
    target = table

    def run(batches: list[pa.RecordBatch]) -> DMLResult:
        rows = pa.Table.from_batches(batches)
        last = rows.num_columns - 1
        ids = _row_ids(rows.column(last))
        return target.update(call, ids, rows.remove_column(last).to_reader(), returning=returning)

    return _Buffered(call, run, returning=returning)


def begin_delete(call: Call, table: Table, *, returning: bool) -> Statement:
    """Start a DELETE on any table that can take one."""
    if isinstance(table, StatementTable):
        return table.begin_delete(call, returning=returning)
    if not isinstance(table, DeletableTable):
        raise UnsupportedOperationError("table", table.name, "DELETE (no rowid)")
    target = table

    def run(batches: list[pa.RecordBatch]) -> DMLResult:
        return target.delete(call, _row_ids(pa.Table.from_batches(batches).column(0)), returning=returning)

    return _Buffered(call, run, returning=returning)


class _Buffered(Statement):
    """Collects the batches for one call, or makes a call per batch for RETURNING.

    With RETURNING the client waits for the rows of each batch before it sends the
    next, so a simple table cannot see the whole statement at once.
    """

    def __init__(self, call: Call, run: Run, *, returning: bool) -> None:
        self._call = call
        self._run = run
        self._returning = returning
        self._batches: list[pa.RecordBatch] = []
        self._held = Reservation(call.resources.rows)
        self._affected = 0
        self._over = False

    def write(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Keep the batch, or run it at once for RETURNING."""
        self._check_open()
        if self._returning:
            result = self._run([batch])
            self._affected += result.affected_rows
            return _single_batch(result)
        self._held.add(byte_size(batch))
        if self._held.size > _MAX_BYTES:
            raise LimitExceededError(f"a statement on this table is limited to {_MAX_BYTES >> 20} MiB")
        self._batches.append(batch)
        return None

    def commit(self) -> int:
        """Hand the table everything collected."""
        self._check_open()
        self._over = True
        if self._batches:
            self._affected += self._run(self._batches).affected_rows
            self._batches = []
        self._held.release()
        return self._affected

    def abort(self) -> None:
        """Forget the batches."""
        self._over = True
        self._batches = []
        self._held.release()

    def _check_open(self) -> None:
        if self._over:
            raise InvalidRequestError("statement already finished")
        self._call.check()


def _reader(batches: list[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


def _row_ids(column: pa.ChunkedArray) -> pa.Int64Array:
    return pa.concat_arrays(column.cast(pa.int64()).chunks)


def _single_batch(result: DMLResult) -> pa.RecordBatch | None:
    if result.returning_data is None:
        return None
    batches = result.returning_data.read_all().combine_chunks().to_batches()
    return batches[0] if batches else None
