"""Commits of data files: rows that are added, changed or removed.

Where there is nothing that only Delta can do, the server writes them to the log itself; a commit through
Delta's transaction takes ten times as long.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from sparkport.errors import ConflictError
from sparkport.spark.delta.commit.log_writer import NewCommit, can_commit, write_commit
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import SparkField, struct_fields
from sparkport.spark.delta_jvm.bridge import DeltaJava
from sparkport.spark.delta_jvm.transaction import CommitResult, MakeRows, commit_actions
from sparkport.spark.storage.filesystem import location_of


@dataclass(frozen=True, slots=True)
class FileChange:
    """What files become of those of a version: actions of the log, as JSON, and rows for new files.

    Another commit meanwhile is a conflict if it has removed or changed one of the same files, or has recorded
    one of the keys. With `fits`, it is one too if the columns are no longer of these Spark types, with
    `is_exact` if it has added files.
    """

    table: str
    root: str
    base: DeltaSnapshot
    operation: str
    keys: Mapping[str, int]
    actions: Sequence[str] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    rows: MakeRows | None = None
    fits: Sequence[SparkField] = ()
    is_exact: bool = False


def commit_files(change: FileChange, session: SparkSession | None) -> CommitResult:
    """Make the change in one commit, after whatever others have committed since its version.

    Without a session the server writes it by itself; raises SparkRequiredError if it must not.
    Writes no checkpoint, also when one is due. Raises ConflictError, and NotFoundError if another table has
    taken the place of this one.
    """
    recorded = change.base.transactions
    if known := {key: recorded[key] for key in change.keys if key in recorded}:
        return CommitResult(known=known)
    if session is None:
        return _commit_without_spark(change)
    # What the servers write themselves is kept out now; what another Spark commits at once is not.
    if change.is_exact and DeltaLog(change.root).newest_version() != change.base.version:
        raise ConflictError(change.table, "another writer was faster")
    java = DeltaJava(session)
    table_id, version = change.base.metadata.table_id, change.base.version
    transaction = java.transaction(change.root, table_id, change.table, version)
    _check_fits(change, transaction)
    java.watch(transaction, change.keys)
    actions = java.actions()
    actions.add_json(change.actions)
    if change.rows is not None:
        actions.add_files(transaction.writeFiles(change.rows(session)._jdf))  # noqa: SLF001
    for key, version in change.keys.items():
        actions.add_txn(key, version)
    java.register(transaction, change.metrics)
    java.leave_checkpoint(transaction)
    return commit_actions(change.root, transaction, actions, java.operation_of_rows(change.operation))


def _commit_without_spark(change: FileChange) -> CommitResult:
    base, root = change.base, location_of(change.root)
    if change.rows is not None or not can_commit(root, base.protocol, base.metadata):
        raise SparkRequiredError(root, "the server cannot make this commit")
    parameters = {"mode": "Append"} if change.operation == "WRITE" else {"predicate": "[]"}
    commit = NewCommit(
        change.table,
        root,
        base.header,
        change.operation,
        parameters,
        change.actions,
        change.keys,
        change.metrics,
        change.is_exact,
    )
    return CommitResult(write_commit(commit))


def _check_fits(change: FileChange, transaction: Any) -> None:  # noqa: ANN401
    if not change.fits:
        return
    fields = struct_fields(json.loads(transaction.metadata().schemaString()))
    present = {field.name: field.type for field in fields}
    if any(present.get(field.name) != field.type for field in change.fits):
        raise ConflictError(change.table, "its columns were altered meanwhile")
