"""Build the snapshot that a transaction sees: the version it began with plus its own writes.

If only the transaction has written, that is a later version of the table. If others have written in between,
the files of the first version are combined with those of its own commits, without the rows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.delta.files.deletion_vectors import deleted_positions, inline_vector
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot, total_rows
from sparkport.spark.read.snapshot import Located
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.warehouse.snapshots import OwnWrite, TableView

Locate = Callable[[DeltaSnapshot, Ids], Located | None]
"""Returns the positions of the rows with these ids in a snapshot, None if they cannot be found out."""


def transaction_snapshot(table: str, log: DeltaLog, view: TableView, locate: Locate) -> DeltaSnapshot:
    """Return what a transaction sees. Raises FinalConflictError if it can no longer be built."""
    if not view.own:
        return log.snapshot(view.version)
    last = view.newest
    if view.is_alone:
        return log.snapshot(last)
    own = {write.version for write in view.own if write.is_certain}
    others = (version for version in range(view.version + 1, last + 1) if version not in own)
    if not any(log.changes_rows(version) for version in others):
        return log.snapshot(last)
    snapshot = log.snapshot(view.version)
    if snapshot.metadata.fields != log.snapshot(last).metadata.fields:
        raise view_conflict(table)
    for write in view.own:
        snapshot = _with_write(table, log, snapshot, write, locate)
    return replace(snapshot, own_writes=len(view.own), row_count=total_rows(snapshot.files))


def _with_write(
    table: str, log: DeltaLog, snapshot: DeltaSnapshot, write: OwnWrite, locate: Locate
) -> DeltaSnapshot:
    """Return a snapshot with the rows of one more write."""
    if write.changed is None:
        raise view_conflict(table)
    before = {file.path for file in log.snapshot(write.version - 1).files}
    after = log.snapshot(write.version)
    new = replace(after, files=tuple(file for file in after.files if file.path not in before))
    changed = _positions_by_file(table, snapshot, write.changed, locate)
    files = [without_rows(file, log.root, changed.get(file.path)) for file in snapshot.files]
    if write.added is None:
        files += new.files
    else:
        added = _positions_by_file(table, new, write.added, locate)
        files += [_only(file, log.root, added[file.path]) for file in new.files if file.path in added]
    return replace(snapshot, files=tuple(file for file in files if file.row_count != 0))


def _positions_by_file(table: str, snapshot: DeltaSnapshot, ids: Ids, locate: Locate) -> dict[str, Ids]:
    """Return the positions of the rows with these ids, by the path of their files."""
    if not len(ids) or not snapshot.files:
        return {}
    located = locate(snapshot, ids)
    if located is None:
        raise view_conflict(table)
    return {file.path: positions for file, positions in located.files()}


def without_rows(file: DataFile, root: str, positions: Ids | None) -> DataFile:
    """Return a file less the rows at some positions, which it still has; None are no rows."""
    return file if positions is None else _with_deleted(file, [*_deleted(file, root), positions])


def _only(file: DataFile, root: str, positions: Ids) -> DataFile:
    assert file.physical_rows is not None
    others = np.setdiff1d(np.arange(file.physical_rows), positions, assume_unique=True)
    return _with_deleted(file, [*_deleted(file, root), others]) if len(others) else file


def _deleted(file: DataFile, root: str) -> list[Ids]:
    return [] if file.deletion_vector is None else [deleted_positions(file.deletion_vector, root)]


def _with_deleted(file: DataFile, deleted: Iterable[Ids]) -> DataFile:
    return replace(file, deletion_vector=inline_vector(np.unique(np.concatenate(list(deleted)))))


def view_conflict(table: str) -> FinalConflictError:
    """Return the error for a table whose snapshot a transaction can no longer see."""
    return FinalConflictError(
        table, "others have changed it since this transaction wrote to it; begin a new transaction"
    )
