"""A table in memory."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicTable, RenameTable, TableChange
from sparkport.catalog.dml import Statement
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import with_rowid
from sparkport.catalog.scan import ScanOptions, Snapshot, TimePoint, TimeUnit
from sparkport.catalog.tables import ColumnStatistics, TableConstraints
from sparkport.errors import ConflictError, NotFoundError
from sparkport.memory.alter import PlannedAlteration, plan
from sparkport.memory.commits import MAX_TRIES, Commits
from sparkport.memory.predicates import filter_batch
from sparkport.memory.rows import RowIds, Segment
from sparkport.memory.statements import DeleteStatement, InsertStatement, UpdateStatement, with_row_ids
from sparkport.memory.transactions import MemoryTransactions
from sparkport.memory.versions import Change, History, TableState, Version
from sparkport.toolkit.bounded_cache import BoundedCache
from sparkport.toolkit.column_statistics import column_statistics
from sparkport.toolkit.repeats import Outcome, repeated
from sparkport.toolkit.whole_statements import WholeStatements

_SLICE_ROWS = 1_000_000
_MAX_SLICES = 8
_BATCH_ROWS = 65_536
_MAX_STATISTICS = 256
_UNLOCKED_TRIES = 3


class Owner(Protocol):
    """What a table needs of the schema it is in."""

    def rename_table(self, table: MemoryTable, new_name: str) -> None:
        """Rename a table. Raises AlreadyExistsError."""
        raise NotImplementedError

    def changed(self) -> None:
        """Count a change of the listing."""
        raise NotImplementedError

    def check_present(self, table: MemoryTable) -> None:
        """Raise NotFoundError if the table was dropped or replaced."""
        raise NotImplementedError


class MemoryTable(WholeStatements, DynamicTable):
    """A table in memory, as a list of versions, with all capabilities that a table can have.

    Reading takes no lock: versions are immutable. Writing stages first and takes
    the catalog's commit lock only to publish.
    """

    def __init__(
        self,
        name: str,
        state: TableState,
        owner: Owner,
        commits: Commits,
        transactions: MemoryTransactions,
        comment: str = "",
    ) -> None:
        self._name = name
        self._comment = comment
        self._owner = owner
        self._commits = commits
        self._transactions = transactions
        self._publishing = threading.Lock()  # taken before the commit lock
        self._next_id = 0
        self.table_id = secrets.token_hex(8)
        self.history = History(commits, state)
        self._statistics: BoundedCache[tuple[int, str, int], ColumnStatistics] = BoundedCache(_MAX_STATISTICS)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def comment(self) -> str:
        """The table's documentation."""
        return self._comment

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the newest version, with the row id last."""
        return with_rowid(self.history.newest.state.arrow_schema)

    @property
    def constraints(self) -> TableConstraints:
        """The constraints of the newest version."""
        return self.history.newest.state.constraints

    def snapshot(self, call: Call, time_point: TimePoint | None) -> Snapshot:
        """Pin the version that the call reads."""
        version = self._version(call, time_point)
        return Snapshot(
            version.pin(self.table_id), with_rowid(version.state.arrow_schema), version.state.rows.count
        )

    def slice_count(self, call: Call, options: ScanOptions) -> int:
        """Return into how many slices to cut the table, so that clients can read large ones in parallel."""
        rows = self._version(call, options.time_point).state.rows.count
        return max(1, min(_MAX_SLICES, rows // _SLICE_ROWS))

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Read one version: projected, filtered, cut to slice and limit."""
        call.check()
        state = self._version(call, options.time_point).state
        full = with_rowid(state.arrow_schema)
        names = full.names if options.columns is None else list(options.columns)
        projected = pa.schema([full.field(find_column(full, name)) for name in names], full.metadata)
        batches = _batches(call, state, options)
        # The filter may pass more rows than the client keeps, so the limit cannot be applied to them.
        limit = options.limit if options.filter is None else None
        return pa.RecordBatchReader.from_batches(
            projected, (batch.select(projected.names) for batch in _limit(batches, limit))
        )

    def column_statistics(self, call: Call, column: str) -> ColumnStatistics:
        """Return exact statistics of the version that the call reads."""
        version = self._version(call, None)
        index = find_column(version.state.arrow_schema, column)
        key = (version.number, version.label, index)
        result = self._statistics.get(key)
        if result is None:
            rows = version.state.rows.table(version.state.arrow_schema)
            result = column_statistics(rows.column(index))
            self._statistics.put(key, result)
        return result

    def alter(self, call: Call, change: TableChange) -> None:
        """Make one change as one version. Its expressions are evaluated without the commit lock."""
        if isinstance(change, RenameTable):
            self._rename(call, change)
            return
        planned: PlannedAlteration | None = None
        try:
            for attempt in range(MAX_TRIES):
                # After a few conflicts, keep the other writers of this table from committing.
                with (
                    call.holding(self._publishing) if attempt >= _UNLOCKED_TRIES else contextlib.nullcontext()
                ):
                    newest = self.history.newest.state
                    if planned is None or not planned.fits(newest):
                        self.check_present()
                        planned = plan(call, self._name, newest, change)
                    if planned is None or self._publish_alteration(call, planned, newest):
                        return
        finally:
            if planned is not None:
                planned.held.release()
        raise ConflictError(self._name, "other statements kept changing it")

    def _publish_alteration(self, call: Call, planned: PlannedAlteration, newest: TableState) -> bool:
        """Prepare a change for a state and publish it; return False if the state has changed meanwhile."""
        planned.prepare(call, newest.rows)
        with self._commits.lock:
            call.check()
            self.check_present()
            state = planned.apply(self.history.newest.state)
            if state is None:
                return False
            self.history.add(state)
            if planned.alteration.comment is not None:
                self._comment = planned.alteration.comment
            self._owner.changed()
            return True

    def _rename(self, call: Call, change: RenameTable) -> None:
        with self._commits.lock:
            call.check()
            self.check_present()
            self._owner.rename_table(self, change.new_name)
            self.history.add(self.history.newest.state)

    def begin_insert(self, call: Call, *, returning: bool) -> Statement:
        """Start an INSERT."""
        base = self._writable(call)
        done = _recorded_outcome(call, base)
        if done is not None:
            return repeated(call, done, InsertStatement.operation, returning=returning)
        return InsertStatement(call, self, base, returning=returning)

    def begin_update(self, call: Call, columns: tuple[str, ...], *, returning: bool) -> Statement:
        """Start an UPDATE."""
        base = self._writable(call)
        done = _recorded_outcome(call, base)
        if done is not None:
            return repeated(call, done, UpdateStatement.operation, columns, returning=returning)
        return UpdateStatement(call, self, base, columns, returning=returning)

    def begin_delete(self, call: Call, *, returning: bool) -> Statement:
        """Start a DELETE."""
        base = self._writable(call)
        done = _recorded_outcome(call, base)
        if done is not None:
            return repeated(call, done, DeleteStatement.operation, returning=returning)
        return DeleteStatement(call, self, base, returning=returning)

    def reserve_ids(self, count: int) -> RowIds:
        """Return row ids that were never used before."""
        with self._commits.lock:
            first = self._next_id
            self._next_id += count
        return np.arange(first, first + count, dtype=np.int64)

    def changes_by_others(self, call: Call, base: Version) -> list[Version]:
        """Return the versions that others committed since the call's transaction or client read the rows."""
        if call.if_version is not None and call.transaction_id is None:
            return self.history.since(self._read_version(call.if_version))
        return self._transactions.changes_by_others(call, self.history, base)

    def version_after(self, call: Call, newest: Version) -> str | None:
        """Return the snapshot that a client's rows may count as read from after a commit on `newest`."""
        if call.if_version is None or call.transaction_id is not None:
            return call.if_version
        since = self.history.since(self._read_version(call.if_version))
        if any(len(version.touched) for version in since if version.number <= newest.number):
            return call.if_version
        return f"{self.table_id}:{newest.number + 1}"

    def _read_version(self, if_version: str) -> Version:
        try:
            return self.history.at(TimePoint(TimeUnit.SNAPSHOT, if_version), self.table_id)
        except NotFoundError as error:
            raise ConflictError(self._name, "the rows were read from another table or version") from error

    def commit(self, call: Call, change: Change, held: Reservation) -> int:
        """Apply `change` to the newest version and publish the result, or stage it; return its count."""
        return self._commits.publish(
            call, lambda: self._commit(call, change, held), lambda: call.holding(self._publishing)
        )

    def _commit(self, call: Call, change: Change, held: Reservation) -> int:
        """Publish or stage a change; the caller holds the commit lock."""
        self.check_present()
        staged = self._transactions.stage(call, self, change, held)
        if staged is not None:
            return staged
        newest = self.history.newest
        seen = self._transactions.version(call, self.table_id, self.history)
        state, touched, changed = change(call, newest)
        private = None
        if seen.state is not newest.state and _have_same_columns(seen, newest):
            private, _, _ = change(call, seen)
        call.check()
        version = self.history.add(state, touched, writer=call.transaction_id, private=private)
        self._transactions.record_write(call, self.table_id, version)
        held.release()
        return changed

    def check_present(self) -> None:
        """Raise NotFoundError if the table was dropped or replaced."""
        self._owner.check_present(self)

    def _version(self, call: Call, time_point: TimePoint | None) -> Version:
        if time_point is not None:
            staged = self._transactions.staged_version(call, self.table_id, time_point)
            return staged or self.history.at(time_point, self.table_id)
        return self._transactions.version(call, self.table_id, self.history)

    def _writable(self, call: Call) -> Version:
        """Return the version a statement starts from, with the newest columns."""
        self._transactions.expirations()  # frees the memory that idle transactions hold
        version = self._version(call, None)
        newest = self.history.newest
        if _have_same_columns(version, newest):
            return version
        # The transaction's own ALTER carries no transaction id: continue with the altered table.
        return newest


def _recorded_outcome(call: Call, version: Version) -> Outcome | None:
    key = call.idempotency_key
    return None if key is None else version.state.outcomes.get(key)


def _have_same_columns(left: Version, right: Version) -> bool:
    return bool(left.state.arrow_schema.equals(right.state.arrow_schema))


def _batches(call: Call, state: TableState, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    count = state.rows.count
    start, stop = 0, count
    if options.slice is not None:
        if not 0 <= options.slice.index < options.slice.count:
            raise NotFoundError("slice", str(options.slice.index))
        start = count * options.slice.index // options.slice.count
        stop = count * (options.slice.index + 1) // options.slice.count
    size = options.batch_size or _BATCH_ROWS
    for segment in state.rows.slice(start, stop):
        for piece in _pieces(segment, size):
            call.check()
            yield filter_batch(with_row_ids(piece.batch, piece.row_ids), options.filter)


def _pieces(segment: Segment, size: int) -> Iterator[Segment]:
    for start in range(0, len(segment.row_ids), size):
        ids = segment.row_ids[start : start + size]
        yield Segment(segment.batch.slice(start, len(ids)), ids)


def _limit(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None or limit <= 0:
        yield from batches
        return
    for batch in batches:
        yield batch.slice(0, limit)
        limit -= batch.num_rows
        if limit <= 0:
            return
