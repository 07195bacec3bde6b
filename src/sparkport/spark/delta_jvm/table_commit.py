"""Commits that replace or rename a whole table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from sparkport.spark.delta.log.spark_fields import SparkField, struct_json
from sparkport.spark.delta_jvm.bridge import DeltaJava, has_transactions


def replace(
    root: str,
    fields: Iterable[SparkField],
    comment: str,
    configuration: Mapping[str, str],
    session: SparkSession,
) -> None:
    """Put an empty table of other columns in the place of one; its history goes on."""
    java = DeltaJava(session)
    transaction = java.newest_transaction(root)
    old = transaction.metadata()
    new = old.copy(
        str(uuid.uuid4()),
        None,
        comment or None,
        old.format(),
        json.dumps(struct_json(fields)),
        java.empty,
        java.properties(configuration),
        old.createdTime(),
    )
    transaction.updateMetadataForNewTableInReplace(new)
    actions = java.actions()
    actions.remove_all(transaction)
    is_managed, or_creates, as_select = False, False, False
    unknown = [java.none] * 7
    operation = java.operation("ReplaceTable", new, is_managed, or_creates, as_select, *unknown)
    transaction.commit(actions.sequence(), operation)


def rename(root: str, name: str, session: SparkSession) -> None:
    """Note a table's new name in its log: renaming is a version like every other statement.

    Over Spark Connect it is none, for SQL cannot say it.
    """
    if not has_transactions(session):
        return
    java = DeltaJava(session)
    transaction = java.newest_transaction(root)
    old = transaction.metadata()
    transaction.updateMetadata(java.metadata_named(old, name), False)
    transaction.commit(java.empty, java.operation("UpdateSchema", old.schema(), old.schema()))
