"""The base of all statements, and INSERT: rows are staged as they arrive, then committed at once."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from sparkport.arrow.conform import batch_of, conform_batch
from sparkport.catalog.call import Call
from sparkport.catalog.rowid import rowid_name, with_rowid, without_rowid
from sparkport.errors import ConflictError, NotFoundError
from sparkport.expressions.constraints import check_not_null
from sparkport.spark.commit.conflicts import FinalConflictError, OutdatedCheckError, retry_on_conflict
from sparkport.spark.commit.group_commit import CommitQueue, Committed
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.files.data_files import can_write
from sparkport.spark.delta.files.layout import Layout, layout_of
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.errors import writing
from sparkport.spark.model.columns import ROWID_KEY, TableColumn, table_columns
from sparkport.spark.model.constraints import own_constraints
from sparkport.spark.model.schema_evolution import without_metadata
from sparkport.spark.row_ids.ids import NO_IDS, Ids
from sparkport.spark.row_ids.provisional import OF_NO_FILE
from sparkport.spark.sql_names import staged_name
from sparkport.spark.types import encode
from sparkport.spark.versions import TableVersions
from sparkport.spark.warehouse.snapshots import OwnWrite
from sparkport.spark.write.constraint_checks import RowChecks, UncheckedRowsError
from sparkport.spark.write.staged_table import StagedTable, staged_table
from sparkport.toolkit.repeats import StatementKey, check_returnable
from sparkport.toolkit.staged_statement import StagedStatement

_MAX_TRIES = 5
_MAX_KEY_TRIES = 8


class SparkStatement(StagedStatement):
    """Keeps rows out of sight until `commit`."""

    def __init__(
        self,
        call: Call,
        table: TableVersions,
        *,
        returning: bool,
        columns: tuple[str, ...] = (),
    ) -> None:
        super().__init__(call, returning=returning, columns=columns)
        engine = table.engine
        self._table = table
        self._name = table.name
        self._path = str(table)
        self._transactions = engine.transactions
        self._transactions.check(call)
        self._root = table.root
        self._metadata = table.header().metadata
        self._commits: CommitQueue = engine.commits(table.root, self._metadata.table_id, self._path)
        self._row_ids = engine.row_ids(table.root, self._metadata.table_id)
        self._constraints = own_constraints(self._metadata)
        self._columns = table_columns(self._metadata)
        self._shown = pa.schema([column.exact for column in self._columns])
        self._plain = without_rowid(self._shown)
        self._stage = Stage(engine.staging)
        self._staged = staged_table(call, table, self.operation)

    def commit(self) -> int:
        """Make everything staged visible in one commit."""
        self._check_open()
        self._is_finished = True
        key = self._keys.key()
        try:
            with writing():
                self._stage.close()
                self._transactions.check(self._call)
                committed = self._commit_with_retries(key)
            if committed.affected and self._staged is None:
                version = committed.version
                write = None if version is None else self._own_write(committed, version)
                self._table.wrote(self._call, write)
                self._version = self._table.version_after(self._call, version)
        finally:
            self._stage.remove()
        return committed.affected

    def abort(self) -> None:
        """Forget what was staged."""
        self._is_finished = True
        self._stage.remove()

    def _commit_with_retries(self, key: StatementKey | None) -> Committed:
        """Evaluate what has to be evaluated, then commit; again if others have changed the rows meanwhile."""
        for _ in range(_MAX_TRIES):
            self._call.check()
            self._prepare()
            try:
                if self._staged is not None:
                    with self._transactions.changing(self._call):
                        return self._stage_once(self._staged, key)
                with self._table.lock.shared(self._call), self._commits.for_key(self._call, key):
                    return self._commit_once(key)
            except UncheckedRowsError:
                continue
        raise FinalConflictError(self._name, "other statements kept changing the same rows")

    def _prepare(self) -> None:
        """Do what takes long and can be done while others commit."""

    def _commit_once(self, key: StatementKey | None) -> Committed:
        """Commit, unless another statement with the same key has done so meanwhile."""
        self._check_same_table(self._table.header().metadata)
        done = self._commits.outcome(key)
        if done is not None:
            check_returnable(done, returning=self._returning)
            return Committed(done)
        return self._apply(key)

    def _stage_once(self, staged: StagedTable, key: StatementKey | None) -> Committed:
        """Add the statement to its transaction, unless one with the same key is there."""
        done = staged.outcome(key)
        if done is not None:
            check_returnable(done, returning=self._returning)
            return Committed(done)
        return self._stage_in(staged, key)

    @abstractmethod
    def _stage_in(self, staged: StagedTable, key: StatementKey | None) -> Committed:
        """Add the statement to what its transaction has staged."""
        raise NotImplementedError

    @abstractmethod
    def _apply(self, key: StatementKey | None) -> Committed:
        """Commit."""
        raise NotImplementedError

    @abstractmethod
    def _own_write(self, committed: Committed, version: int) -> OwnWrite:
        """Return what the transaction of the statement has to know of its commit."""
        raise NotImplementedError

    def _check_same_table(self, newest: Metadata) -> None:
        """Refuse to write to a table that was dropped, replaced or renamed since the statement began."""
        if self._table.root != self._root or newest.table_id != self._metadata.table_id:
            raise NotFoundError("table", self._path)

    def _check_same_columns(self, newest: Metadata) -> None:
        if (
            _plain_fields(newest) != _plain_fields(self._metadata)
            or own_constraints(newest) != self._constraints
        ):
            raise FinalConflictError(self._name, "its columns were altered meanwhile")

    def _spark_fields(self) -> list[SparkField]:
        """Return how Spark reads what is staged for all columns."""
        fields = {field.name: field for field in self._metadata.fields}
        return [without_metadata(fields[column.logical]) for column in self._columns]

    def _store(self, columns: list[TableColumn], arrays: list[pa.Array]) -> None:
        stored = [encode(array, column.exact) for array, column in zip(arrays, columns, strict=True)]
        self._stage.add(pa.RecordBatch.from_arrays(stored, [column.logical for column in columns]))


def _plain_fields(metadata: Metadata) -> list[SparkField]:
    """Return the columns but for the ids: a table may have been adopted meanwhile."""
    return [field for field in metadata.fields if ROWID_KEY not in field.metadata]


def _own_layout(table: TableVersions, metadata: Metadata) -> Layout | None:
    """Return how many new rows lie in files of a table, None if Spark is to write these."""
    has_transactions = table.engine.capabilities.delta_transactions
    if not has_transactions or not can_write(table.root, table.header().protocol, metadata):
        return None
    layout = layout_of(metadata)
    # Should the table be changed meanwhile, Spark reads the files, and must not take names apart.
    is_readable = all(staged_name(name) == name for name in layout.names_in_files)
    return layout if layout.is_flat and is_readable else None


class InsertStatement(SparkStatement):
    """Appends rows under fresh ids."""

    operation = "INSERT"

    def __init__(self, call: Call, table: TableVersions, *, returning: bool) -> None:
        super().__init__(call, table, returning=returning)
        self._stage = Stage(table.engine.staging, _own_layout(table, self._metadata))
        self._checks = RowChecks(call, table.name, self._constraints)
        self._answered = 0
        self._fresh: list[Ids] = []

    def _stage_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        rows = conform_batch(batch, self._plain)
        check_not_null(self._table.name, rows, self._plain)
        self._checks.add(rows)
        arrays = list(rows.columns)
        if len(self._shown) > len(self._plain):
            ids = self._row_ids.take(rows.num_rows)
            if self._stage.is_small:
                self._fresh.append(ids)
            arrays.append(pa.array(ids))
        if rows.num_rows:
            self._store(list(self._columns), arrays)
        if not self._returning:
            return None
        if (
            len(self._shown) == len(self._plain)
            and rowid_name(self._table.arrow_schema(self._table.header())) is not None
        ):
            arrays.append(pa.array(OF_NO_FILE - self._answered - np.arange(rows.num_rows)))
            self._answered += rows.num_rows
            return batch_of(arrays, with_rowid(self._shown), rows.num_rows)
        return batch_of(arrays, self._shown, rows.num_rows)

    def _apply(self, key: StatementKey | None) -> Committed:
        if not self._stage.rows:
            return Committed(0)
        plain = self._spark_fields()
        if not self._checks.has_keys:
            self._check_same_columns(self._table.newest().metadata)
            return self._commits.append(self._call, key, self._stage, plain, self._check_same_columns)
        with self._commits.exclusive(self._call):
            return retry_on_conflict(
                self._call, lambda _: self._append_checked(key, plain), max_tries=_MAX_KEY_TRIES
            )

    def _append_checked(self, key: StatementKey | None, fields: list[SparkField]) -> Committed:
        """Compare the keys with those of the newest version, and append to that version alone."""
        newest = self._table.newest()
        self._check_same_columns(newest.metadata)
        self._checks.check_keys(newest)
        try:
            return self._commits.append(
                self._call, key, self._stage, fields, self._check_same_columns, newest.version
            )
        except OutdatedCheckError as error:
            raise ConflictError(self._name, "another server was faster each time") from error

    def _stage_in(self, staged: StagedTable, key: StatementKey | None) -> Committed:
        if not self._stage.rows:
            return Committed(0)
        self._checks.check_keys(staged.view())
        staged.add(self._call, self.operation, staged.take_files(self._stage), None, self._stage.rows, key)
        return Committed(self._stage.rows)

    def _own_write(self, committed: Committed, version: int) -> OwnWrite:
        if committed.is_alone:
            return OwnWrite(version, NO_IDS)
        # Small statements share files: what of them is its own can be told by the ids.
        has_ids = len(self._shown) > len(self._plain)
        return OwnWrite(version, NO_IDS if has_ids else None, np.concatenate([*self._fresh, NO_IDS]))
