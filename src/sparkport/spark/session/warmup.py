"""Work that nobody waits for: it loads the classes and starts the workers that the first call needs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from sparkport.spark.delta.files import data_files
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta_jvm.bridge import has_transactions
from sparkport.spark.delta_jvm.file_commit import FileChange, commit_files

_log = structlog.get_logger("sparkport.spark")


def warm_up(session: SparkSession, tasks: int, folder: str | None, is_wanted: Callable[[], bool]) -> None:
    """Run a small job of each kind for as long as `is_wanted()`, which may wait for calls to end.

    `folder` is for a small Delta table; without it, as where the executors are on
    other machines, Delta stays cold.
    """
    steps: list[Callable[[], None]] = [lambda: _python(session, tasks), lambda: _query(session)]
    if folder is not None:
        steps.append(lambda: _delta(session, folder))
    for step in steps:
        if not is_wanted():
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001  (without it all works, only slower at first)
            if is_wanted():
                _log.warning("Spark was not warmed up", reason=type(error).__name__)
            return


def _query(session: SparkSession) -> None:
    session.range(10).selectExpr("sum(id)").collect()


def _python(session: SparkSession, tasks: int) -> None:
    # A lambda travels by value: executors need not have this module.
    session.range(0, tasks, 1, tasks).mapInArrow(lambda batches: batches, "id bigint").collect()


def _delta(session: SparkSession, folder: str) -> None:
    path = f"{folder}/warm-up"
    session.range(1).write.format("delta").mode("append").save(path)
    session.read.format("delta").load(path).collect()
    if has_transactions(session):
        _commit(session, path)


def _commit(session: SparkSession, path: str) -> None:
    """Append a row as those INSERTs do whose commit is left to Delta."""
    newest = DeltaLog(path).snapshot()
    rows = pa.table({"id": pa.array([1], pa.int64())})
    actions = [file.action for file in data_files.write_files(path, newest.metadata, rows)]
    metrics = {"numFiles": 1, "numOutputRows": 1}
    change = FileChange("warm-up", path, newest, "WRITE", {}, actions, metrics)
    commit_files(change, session)
