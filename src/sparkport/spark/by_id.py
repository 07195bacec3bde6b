"""UPDATE and DELETE: the rows are named by their ids, and change in one Delta commit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.conform import conform_column, row_ids
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import rowid_name
from sparkport.catalog.taking import take_rows
from sparkport.errors import (
    ConflictError,
    InvalidRequestError,
    PreconditionError,
    RowNotFoundError,
    SchemaMismatchError,
    UnsupportedOperationError,
)
from sparkport.expressions.constraints import check_not_null, constraints_of
from sparkport.spark import merges, row_changes
from sparkport.spark.checks import RowChecks
from sparkport.spark.columns import table_columns
from sparkport.spark.commits import Change
from sparkport.spark.conflicts import Ids, is_untouched
from sparkport.spark.engine import Engine
from sparkport.spark.provisional import are_provisional
from sparkport.spark.row_changes import Located, NewRows
from sparkport.spark.statements import SparkStatement, Target
from sparkport.spark.types import decode

_NO_IDS: Ids = np.empty(0, np.int64)


class ByIdStatement(SparkStatement):
    """Changes the rows that are named by their ids."""

    operation = ""

    def __init__(self, call: Call, engine: Engine, target: Target, *, returning: bool) -> None:
        super().__init__(call, engine, target, returning=returning)
        name = rowid_name(self._shown)
        if name is None:
            raise UnsupportedOperationError("table", self._name, f"{self.operation} (no rowid)")
        if any(column.logical.lower() == "_metadata" for column in self._columns):
            reason = f"{self.operation}: Delta takes its column '_metadata' for one of its own"
            raise UnsupportedOperationError("table", self._name, reason)
        self._rowid = name
        self._id_column = self._columns[-1]
        self._ids: list[Ids] = []

    def _located_ids(self, located: Located | None, ids: Ids) -> Ids:
        """Return those of the ids that are in the table now."""
        if located is None:
            return self._target.present_ids(self._call, ids)
        return np.asarray(located.rows.column(self._rowid).to_numpy())

    def _in_place(self, located: Located, new_rows: NewRows | None) -> Change:
        affected = located.rows.num_rows
        key = self._call.idempotency_key
        keys = {} if key is None else {key: affected}
        work = functools.partial(
            row_changes.commit, self._path, self._target.root, located, new_rows, self.operation, keys
        )
        return Change(work, affected, notes_key=True)

    def _sent_ids(self, column: pa.Array) -> Ids:
        """Return the ids of a batch; refuse the numbers of rows that had no id when they were read."""
        ids = row_ids(column)
        if are_provisional(ids):
            raise PreconditionError(
                f"row ids of table '{self._name}' are provisional: its rows had none when they were read;"
                " read them again"
            )
        return ids

    def _old_rows(self, ids: Ids) -> pa.RecordBatch:
        """Return the rows as the statement sees them, in the order of the ids that are there.

        An ALTER carries no transaction id: after one the statement goes on from the altered table.
        """
        seen = self._target.seen_version(self._call)
        if seen is not None:
            columns = pa.schema(column.exact for column in table_columns(self._target.heading(seen).metadata))
            seen = seen if columns.equals(self._shown) else None
        return self._ordered(self._target.rows_by_id(self._call, ids, seen), ids)

    def _ordered(self, found: pa.Table, ids: Ids) -> pa.RecordBatch:
        if found.schema.names != self._shown.names:
            raise ConflictError(self._name, "its columns were altered meanwhile")
        known = found.column(self._rowid).to_numpy()
        order = np.argsort(known)
        at = np.searchsorted(known, ids, sorter=order)
        at = np.minimum(at, max(0, len(known) - 1))
        picked = order[at] if len(known) else _NO_IDS
        hits = picked[known[picked] == ids] if len(known) else _NO_IDS
        return take_rows(found, hits)

    def _check_untouched(self, ids: Ids) -> None:
        """First committer wins: refuse rows that others have changed since the call's transaction began."""
        seen = self._target.seen_version(self._call)
        if seen is not None and not is_untouched(self._call, self._target, ids, seen):
            raise ConflictError(self._name, "another transaction changed the same rows")


class UpdateStatement(ByIdStatement):
    """Sets some columns of the rows named by id."""

    operation = "UPDATE"

    def __init__(
        self, call: Call, engine: Engine, target: Target, columns: tuple[str, ...], *, returning: bool
    ) -> None:
        super().__init__(call, engine, target, returning=returning)
        if not columns:
            raise InvalidRequestError("an UPDATE sets at least one column")
        self._set = [self._columns[find_column(self._plain, name)] for name in columns]
        if len({column.exact.name for column in self._set}) != len(self._set):
            raise InvalidRequestError("an UPDATE sets a column twice")
        names = [column.exact.name for column in self._set]
        self._checks = RowChecks(call, target, constraints_of(self._constraints, names))

    def _staged(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != len(self._set) + 1:
            raise SchemaMismatchError(
                f"UPDATE sets {len(self._set)} columns by row id, input has {batch.num_columns}"
            )
        ids = self._sent_ids(batch.column(batch.num_columns - 1))
        arrays = [conform_column(batch.column(i), column.exact) for i, column in enumerate(self._set)]
        changes = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.exact for column in self._set]))
        check_not_null(self._target.name, changes, changes.schema)
        self._ids.append(ids)
        if len(ids):
            self._store([*self._set, self._id_column], [*arrays, pa.array(ids)])
        if not self._returning:
            return None
        old = self._old_rows(ids)
        if old.num_rows < len(ids):
            raise RowNotFoundError(int(np.setdiff1d(ids, old.column(self._rowid).to_numpy())[0]))
        for array, column in zip(arrays, self._set, strict=True):
            index = old.schema.get_field_index(column.exact.name)
            old = old.set_column(index, old.schema.field(index), array)
        return old

    def _prepare(self) -> None:
        ids = np.concatenate([*self._ids, _NO_IDS])
        if len(np.unique(ids)) < len(ids):
            self._keep_last(ids)
        if self._checks.has_expressions:
            # The commit tells of rows that are missing, and of who has removed them.
            with contextlib.suppress(RowNotFoundError):
                for place, rows in enumerate(self._changed_rows()):
                    self._checks.evaluate(place, rows)

    def _applied(self) -> int:
        distinct = np.unique(np.concatenate([*self._ids, _NO_IDS]))
        if not len(distinct):
            return 0
        with self._commits.alone(self._call):
            self._check_same_columns()
            self._check_untouched(distinct)
            return self._commits.change(self._call, functools.partial(self._planned, distinct))

    def _planned(self, distinct: Ids) -> Change:
        located = self._target.located(self._call, distinct, whole=True)
        missing = np.setdiff1d(distinct, self._located_ids(located, distinct))
        if len(missing):
            raise RowNotFoundError(int(missing[0]))
        if self._checks.has_any:
            self._check_new_rows(distinct)
        if located is not None:
            rows = self._new_rows(located)
            return self._in_place(located, NewRows(rows, self._spark_fields(), self._stage))
        names = [column.logical for column in self._set]
        folder, id_name = self._stage.on_disk(), self._id_column.logical
        work = functools.partial(merges.update, self._target.root, folder, id_name, names, distinct)
        return Change(work, len(distinct))

    def _new_rows(self, located: Located) -> pa.Table:
        """Return the rows that take the place of the located ones, as they are stored."""
        changes = self._stage.read()
        order = np.argsort(changes.column(self._id_column.logical).to_numpy())
        at = order[np.argsort(np.argsort(located.rows.column(self._rowid).to_numpy()))]
        rows = located.rows.select(self._shown.names)
        rows = rows.rename_columns([column.logical for column in self._columns])
        for column in self._set:
            values = changes.column(column.logical).take(pa.array(at))
            rows = rows.set_column(rows.schema.get_field_index(column.logical), column.logical, values)
        return rows

    def _check_new_rows(self, distinct: Ids) -> None:
        """Check the rows as they will be."""
        self._checks.forget_keys()  # of a try that another writer has beaten
        for place, rows in enumerate(self._changed_rows()):
            self._checks.add_evaluated(place, rows)
        self._checks.check_keys(distinct)

    def _changed_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they will be: those of the newest version with the new values."""
        for staged in self._stage.batches():
            ids = staged.column(self._id_column.logical).to_numpy()
            rows = self._ordered(self._target.rows_by_id(self._call, ids, None), ids)
            if rows.num_rows < len(ids):
                raise RowNotFoundError(int(np.setdiff1d(ids, rows.column(self._rowid).to_numpy())[0]))
            for column in self._set:
                index = rows.schema.get_field_index(column.exact.name)
                values = decode(staged.column(column.logical), column.exact)
                rows = rows.set_column(index, column.exact, values)
            yield rows.select(self._plain.names)

    def _keep_last(self, ids: Ids) -> None:
        """Let the last value for a row win, as it would one batch at a time."""
        _, from_end = np.unique(ids[::-1], return_index=True)
        places = len(ids) - 1 - from_end
        self._stage = self._stage.replaced(self._stage.read().take(pa.array(places)))
        self._ids = [ids[places]]


class DeleteStatement(ByIdStatement):
    """Removes the rows named by id; ids without a row are ignored."""

    operation = "DELETE"

    def _staged(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != 1:
            raise SchemaMismatchError(f"DELETE takes only the row id, input has {batch.num_columns} columns")
        ids = self._sent_ids(batch.column(0))
        if self._returning:
            # A row goes once, so it is answered once.
            ids = ids[np.sort(np.unique(ids, return_index=True)[1])]
            ids = ids[~np.isin(ids, np.concatenate([*self._ids, _NO_IDS]))]
        self._ids.append(ids)
        return self._old_rows(ids) if self._returning else None

    def _applied(self) -> int:
        distinct = np.unique(np.concatenate([*self._ids, _NO_IDS]))
        if not len(distinct):
            return 0
        with self._commits.alone(self._call):
            self._check_untouched(distinct)
            return self._commits.change(self._call, functools.partial(self._planned, distinct))

    def _planned(self, distinct: Ids) -> Change | None:
        located = self._target.located(self._call, distinct, whole=False)
        present = self._located_ids(located, distinct)
        if not len(present):
            return None
        if located is not None:
            return self._in_place(located, None)
        if len(present) > merges.MOST_LISTED and not self._stage.rows:
            self._stage.add(pa.record_batch([pa.array(present)], [self._id_column.logical]))
            self._stage.close()
        folder, id_name = self._stage.on_disk(), self._id_column.logical
        work = functools.partial(merges.delete, self._target.root, folder, id_name, present)
        return Change(work, len(present))
