"""Take back a commit of a transaction whose other commits can no longer be made.

The compensating commit removes the files that were added, and adds those again that were removed. It is made
only where all of them are still as the transaction has left them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from sparkport.errors import ConflictError
from sparkport.spark.commit.transaction_commit import UNDONE, TableCommit, mark
from sparkport.spark.delta.commit.log_writer import NewCommit, write_commit
from sparkport.spark.delta.files.file_actions import addition, removal
from sparkport.spark.delta.log.actions import DataFile, decode_file
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.storage.filesystem import resolve

_MAX_TRIES = 20
_VOID = -1  # what the log says of an idempotency key whose statement was undone


class _TouchedError(Exception):
    """Somebody has changed what the transaction has written."""


def undo(commit: TableCommit, number: int, log: DeltaLog) -> bool:
    """Take back a commit, unless it was not made, or is taken back already; others are kept out meanwhile.

    Return whether the table has nothing of the transaction now.
    """
    version = commit.version(number)
    if version is None or commit.version(number, UNDONE) is not None:
        return True
    before = log.snapshot(version - 1)
    for _ in range(_MAX_TRIES):
        newest = log.snapshot()
        try:
            actions = list(_compensation(commit, before, newest))
        except _TouchedError:
            return False
        new = NewCommit(
            commit.table,
            commit.root,
            newest.header,
            "RESTORE",
            {"version": str(before.version)},
            [*actions, mark(number, UNDONE)],
            dict.fromkeys(commit.keys, _VOID),
        )
        try:
            write_commit(new, is_locked=True)
        except ConflictError:  # a program without our locks has written again
            continue
        return True
    return False


def _compensation(commit: TableCommit, before: DeltaSnapshot, newest: DeltaSnapshot) -> Iterator[str]:
    """Yield the actions that lead from the newest version to what the transaction found."""
    if (
        newest.metadata.table_id != before.metadata.table_id
        or newest.metadata.fields != before.metadata.fields
    ):
        raise _TouchedError
    actions = [json.loads(text) for text in commit.actions]
    present, former = _by_path(newest), _by_path(before)
    added = [decode_file(action["add"], commit.root) for action in actions if "add" in action]
    removed = [resolve(commit.root, action["remove"]["path"]) for action in actions if "remove" in action]
    own = {file.path for file in added}
    for file in added:
        now = present.get(file.path)
        if now is None or now.vector_id != file.vector_id:
            raise _TouchedError
        yield removal(now)
    for path in removed:
        if path not in former or (path in present and path not in own):
            raise _TouchedError
        yield addition(former[path])


def _by_path(state: DeltaSnapshot) -> dict[str, DataFile]:
    return {file.path: file for file in state.files}
