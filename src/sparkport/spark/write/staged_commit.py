"""Commit what a transaction has staged: all tables or none.

Each table is compared by row with what others have committed since the version that the transaction sees, and
its changes are moved to the newest version. While the commits are made nobody else commits to these tables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import ConflictError, NotFoundError
from sparkport.spark.commit.conflicts import Basis, FinalConflictError
from sparkport.spark.commit.folder_lock import shared
from sparkport.spark.commit.idempotency import txn_entries
from sparkport.spark.commit.journal import Journal
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.commit.log_lock import holding_logs
from sparkport.spark.delta.commit.log_writer import can_commit
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.features import Work
from sparkport.spark.delta.files.data_files import NewFile
from sparkport.spark.delta.files.deletion_vectors import deleted_positions, inline_vector, write_vectors
from sparkport.spark.delta.files.file_actions import addition, removal, shrunk_file
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import total_rows
from sparkport.spark.engine import Engine
from sparkport.spark.errors import writing
from sparkport.spark.model.constraints import own_constraints
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.row_ids.ids import NO_IDS, Ids
from sparkport.spark.warehouse.snapshots import StagedChanges
from sparkport.spark.write.conflict_detection import is_untouched
from sparkport.spark.write.constraint_checks import RowChecks
from sparkport.spark.write.deletion_vector_update import has_vectors
from sparkport.spark.write.staged_rewrite import rewritten
from sparkport.spark.write.staged_table import StagedTable, check_same_columns

_MAX_TRIES = 4
_TOUCHED = "another transaction changed the same rows"


def publish(engine: Engine, journal: Journal, call: Call, changes: Sequence[StagedChanges]) -> None:
    """Commit what was staged for some tables. Raises ConflictError, ConstraintViolationError, NotFoundError.

    The comparison is made before others are kept out, and again should somebody have committed meanwhile; the
    last time while they are out.
    """
    tables = [staged for staged in changes if isinstance(staged, StagedTable)]
    tables.sort(key=lambda staged: staged.root)
    journal.await_complete(call)
    with contextlib.ExitStack() as held, writing():
        for staged in tables:
            commits = engine.commits(staged.root, staged.table_id, str(staged.table))
            held.enter_context(staged.table.lock.shared(call))
            held.enter_context(commits.exclusive(call))
            held.enter_context(shared(staged.root, str(staged.table)))
        _publish_when_current(journal, call, tables)
    for staged in tables:
        staged.table.make_durable()


def _publish_when_current(journal: Journal, call: Call, tables: Sequence[StagedTable]) -> None:
    logs = [staged.base.log.root for staged in tables]
    for number in range(_MAX_TRIES):
        ready = [_rebased(call, staged) for staged in tables]
        try:
            with holding_logs(logs, call.check):
                if number == _MAX_TRIES - 1:
                    ready = [one if one.is_current else _rebased(call, one.staged) for one in ready]
                if not journal.awaits(logs) and all(one.is_current for one in ready):
                    commits = [commit for one in ready if (commit := one.commit()).is_needed]
                    call.check()  # from here on it is done
                    if commits:
                        journal.publish(call, commits)
                    return
        except SparkRequiredError as error:
            raise ConflictError(tables[0].table.name, str(error)) from error
        journal.await_complete(call)
    raise ConflictError(tables[0].table.name, "other writers were faster each time")


@dataclass(frozen=True, slots=True)
class _Rebased:
    """What was staged for a table, and where the rows that it changes are in a later version.

    `marked` are files of that version, each with the positions of all rows that it has deleted then.
    """

    staged: StagedTable
    newest: TableSnapshot
    marked: Sequence[tuple[DataFile, Ids]]
    rest: Sequence[NewFile] | None = None
    """What is left of files from which rows were deleted, for a table without deletion vectors."""

    @property
    def is_current(self) -> bool:
        """Whether nobody has committed since."""
        return self.staged.base.log.newest_version() == self.newest.version

    def commit(self) -> TableCommit:
        """Write the deletion vectors beside the new files, and return the commit to make."""
        staged = self.staged
        own, shrunk = staged.own_files(), _shrunk(staged, self.marked)
        actions = [removal(file) for file, _ in self.marked]
        if self.rest is not None:
            own = [file for file in own if file.deletion_vector is None]
            actions += [file.action for file in self.rest]
        files = [Path(file.path).name for file in own] + [file.path.name for file in self.rest or ()]
        if shrunk and self.rest is None:
            vectors_file, vectors = write_vectors(staged.made_folder(), [gone for _, gone in shrunk])
            files.append(vectors_file.name)
            pairs = zip(shrunk, vectors, strict=True)
            actions += [shrunk_file(file, vector.logged) for (file, _), vector in pairs]
        actions += [addition(file) for file in own if file.deletion_vector is None]
        operations = {write.operation for write in staged.writes}
        operation = operations.pop() if len(operations) == 1 else "MERGE"
        operation = "WRITE" if operation == "INSERT" else operation
        keys = {one.key.name: one.key.outcome(one.affected) for one in staged.writes if one.key}
        return TableCommit(
            table=str(staged.table),
            root=staged.base.log.root,
            table_id=staged.table_id,
            base_version=self.newest.version,
            operation=operation,
            parameters={"mode": "Append"} if operation == "WRITE" else {"predicate": "[]"},
            actions=actions,
            keys=txn_entries(keys),
            metrics={"numAddedFiles": len(own), "numDeletionVectorsAdded": len(shrunk)},
            folder=staged.folder,
            files=files,
        )


def _rebased(call: Call, staged: StagedTable) -> _Rebased:
    """Compare what was staged with the newest version, and find its rows there."""
    table = staged.table
    if table.root != staged.root or table.table_id != staged.table_id:
        raise NotFoundError("table", str(table))
    newest = table.newest()
    check_same_columns(table, staged.base.metadata, newest.metadata)
    if not can_commit(staged.root, newest.state.protocol, newest.metadata, work=Work.APPEND_CHECKED):
        raise FinalConflictError(table.name, "its properties were changed meanwhile")
    between = range(staged.base.version + 1, newest.version + 1)
    if staged.is_exact and any(map(newest.log.changes_rows, between)):
        raise FinalConflictError(table.name, "others have written to it meanwhile")
    staged = staged.without_repeated(newest.state)
    marked = _marked_in_newest(call, staged, newest)
    if newest.version != staged.base.version:
        _check_keys(call, staged, newest)
    if has_vectors(newest.state.protocol, newest.metadata):
        return _Rebased(staged, newest, marked)
    left = [replace(file, deletion_vector=inline_vector(gone)) for file, gone in _shrunk(staged, marked)]
    return _Rebased(
        staged, newest, marked, rewritten(call, newest, left, staged.made_folder()) if left else ()
    )


def _shrunk(staged: StagedTable, marked: Sequence[tuple[DataFile, Ids]]) -> list[tuple[DataFile, Ids]]:
    """Return the files that keep some of their rows, those of the transaction itself too, less the others."""
    shrunk = [(file, gone) for file, gone in marked if len(gone) < (file.physical_rows or 0)]
    vectors = [(file, file.deletion_vector) for file in staged.own_files()]
    return shrunk + [
        (file, deleted_positions(one, staged.base.log.root)) for file, one in vectors if one is not None
    ]


def _marked_in_base(staged: StagedTable) -> list[tuple[DataFile, Ids]]:
    """Return the files of the version that the transaction sees in which it has deleted rows."""
    root = staged.base.log.root
    left = {file.path: file for file in staged.state().files}
    marked = []
    for file in staged.base.state.files:
        now = left.get(file.path)
        if now is None:
            marked.append((file, np.arange(file.physical_rows or 0)))
        elif now.deletion_vector is not None and now.vector_id != file.vector_id:
            marked.append((file, deleted_positions(now.deletion_vector, root)))
    return marked


def _marked_in_newest(call: Call, staged: StagedTable, newest: TableSnapshot) -> list[tuple[DataFile, Ids]]:
    """Return the same of a later version. Raises FinalConflictError if others changed one of the rows.

    A file never changes: in one that is still there a row is as it was unless it is deleted.
    """
    root = newest.log.root
    present = {file.path: file for file in newest.state.files}
    marked, moved = [], []
    for file, deleted in _marked_in_base(staged):
        now = present.get(file.path)
        if now is None:
            moved.append(file)
        elif now.vector_id == file.vector_id:
            marked.append((now, deleted))
        else:
            own, theirs = np.setdiff1d(deleted, _deleted(file, root)), _deleted(now, root)
            if len(np.intersect1d(own, theirs)):
                raise FinalConflictError(staged.table.name, _TOUCHED)
            marked.append((now, np.union1d(theirs, own)))
    return marked + _found_again(call, staged, newest, moved) if moved else marked


def _found_again(
    call: Call, staged: StagedTable, newest: TableSnapshot, touched: Sequence[DataFile]
) -> list[tuple[DataFile, Ids]]:
    """Return where the changed rows are in a later version. Raises FinalConflictError if they are not."""
    ids = _committed_ids(call, staged, touched)
    if not is_untouched(call, staged.table, ids, Basis(staged.base.version), newest.version):
        raise FinalConflictError(staged.table.name, _TOUCHED)
    held = Reservation(call.resources.rows)
    try:
        located = newest.locate(call, ids, held, max_bytes=0)
        if located is None or located.rows.num_rows != len(ids):
            raise FinalConflictError(staged.table.name, _TOUCHED)
        return [
            (file, np.union1d(_deleted(file, newest.log.root), places)) for file, places in located.files()
        ]
    finally:
        held.release()


def _committed_ids(call: Call, staged: StagedTable, touched: Sequence[DataFile]) -> Ids:
    """Return the ids of the rows that the transaction has changed and not added itself."""
    changed = np.unique(np.concatenate([NO_IDS, *(write.changed for write in staged.writes)]))
    state = replace(staged.base.state, files=tuple(touched))
    held = Reservation(call.resources.rows)
    try:
        located = replace(staged.base, state=state).locate(call, changed, held, max_bytes=0)
        assert located is not None
        return np.sort(located.rows.column(staged.base.columns[-1].stored.name).to_numpy())
    finally:
        held.release()


def _deleted(file: DataFile, root: str) -> Ids:
    return NO_IDS if file.deletion_vector is None else deleted_positions(file.deletion_vector, root)


def _check_keys(call: Call, staged: StagedTable, newest: TableSnapshot) -> None:
    """Compare the keys of new rows with those that others have committed. Raises ConstraintViolationError."""
    checks = RowChecks(call, staged.table.name, own_constraints(newest.metadata))
    own = tuple(staged.own_files())
    if not checks.has_keys or not own:
        return
    rows = replace(staged.base, state=replace(staged.state(), files=own, row_count=total_rows(own)))
    for batch in rows.scan(call.outside_transaction(), ScanOptions(columns=checks.key_columns)):
        checks.keep_keys(batch)
    changed = np.concatenate([NO_IDS, *(write.changed for write in staged.writes)])
    checks.check_keys(newest, changed)
