"""Commits of data files: rows that are added, changed or removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from sparkport.errors import ConflictError
from sparkport.spark.delta.spark_fields import SparkField, struct_fields
from sparkport.spark.delta_jvm.bridge import DeltaJava
from sparkport.spark.delta_jvm.transaction import CommitResult, MakeRows, commit_actions


@dataclass(frozen=True, slots=True)
class FileChange:
    """What files become of those of a version: actions of the log, as JSON, and rows for new files.

    `noted` are the keys that the version has already. Another commit meanwhile is a conflict if it has
    removed or changed one of the same files, or has noted one of the keys. With `fits`, it is one too if the
    columns are no longer of these Spark types.
    """

    table: str
    root: str
    table_id: str
    version: int
    operation: str
    keys: Mapping[str, int]
    noted: Mapping[str, int]
    actions: Sequence[str] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    rows: MakeRows | None = None
    fits: Sequence[SparkField] = ()


def commit_files(change: FileChange, session: SparkSession) -> CommitResult:
    """Make the change in one commit, after whatever others have committed since its version.

    Writes no checkpoint, also when one is due. Raises ConflictError, and NotFoundError if another table has
    taken the place of this one.
    """
    if known := {key: change.noted[key] for key in change.keys if key in change.noted}:
        return CommitResult(known=known)
    java = DeltaJava(session)
    transaction = java.transaction(change.root, change.table_id, change.table, change.version)
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


def _check_fits(change: FileChange, transaction: Any) -> None:  # noqa: ANN401
    if not change.fits:
        return
    fields = struct_fields(json.loads(transaction.metadata().schemaString()))
    present = {field.name: field.type for field in fields}
    if any(present.get(field.name) != field.type for field in change.fits):
        raise ConflictError(change.table, "its columns were altered meanwhile")
