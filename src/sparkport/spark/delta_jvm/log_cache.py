"""What Delta keeps of logs: their checkpoints on disk, and what it remembers of them in memory."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sparkport.spark.delta_jvm.bridge import DeltaJava, has_transactions


def checkpoint(root: str, session: SparkSession) -> None:
    """Write a checkpoint of the newest version, and remove what Delta keeps no longer of the log."""
    DeltaJava(session).checkpoint(root)


def forget(root: str, session: SparkSession) -> None:
    """Let Spark forget a folder: another table may come to its place."""
    if has_transactions(session):
        DeltaJava(session).forget(root)
