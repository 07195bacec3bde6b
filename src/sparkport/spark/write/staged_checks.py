"""Evaluate the CHECKs of Delta's own on rows that a transaction has staged.

They are in Spark's SQL, and so Spark evaluates them, on the new files alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import ConstraintViolationError
from sparkport.spark.commit.staging import new_folder
from sparkport.spark.delta.commit.private_log import PrivateLog
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import total_rows
from sparkport.spark.engine import Engine
from sparkport.spark.model.constraints import delta_checks
from sparkport.spark.read.snapshot import TableSnapshot
from sparkport.spark.storage.temp_folders import hold


def check_new_files(call: Call, engine: Engine, base: TableSnapshot, files: Sequence[DataFile]) -> None:
    """Raise ConstraintViolationError if a row does not pass a CHECK: if it is false or NULL, as in Delta."""
    checks = delta_checks(base.metadata)
    if not checks or not files:
        return
    hold(engine.staging)
    log = PrivateLog(new_folder(engine.staging), base.log.root)

    def broken(session: SparkSession) -> str | None:
        rows = session.read.format("delta").load(log.folder)
        failing = (text for text in checks if not rows.where(f"NOT coalesce(({text}), false)").isEmpty())
        return next(failing, None)

    try:
        log.show(replace(base.state, files=tuple(files), row_count=total_rows(files)))
        found = engine.jobs.run(call, base.table, broken)
    finally:
        log.discard()
    if found is not None:
        raise ConstraintViolationError(f"CHECK ({found})", base.table)
