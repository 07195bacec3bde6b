"""INSERT, UPDATE and DELETE on a table in memory: staged, then committed atomically."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparkport.arrow.conform import batch_of, conform_batch, conform_column, row_ids
from sparkport.arrow.sizes import byte_size
from sparkport.arrow.taking import take_batch
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import with_rowid
from sparkport.errors import (
    ConflictError,
    InvalidRequestError,
    RowNotFoundError,
    SchemaMismatchError,
)
from sparkport.expressions import constraints as checks
from sparkport.memory.commits import UncheckedRowsError
from sparkport.memory.rows import RowIds
from sparkport.memory.versions import Change, TableState, Version
from sparkport.toolkit.keys import check_keys, keys_of
from sparkport.toolkit.repeats import check_returnable
from sparkport.toolkit.staged_statement import StagedStatement

_SEGMENT_BYTES = 1 << 20
_ID_BYTES = 8


class Target(Protocol):
    """What a statement needs of its table."""

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        raise NotImplementedError

    def reserve_ids(self, count: int) -> RowIds:
        """Return row ids that were never used before."""
        raise NotImplementedError

    def changes_by_others(self, call: Call, base: Version) -> list[Version]:
        """Return what others committed since the call's transaction took its snapshot."""
        raise NotImplementedError

    def version_after(self, call: Call, newest: Version) -> str | None:
        """Return the snapshot that a client's rows may count as read from after a commit on `newest`."""
        raise NotImplementedError

    def commit(self, call: Call, change: Change, held: Reservation) -> int:
        """Apply `change` to the newest version and publish the result, or stage it; return its count.

        The memory that the statement holds passes to the transaction that stages it, or is released.
        """
        raise NotImplementedError


class MemoryStatement(StagedStatement):
    """Stages batches; the table changes only in `commit`."""

    def __init__(
        self, call: Call, target: Target, base: Version, *, returning: bool, columns: tuple[str, ...] = ()
    ) -> None:
        super().__init__(call, returning=returning, columns=columns)
        self._target = target
        self._base = base
        self._batches: list[pa.RecordBatch] = []
        self._ids: list[RowIds] = []
        self._held = Reservation(call.resources.rows)
        self._passed: list[tuple[str, pa.Table]] = []

    def commit(self) -> int:
        """Apply everything staged as one version."""
        self._check_open()
        self._is_finished = True
        ids = np.concatenate(self._ids) if self._ids else np.empty(0, np.int64)
        key = self._keys.key()

        def change(call: Call, newest: Version) -> tuple[TableState, RowIds, int]:
            self._version = self._target.version_after(call, newest)
            if not len(ids):
                return newest.state, ids, 0  # a statement without rows makes a version too
            if key is None:
                return self._apply(call, newest, ids)
            done = key.matched(newest.state.outcomes.get(key.name))
            if done is not None:
                check_returnable(done, returning=self._returning)
                return newest.state, ids[:0], done
            state, touched, count = self._apply(call, newest, ids)
            return state.with_outcome(key.name, key.outcome(count)), touched, count

        return self._target.commit(self._call, change, self._held)

    def abort(self) -> None:
        """Discard the staged batches."""
        self._is_finished = True
        self._batches.clear()
        self._ids.clear()
        self._held.release()

    @abstractmethod
    def _apply(self, call: Call, newest: Version, ids: RowIds) -> tuple[TableState, RowIds, int]:
        """Return the new state, the ids of rows changed or removed, and the count."""
        raise NotImplementedError

    @property
    def _arrow_schema(self) -> pa.Schema:
        return self._base.state.arrow_schema

    def _require_checked(self, rows: pa.Table, expressions: Sequence[str]) -> None:
        """Raise UncheckedRowsError unless the rows have passed these CHECKs.

        They are not evaluated here: the commit lock is held.
        """
        missing = [text for text in expressions if not self._has_passed(rows, text)]
        if missing:
            raise UncheckedRowsError(self._target.name, lambda call: self._check(call, rows, missing))

    def _check(self, call: Call, rows: pa.Table, expressions: Sequence[str]) -> None:
        checks.check_expressions(call, self._target.name, rows, expressions)
        self._passed.extend((text, rows) for text in expressions)

    def _has_passed(self, rows: pa.Table, expression: str) -> bool:
        return any(text == expression and _are_same(passed, rows) for text, passed in self._passed)

    def _check_same_columns(self, newest: Version) -> None:
        if not newest.state.arrow_schema.equals(self._arrow_schema, check_metadata=False):
            raise ConflictError(self._target.name, "its columns were altered meanwhile")

    def _check_untouched(self, newest: Version, ids: RowIds) -> None:
        """Raise ConflictError if rows have changed since the transaction's snapshot: first committer wins.

        What is newer than `newest` does not count: while a transaction stages, that is
        its own view, and its conflicts are detected when it commits.
        """
        for version in self._target.changes_by_others(self._call, self._base):
            if version.number <= newest.number and np.isin(version.touched, ids).any():
                raise ConflictError(self._target.name, "another transaction changed the same rows")


class InsertStatement(MemoryStatement):
    """Appends rows with new ids."""

    operation = "INSERT"

    @functools.cached_property
    def _fresh(self) -> pa.Table:
        """All rows of the statement, once all were sent."""
        return pa.Table.from_batches(self._batches)

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        rows = conform_batch(batch, self._arrow_schema)
        checks.check_not_null(self._target.name, rows, self._arrow_schema)
        self._held.add(byte_size(rows) + _ID_BYTES * rows.num_rows)
        ids = self._target.reserve_ids(rows.num_rows)
        self._batches.append(rows)
        self._ids.append(ids)
        return with_row_ids(rows, ids) if self._returning else None

    def _apply(self, call: Call, newest: Version, ids: RowIds) -> tuple[TableState, RowIds, int]:
        del call  # nothing in it takes long
        self._check_same_columns(newest)
        state = newest.state
        self._require_checked(self._fresh, state.constraints.checks)
        rows = state.rows
        start = 0
        for batch in _join_small(self._batches):
            batch = batch_of(batch.columns, state.arrow_schema, batch.num_rows)  # noqa: PLW2901
            rows = rows.append(batch, ids[start : start + batch.num_rows])
            start += batch.num_rows
        changed = replace(state, rows=rows)
        _check_keys(self._target.name, changed)
        return changed, np.empty(0, np.int64), len(ids)


class UpdateStatement(MemoryStatement):
    """Sets some columns of the rows with the given ids."""

    operation = "UPDATE"

    def __init__(
        self, call: Call, target: Target, base: Version, columns: tuple[str, ...], *, returning: bool
    ) -> None:
        super().__init__(call, target, base, returning=returning, columns=columns)
        if not columns:
            raise InvalidRequestError("an UPDATE must set at least one column")
        schema = base.state.arrow_schema
        self._fields = [schema.field(find_column(schema, name)) for name in columns]
        if len({field.name for field in self._fields}) != len(self._fields):
            raise InvalidRequestError("an UPDATE must not set the same column twice")

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != len(self._fields) + 1:
            raise SchemaMismatchError(
                f"UPDATE sets {len(self._fields)} columns by row id, input has {batch.num_columns}"
            )
        ids = row_ids(batch.column(batch.num_columns - 1))
        columns = [conform_column(batch.column(i), field) for i, field in enumerate(self._fields)]
        changes = pa.RecordBatch.from_arrays(columns, schema=pa.schema(self._fields))
        checks.check_not_null(self._target.name, changes, self._arrow_schema)
        missing = self._base.state.rows.missing(ids)
        if len(missing):
            raise RowNotFoundError(int(missing[0]))
        self._held.add(byte_size(changes) + ids.nbytes)
        self._batches.append(changes)
        self._ids.append(ids)
        if not self._returning:
            return None
        stored, _ = self._base.state.rows.lookup(ids, self._arrow_schema)
        for name, column in zip(changes.schema.names, columns, strict=True):
            index = stored.schema.get_field_index(name)
            stored = stored.set_column(index, stored.schema.field(index), column)
        return with_row_ids(stored, ids)

    def _apply(self, call: Call, newest: Version, ids: RowIds) -> tuple[TableState, RowIds, int]:
        del call  # nothing in it takes long
        self._check_same_columns(newest)
        self._check_untouched(newest, ids)
        state = newest.state
        missing = state.rows.missing(ids)
        if len(missing):
            raise RowNotFoundError(int(missing[0]))
        # The last value for a row wins, as it would one batch at a time.
        distinct, from_end = np.unique(ids[::-1], return_index=True)
        changes = take_batch(pa.concat_batches(self._batches), len(ids) - 1 - from_end)
        changed = replace(state, rows=state.rows.replace(distinct, changes))
        if state.constraints.checks:
            rows, _ = changed.rows.lookup(distinct, state.arrow_schema)
            self._require_checked(pa.Table.from_batches([rows]), state.constraints.checks)
        _check_keys(self._target.name, changed)
        return changed, distinct, len(distinct)


class DeleteStatement(MemoryStatement):
    """Removes the rows with the given ids; ids without a row are ignored."""

    operation = "DELETE"

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != 1:
            raise SchemaMismatchError(f"DELETE takes only the row id, input has {batch.num_columns} columns")
        ids = row_ids(batch.column(0))
        if self._returning:
            # A row is removed once, so it is returned once.
            ids = ids[np.sort(np.unique(ids, return_index=True)[1])]
            ids = ids[~np.isin(ids, np.concatenate([*self._ids, ids[:0]]))]
        self._held.add(ids.nbytes)
        self._ids.append(ids)
        if not self._returning:
            return None
        return with_row_ids(*self._base.state.rows.lookup(ids, self._arrow_schema))

    def _apply(self, call: Call, newest: Version, ids: RowIds) -> tuple[TableState, RowIds, int]:
        del call  # removing rows can break no constraint
        self._check_untouched(newest, ids)
        rows, removed = newest.state.rows.delete(ids)
        return replace(newest.state, rows=rows), np.unique(ids), removed


def _are_same(left: pa.Table, right: pa.Table) -> bool:
    # NaN does not equal itself, but its bytes do.
    return left is right or bool(left.equals(right)) or _bytes(left) == _bytes(right)


def _bytes(rows: pa.Table) -> list[pa.Buffer]:
    return [batch.serialize() for batch in rows.to_batches()]


def _check_keys(table: str, state: TableState) -> None:
    if keys := keys_of(state.constraints):
        check_keys(table, keys, state.rows.table(state.arrow_schema))


def with_row_ids(batch: pa.RecordBatch, ids: RowIds) -> pa.RecordBatch:
    """Return the batch with the row id as its last column."""
    columns = [*batch.columns, pa.array(ids, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=with_rowid(batch.schema))


def _join_small(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Join small batches into larger ones; large ones are kept as they are."""
    groups: list[list[pa.RecordBatch]] = []
    size = _SEGMENT_BYTES
    for batch in batches:
        if size >= _SEGMENT_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(batch)
        size += byte_size(batch)
    return [group[0] if len(group) == 1 else pa.concat_batches(group) for group in groups]
