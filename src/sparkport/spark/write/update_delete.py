"""UPDATE and DELETE: the rows are named by their ids, and change in one Delta commit."""

from __future__ import annotations

import contextlib
import functools
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkport.arrow.conform import conform_column, row_ids
from sparkport.arrow.taking import take_rows
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import rowid_name
from sparkport.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PreconditionError,
    RowNotFoundError,
    SchemaMismatchError,
    UnsupportedOperationError,
)
from sparkport.expressions.constraints import check_not_null, constraints_of
from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.commit.group_commit import Change, Committed
from sparkport.spark.delta.files import data_files
from sparkport.spark.model.columns import TableColumn, table_columns
from sparkport.spark.model.schema_evolution import without_metadata
from sparkport.spark.read.snapshot import Located, TableSnapshot
from sparkport.spark.row_ids.ids import NO_IDS, Ids
from sparkport.spark.row_ids.provisional import are_provisional
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.types import decode, decode_batches
from sparkport.spark.versions import TableVersions
from sparkport.spark.warehouse.snapshots import OwnWrite
from sparkport.spark.write import deletion_vector_update, file_rewrite, merge_sql
from sparkport.spark.write.conflict_detection import is_untouched
from sparkport.spark.write.constraint_checks import RowChecks
from sparkport.spark.write.deletion_vector_update import NewRows
from sparkport.spark.write.file_rewrite import Rewrite
from sparkport.spark.write.merge_sql import Merge
from sparkport.spark.write.staged_table import StagedTable
from sparkport.spark.write.statement import SparkStatement
from sparkport.toolkit.repeats import Outcome, StatementKey

_COPIES_OF_IDS = 3  # as they came, sorted, and those that are there
_MAX_REMEMBERED = 100_000  # ids of a statement that its transaction keeps


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rows to change in the version that the commit is based on; `present` are the ids that it has."""

    base: TableSnapshot
    present: Ids
    located: Located | None


class RowIdStatement(SparkStatement):
    """Changes the rows that are named by their ids."""

    def __init__(
        self,
        call: Call,
        table: TableVersions,
        *,
        returning: bool,
        columns: tuple[str, ...] = (),
    ) -> None:
        super().__init__(call, table, returning=returning, columns=columns)
        name = rowid_name(self._shown)
        if name is None:
            raise UnsupportedOperationError("table", self._name, f"{self.operation} (no rowid)")
        if any(column.logical.lower() == "_metadata" for column in self._columns):
            reason = f"{self.operation}: Delta takes its column '_metadata' for one of its own"
            raise UnsupportedOperationError("table", self._name, reason)
        self._has_delta_transactions = table.engine.capabilities.delta_transactions
        self._rowid = name
        self._id_column = self._columns[-1]
        self._ids: list[Ids] = []
        self._held_ids = Reservation(call.resources.rows)
        self._held_rows = Reservation(call.resources.rows)
        self._distinct = NO_IDS
        self._last_plan: _Plan | None = None
        self._is_rewritten = False

    def commit(self) -> int:
        """Change the rows in one commit."""
        try:
            return super().commit()
        finally:
            self._release()

    def abort(self) -> None:
        """Forget what was sent."""
        super().abort()
        self._release()

    def _release(self) -> None:
        self._last_plan = None
        self._held_ids.release()
        self._held_rows.release()

    def _keep_ids(self, ids: Ids) -> None:
        """Keep ids until the commit. Raises LimitExceededError when no memory is left for them."""
        self._held_ids.add(_COPIES_OF_IDS * ids.nbytes)
        self._ids.append(ids)

    def _prepare(self) -> None:
        self._distinct = np.unique(np.concatenate([*self._ids, NO_IDS]))

    def _apply(self, key: StatementKey | None) -> Committed:
        if not len(self._distinct):
            return Committed(0)
        with self._commits.exclusive(self._call):
            return self._commits.apply(self._call, key, functools.partial(self._plan_change, key))

    def _own_write(self, committed: Committed, version: int) -> OwnWrite:
        del committed
        changed = self._distinct if len(self._distinct) <= _MAX_REMEMBERED else None
        return OwnWrite(version, changed, self._readded_ids() if self._is_rewritten else None)

    @abstractmethod
    def _readded_ids(self) -> Ids:
        """Return the ids of changed rows that are in files which were written again."""
        raise NotImplementedError

    @abstractmethod
    def _plan_change(self, key: StatementKey | None) -> Change | None:
        """Return what to do on the newest version, None if there is nothing to do."""
        raise NotImplementedError

    def _plan(self, *, whole: bool) -> _Plan:
        """Find the rows in the newest version, and make sure that they are as the statement has read them.

        `whole` is to read all of their columns, if there are not too many. Rows are not read again in a
        version in which they were read before.
        """
        base = self._table.newest() if self._staged is None else self._staged.view()
        self._check_same_table(base.metadata)
        last = self._last_plan
        if last is not None and last.base.state is base.state:
            return last
        self._held_rows.release()  # of a try that another writer has beaten
        if whole:
            self._check_same_columns(base.metadata)
        ids = self._distinct
        # What a transaction stages is compared when it is committed.
        for basis in self._table.bases(self._call) if self._staged is None else ():
            if not is_untouched(self._call, self._table, ids, basis, base.version):
                raise FinalConflictError(self._name, "another transaction changed the same rows")
        located = None
        if len(ids) <= deletion_vector_update.MAX_DELETED:
            limit = deletion_vector_update.MAX_UPDATED_BYTES
            is_small = len(ids) <= deletion_vector_update.MAX_UPDATED and self._stage.bytes <= limit
            max_bytes = limit if whole and is_small else 0
            located = base.locate(self._call, ids, self._held_rows, max_bytes=max_bytes)
        rows = located.rows if located else base.rows_by_id(self._call, ids, (self._rowid,))
        self._last_plan = _Plan(base, self._require_unique(rows.column(self._rowid).to_numpy()), located)
        return self._last_plan

    def _require_unique(self, present: Ids) -> Ids:
        """Refuse to change a row by an id that another has too."""
        distinct, counts = np.unique(present, return_counts=True)
        if len(distinct) < len(present):
            raise PreconditionError(
                f"row id {int(distinct[counts > 1][0])} of table '{self._name}' names more than one row: rows"
                " were copied with their ids; set column _sparkport_rowid of the copies to NULL in Spark"
            )
        return distinct

    def _can_change_in_place(self, plan: _Plan, most: int) -> bool:
        """Tell whether the server can mark the old rows as deleted where they are."""
        state = plan.base.state
        return (
            plan.located is not None
            and len(self._distinct) <= most
            and self._has_delta_transactions
            and is_local(self._root)
            and deletion_vector_update.is_possible(state.protocol, state.metadata)
            and all(file.physical_rows is not None for file in state.files)
        )

    def _stage_change(
        self, staged: StagedTable, key: StatementKey | None, located: Located | None, rows: pa.Table | None
    ) -> Committed:
        """Add the change of located rows to a transaction; `rows` take their place."""
        if located is None or (rows is None and self.operation != DeleteStatement.operation):
            raise PreconditionError(
                f"{self.operation} changes too many rows of table '{self._name}' for a transaction; run it"
                " outside of one"
            )
        if any(file.physical_rows is None for file in located.touched):
            raise PreconditionError(
                f"{self.operation} in a transaction is not possible on table '{self._name}': the log does not"
                " say how many rows its files have; run it outside of a transaction"
            )
        count = located.rows.num_rows
        files = [] if rows is None else staged.write_rows(rows)
        staged.add(self._call, self.operation, files, located, count, key)
        return Committed(count)

    @property
    def _compares_keys(self) -> bool:
        """Whether the new rows are compared with the keys of all others."""
        return False

    def _outcomes(self, key: StatementKey | None, affected: int) -> dict[str, Outcome]:
        return {} if key is None else {key.name: key.outcome(affected)}

    def _change_in_place(
        self, key: StatementKey | None, located: Located, new_rows: NewRows | None
    ) -> Change:
        self._is_rewritten = False
        affected = located.rows.num_rows
        keys = self._outcomes(key, affected)
        work = functools.partial(
            deletion_vector_update.commit,
            self._path,
            self._table.root,
            located,
            new_rows,
            self.operation,
            keys,
            self._compares_keys,
        )
        return Change(work, affected, functools.partial(work, None), records_key=True)

    def _rewrite_by_spark(self, key: StatementKey | None, plan: _Plan, names: list[TableColumn]) -> Change:
        """Let Spark write the files again; what is staged are the ids, after the columns that are set."""
        self._is_rewritten = True
        base, present = plan.base.state, plan.present
        fields = {field.name: field for field in base.metadata.fields}
        if self._has_delta_transactions and file_rewrite.is_possible(base.protocol, base.metadata):
            located = plan.located
            files = plan.base.files_by_id(present) if located is None else list(located.touched)
            staged = [without_metadata(fields[column.logical]) for column in (*names, self._id_column)]
            rewrite = Rewrite(self._root, base, files, self._stage, staged, present)
            keys = self._outcomes(key, len(present))
            work = functools.partial(file_rewrite.commit, self._path, rewrite, self.operation, keys)
            return Change(work, len(present), records_key=True)
        merge = Merge(
            self._root,
            base.version,
            self._stage.on_disk(),
            self._id_column.logical,
            [column.logical for column in names],
            base.metadata.fields,
            present,
        )
        return Change(functools.partial(merge_sql.update if names else merge_sql.delete, merge), len(present))

    def _checked_ids(self, column: pa.Array) -> Ids:
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
        seen = self._table.seen(self._call)
        if seen is not None:
            columns = pa.schema(column.exact for column in table_columns(seen.metadata))
            seen = seen if columns.equals(self._shown) else None
        return self._sorted_by_ids((seen or self._table.newest()).rows_by_id(self._call, ids), ids)

    def _sorted_by_ids(self, found: pa.Table, ids: Ids) -> pa.RecordBatch:
        if found.schema.names != self._shown.names:
            raise FinalConflictError(self._name, "its columns were altered meanwhile")
        known = found.column(self._rowid).to_numpy()
        order = np.argsort(known)
        at = np.searchsorted(known, ids, sorter=order)
        at = np.minimum(at, max(0, len(known) - 1))
        picked = order[at] if len(known) else NO_IDS
        hits = picked[known[picked] == ids] if len(known) else NO_IDS
        return take_rows(found, hits)


class UpdateStatement(RowIdStatement):
    """Sets some columns of the rows named by id."""

    operation = "UPDATE"

    def __init__(
        self, call: Call, table: TableVersions, columns: tuple[str, ...], *, returning: bool
    ) -> None:
        super().__init__(call, table, returning=returning, columns=columns)
        if not columns:
            raise InvalidRequestError("an UPDATE must set at least one column")
        self._set = [self._columns[find_column(self._plain, name)] for name in columns]
        if len({column.exact.name for column in self._set}) != len(self._set):
            raise InvalidRequestError("an UPDATE must not set the same column twice")
        names = [column.exact.name for column in self._set]
        self._checks = RowChecks(call, table.name, constraints_of(self._constraints, names))

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != len(self._set) + 1:
            raise SchemaMismatchError(
                f"UPDATE sets {len(self._set)} columns by row id, input has {batch.num_columns}"
            )
        ids = self._checked_ids(batch.column(batch.num_columns - 1))
        arrays = [conform_column(batch.column(i), column.exact) for i, column in enumerate(self._set)]
        changes = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.exact for column in self._set]))
        check_not_null(self._table.name, changes, changes.schema)
        self._keep_ids(ids)
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
        ids = np.concatenate([*self._ids, NO_IDS])
        if len(np.unique(ids)) < len(ids):
            self._keep_last(ids)
        super()._prepare()
        if self._checks.has_expressions:
            # What is wrong with the rows is told by the commit, unless the statement was done before.
            with contextlib.suppress(ConflictError, NotFoundError, PreconditionError):
                for place, rows in enumerate(self._changed_rows(self._plan(whole=True))):
                    self._checks.evaluate(place, rows)

    def _readded_ids(self) -> Ids:
        return self._distinct if len(self._distinct) <= _MAX_REMEMBERED else NO_IDS

    def _plan_change(self, key: StatementKey | None) -> Change | None:
        plan = self._plan(whole=True)
        self._require_all(plan)
        self._check_new_rows(plan)
        located = plan.located
        can_mark = self._can_change_in_place(plan, deletion_vector_update.MAX_UPDATED)
        if located is not None and located.is_whole and can_mark:
            self._held_rows.add(2 * self._stage.bytes)  # the new values, and in the order of the rows
            rows = self._new_rows(located)
            return self._change_in_place(key, located, NewRows(rows, self._spark_fields(), self._stage))
        return self._rewrite_by_spark(key, plan, self._set)

    def _stage_in(self, staged: StagedTable, key: StatementKey | None) -> Committed:
        if not len(self._distinct):
            return Committed(0)
        plan = self._plan(whole=True)
        self._require_all(plan)
        self._check_new_rows(plan)
        located = plan.located
        is_possible = located is not None and located.is_whole and len(self._distinct) <= data_files.MAX_ROWS
        rows = self._new_rows(located) if located is not None and is_possible else None
        return self._stage_change(staged, key, located, rows)

    @property
    def _compares_keys(self) -> bool:
        return self._checks.has_keys

    def _require_all(self, plan: _Plan) -> None:
        missing = np.setdiff1d(self._distinct, plan.present)
        if len(missing):
            raise RowNotFoundError(int(missing[0]))

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

    def _check_new_rows(self, plan: _Plan) -> None:
        """Check the rows as they will be: those that the commit is based on with the new values."""
        if not self._checks.has_any:
            return
        self._checks.forget_keys()  # of a try that another writer has beaten
        for place, rows in enumerate(self._changed_rows(plan)):
            self._checks.add_evaluated(place, rows)
        self._checks.check_keys(plan.base, self._distinct)

    def _changed_rows(self, plan: _Plan) -> Iterator[pa.RecordBatch]:
        """Yield the rows as they will be: those of a plan with the new values."""
        located = self._decoded(plan.located) if plan.located and plan.located.is_whole else None
        for staged in self._stage.batches():
            ids = staged.column(self._id_column.logical).to_numpy()
            old = plan.base.rows_by_id(self._call, ids) if located is None else located
            rows = self._sorted_by_ids(old, ids)
            if rows.num_rows < len(ids):
                raise RowNotFoundError(int(np.setdiff1d(ids, rows.column(self._rowid).to_numpy())[0]))
            for column in self._set:
                index = rows.schema.get_field_index(column.exact.name)
                values = decode(staged.column(column.logical), column.exact)
                rows = rows.set_column(index, column.exact, values)
            yield rows.select(self._plain.names)

    def _decoded(self, located: Located) -> pa.Table:
        """Return located rows with the values that clients see."""
        stored = located.rows.select(self._shown.names).to_batches()
        batches = [rows for batch in stored for rows in decode_batches(batch, self._shown)]
        return pa.Table.from_batches(batches, self._shown)

    def _keep_last(self, ids: Ids) -> None:
        """Let the last value for a row win, as it would one batch at a time."""
        _, from_end = np.unique(ids[::-1], return_index=True)
        places = len(ids) - 1 - from_end
        self._held_rows.resize(2 * self._stage.bytes)
        self._stage = self._stage.replaced(self._stage.read().take(pa.array(places)))
        self._held_rows.release()
        self._ids = [ids[places]]


class DeleteStatement(RowIdStatement):
    """Removes the rows named by id; ids without a row are ignored."""

    operation = "DELETE"

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_columns != 1:
            raise SchemaMismatchError(f"DELETE takes only the row id, input has {batch.num_columns} columns")
        ids = self._checked_ids(batch.column(0))
        if self._returning:
            # A row goes once, so it is answered once.
            ids = ids[np.sort(np.unique(ids, return_index=True)[1])]
            ids = ids[~np.isin(ids, np.concatenate([*self._ids, NO_IDS]))]
        self._keep_ids(ids)
        return self._old_rows(ids) if self._returning else None

    def _stage_in(self, staged: StagedTable, key: StatementKey | None) -> Committed:
        plan = self._plan(whole=False)
        return self._stage_change(staged, key, plan.located, None) if len(plan.present) else Committed(0)

    def _readded_ids(self) -> Ids:
        return NO_IDS

    def _plan_change(self, key: StatementKey | None) -> Change | None:
        plan = self._plan(whole=False)
        if not len(plan.present):
            return None
        if plan.located is not None and self._can_change_in_place(plan, deletion_vector_update.MAX_DELETED):
            return self._change_in_place(key, plan.located, None)
        ids = pa.record_batch([pa.array(plan.present)], [self._id_column.logical])
        self._stage = self._stage.replaced(pa.Table.from_batches([ids]))
        return self._rewrite_by_spark(key, plan, [])
