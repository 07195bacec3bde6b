"""Append staged rows to a table: in files that the server writes itself where it can, else by a Spark job."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.errors import NotFoundError
from sparkport.spark.commit.conflicts import OutdatedCheckError
from sparkport.spark.commit.idempotency import txn_entries
from sparkport.spark.commit.staged_frame import staged_rows
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.files.data_files import NewFile, can_write, discard, write_files
from sparkport.spark.delta.files.layout import layout_of
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType
from sparkport.spark.delta_jvm import file_commit
from sparkport.spark.delta_jvm.bridge import has_transactions
from sparkport.spark.delta_jvm.file_commit import FileChange
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.errors import is_refusal
from sparkport.toolkit.repeats import Outcome


@dataclass(frozen=True, slots=True)
class Append:
    """The staged rows of one or more statements, and the outcomes of those with an idempotency key.

    With a `checked_version` their keys were compared with that version, and are good for no other.
    """

    table: str
    table_id: str
    stages: list[Stage]
    fields: Sequence[SparkField]
    keys: Mapping[str, Outcome]
    checks: Sequence[Callable[[Metadata], None]] = ()
    checked_version: int | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(stage.rows for stage in self.stages)

    def fits(self, metadata: Metadata) -> bool:
        """Return whether the rows have exactly the columns of a version, and the same layout in files."""
        if _types(self.fields) != _types(metadata.fields):
            return False
        return all(stage.is_small or stage.layout == layout_of(metadata) for stage in self.stages)

    def read(self, session: SparkSession) -> DataFrame:
        """Return the rows as a DataFrame."""
        return staged_rows(self.fields, self.stages, session)


def append(log: DeltaLog, rows: Append, session: SparkSession | None) -> CommitResult:
    """Append all rows in one commit; if some keys are in the log already, return these and do nothing.

    Without a session the server does it alone. Raises SparkRequiredError if it cannot, and NotFoundError if
    another table has replaced the one that the rows are for.
    """
    newest = log.snapshot()
    if newest.metadata.table_id != rows.table_id:
        raise NotFoundError("table", rows.table)
    for check in rows.checks:
        check(newest.metadata)
    if rows.checked_version not in {None, newest.version}:
        raise OutdatedCheckError(rows.table, "another writer was faster")
    if session is not None and not has_transactions(session):
        _append_with_spark_writer(log.root, rows, session)
        return CommitResult()
    is_exact = rows.checked_version is not None
    change = FileChange(rows.table, log.root, newest, "WRITE", txn_entries(rows.keys), is_exact=is_exact)
    # A table that got a row id column since the rows were staged has one column more.
    if rows.fits(newest.metadata) and can_write(log.root, newest.protocol, newest.metadata):
        return _append_own_files(newest, rows, change, session)
    if session is None:
        raise SparkRequiredError(log.root, "its files are written by Spark")
    return file_commit.commit_files(replace(change, rows=rows.read, fits=rows.fields), session)


def _append_with_spark_writer(root: str, rows: Append, session: SparkSession) -> None:
    writer = rows.read(session).write.format("delta").mode("append")
    # Without access to Delta's transactions there is at most one key.
    for key, outcome in txn_entries(rows.keys).items():
        writer = writer.option("txnAppId", key).option("txnVersion", outcome)
    writer.save(root)


def _append_own_files(
    newest: DeltaSnapshot, rows: Append, change: FileChange, session: SparkSession | None
) -> CommitResult:
    files, withdraw = _publish_files(change.root, newest.metadata, rows)
    size = sum(file.path.stat().st_size for file in files)
    metrics = {"numFiles": len(files), "numOutputRows": rows.count, "numOutputBytes": size}
    actions = [file.action for file in files]
    try:
        result = file_commit.commit_files(replace(change, actions=actions, metrics=metrics), session)
    except Exception as error:
        if is_refusal(error) or (session is None and isinstance(error, OSError)):
            withdraw()
        raise
    if result.known:
        withdraw()
    return result


def _publish_files(root: str, metadata: Metadata, rows: Append) -> tuple[list[NewFile], Callable[[], None]]:
    """Put files with the rows into a table's folder; return them, and a function that removes them again."""
    first = rows.stages[0]
    if not first.is_small:  # and so the only one
        return first.publish(Path(root)), first.unpublish
    files = write_files(root, metadata, pa.concat_tables(stage.read() for stage in rows.stages))
    return files, functools.partial(discard, *(file.path for file in files))


def _types(fields: Sequence[SparkField]) -> dict[str, SparkType]:
    return {field.name: field.type for field in fields}
