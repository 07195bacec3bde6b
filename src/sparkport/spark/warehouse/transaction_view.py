"""A table as a transaction sees it: the version that it began with and its own writes, not those of others.

Where only the transaction has written that is just a later version. Where others have written in between,
the files of the version are combined with those of its own commits, less the rows that do not belong there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from sparkport.spark.commit.conflicts import FinalConflictError
from sparkport.spark.delta.actions import DataFile
from sparkport.spark.delta.deletion_vectors import deleted_positions, inline_vector
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta.snapshots import DeltaSnapshot, total_rows
from sparkport.spark.read.snapshot import Located
from sparkport.spark.row_ids.ids import Ids
from sparkport.spark.warehouse.snapshots import OwnWrite, TableView

Locate = Callable[[DeltaSnapshot, Ids], Located | None]
"""Returns where the rows with these ids are in a snapshot, None if that cannot be told."""


def transaction_snapshot(table: str, log: DeltaLog, view: TableView, locate: Locate) -> DeltaSnapshot:
    """Return what a transaction sees. Raises FinalConflictError if that cannot be shown any more."""
    if not view.own:
        return log.snapshot(view.version)
    last = view.newest
    if view.is_alone:
        return log.snapshot(last)
    own = {write.version for write in view.own if write.is_certain}
    others = (version for version in range(view.version + 1, last + 1) if version not in own)
    if not any(log.changes_rows(version) for version in others):
        return log.snapshot(last)
    found = log.snapshot(view.version)
    if found.metadata.schema != log.snapshot(last).metadata.schema:
        raise lost(table)
    for write in view.own:
        found = _with_write(table, log, found, write, locate)
    return replace(found, own_writes=len(view.own), row_count=total_rows(found.files))


def _with_write(
    table: str, log: DeltaLog, found: DeltaSnapshot, write: OwnWrite, locate: Locate
) -> DeltaSnapshot:
    """Return a snapshot with one write more."""
    if write.changed is None:
        raise lost(table)
    before = {file.path for file in log.snapshot(write.version - 1).files}
    after = log.snapshot(write.version)
    new = replace(after, files=tuple(file for file in after.files if file.path not in before))
    kept = _located_files(table, found, write.changed, locate)
    files = [_without(file, log.root, kept.get(file.path)) for file in found.files]
    if write.added is None:
        files += new.files
    else:
        shown = _located_files(table, new, write.added, locate)
        files += [_only(file, log.root, shown[file.path]) for file in new.files if file.path in shown]
    return replace(found, files=tuple(file for file in files if file.row_count != 0))


def _located_files(table: str, found: DeltaSnapshot, ids: Ids, locate: Locate) -> dict[str, Ids]:
    """Return where the rows with these ids are, by the path of their files."""
    if not len(ids) or not found.files:
        return {}
    located = locate(found, ids)
    if located is None:
        raise lost(table)
    return {file.path: positions for file, positions in located.files()}


def _without(file: DataFile, root: str, positions: Ids | None) -> DataFile:
    return file if positions is None else _marked(file, [*_deleted(file, root), positions])


def _only(file: DataFile, root: str, positions: Ids) -> DataFile:
    assert file.physical_rows is not None
    others = np.setdiff1d(np.arange(file.physical_rows), positions, assume_unique=True)
    return _marked(file, [*_deleted(file, root), others]) if len(others) else file


def _deleted(file: DataFile, root: str) -> list[Ids]:
    return [] if file.deletion_vector is None else [deleted_positions(file.deletion_vector, root)]


def _marked(file: DataFile, deleted: Iterable[Ids]) -> DataFile:
    return replace(file, deletion_vector=inline_vector(np.unique(np.concatenate(list(deleted)))))


def lost(table: str) -> FinalConflictError:
    """Return the error for a table that a transaction cannot be shown any more."""
    return FinalConflictError(
        table, "others have changed it since the transaction began and wrote to it; begin a new transaction"
    )
