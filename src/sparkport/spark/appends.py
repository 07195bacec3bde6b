"""Staged rows become part of a table: a few in a file by the server itself, many by a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.errors import ConflictError, InvalidRequestError, PreconditionError
from sparkport.spark import log_changes
from sparkport.spark.delta import data_files
from sparkport.spark.delta.actions import Metadata
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.delta.snapshots import DeltaSnapshot
from sparkport.spark.delta_java import has_transactions
from sparkport.spark.keyed import application, noted
from sparkport.spark.log_changes import FileChange
from sparkport.spark.staged_rows import staged_rows
from sparkport.spark.staging import Stage


@dataclass(frozen=True, slots=True)
class Append:
    """Rows of some statements, each with a stage of its own, and the keys of those that have one."""

    table: str
    stages: list[Stage]
    fields: list[dict[str, Any]]
    keys: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(stage.rows for stage in self.stages)

    def fits(self, metadata: Metadata) -> bool:
        """Tell whether the rows have all columns of a version, and no others."""
        return _types(self.fields) == _types(metadata.schema["fields"])

    def read(self, session: SparkSession) -> DataFrame:
        """Return the rows as Spark sees them."""
        return staged_rows(self.fields, [str(stage.folder) for stage in self.stages], session)


def append(log: DeltaLog, rows: Append, session: SparkSession) -> dict[str, int]:
    """Append all in one commit; if some keys are in the log already, return these and do nothing."""
    if not has_transactions(session):
        _by_writer(log.root, rows, session)
        return {}
    found = log.snapshot()
    is_small = "://" not in log.root and rows.count <= data_files.MOST_ROWS
    # A table that was adopted since the rows were staged has a column more.
    if is_small and rows.fits(found.metadata) and data_files.can_write(found.protocol, found.metadata):
        return _by_server(log.root, found, rows, session)
    if not rows.keys:
        _by_writer(log.root, rows, session)
        return {}
    known = log_changes.append(
        log.root, found.version, rows.read(session), noted(rows.keys), found.transactions, session
    )
    return {key: known[application(key)] for key in rows.keys if application(key) in known}


def _by_writer(root: str, rows: Append, session: SparkSession) -> None:
    writer = rows.read(session).write.format("delta").mode("append")
    for key, affected in noted(rows.keys).items():  # one at most, where Delta's transactions are out of reach
        writer = writer.option("txnAppId", key).option("txnVersion", affected)
    writer.save(root)


def _by_server(root: str, found: DeltaSnapshot, rows: Append, session: SparkSession) -> dict[str, int]:
    staged = pa.concat_tables(stage.read() for stage in rows.stages)
    written = data_files.write_file(root, found.metadata, staged)
    metrics = {"numFiles": 1, "numOutputRows": rows.count, "numOutputBytes": written.path.stat().st_size}
    actions, keys = [written.action], noted(rows.keys)
    change = FileChange(rows.table, root, found.version, actions, "WRITE", metrics, keys, found.transactions)
    try:
        known = log_changes.commit_files(change, session)
    except (ConflictError, InvalidRequestError, PreconditionError):
        # After any other error nobody knows whether the commit has landed.
        data_files.discard(written.path)
        raise
    if known:
        data_files.discard(written.path)
    return {key: known[application(key)] for key in rows.keys if application(key) in known}


def _types(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in fields}
