"""Commits that give row ids to existing rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.delta_jvm.bridge import DeltaJava
from sparkport.spark.delta_jvm.transaction import commit_actions
from sparkport.spark.sql_names import quoted
from sparkport.spark.storage.filesystem import location_of, resolve

_ROW_IN_TASK = (1 << 33) - 1


@dataclass(frozen=True, slots=True)
class Numbering:
    """Rows of a version that get ids; their files are written again, in `parts` or fewer.

    `first_ids(count, size)` reserves `count` ranges of `size` ids and returns the first of each; no part has
    more than `max_rows`. With `fields` the table gets the column for the ids.
    """

    table: str
    root: str
    table_id: str
    version: int
    fields: Sequence[SparkField] | None
    configuration: Mapping[str, str]
    id_name: str
    paths: frozenset[str]
    parts: int
    max_rows: int
    first_ids: Callable[[int, int], list[int]]


def number_rows(change: Numbering, session: SparkSession) -> None:
    """Give ids to rows in one commit that says of itself that it changes no data.

    Raises ConflictError if the table is no longer at its version.
    """
    java = DeltaJava(session)
    transaction = java.transaction_at(change.root, change.version, change.table_id, change.table)
    old = new = transaction.metadata()
    if change.fields is not None:
        new = java.metadata_with(old, change.fields, old.partitionColumns(), change.configuration)
        transaction.updateMetadata(new, False)
    root = location_of(change.root)
    files = [
        file for file in java.to_list(transaction.filterFiles()) if resolve(root, file.path()) in change.paths
    ]
    actions = java.actions()
    if files:
        rows = _with_ids(change, DataFrame(java.rows(transaction, files), session))
        actions.rearrange(files, transaction.writeFiles(rows._jdf))  # noqa: SLF001
    commit_actions(
        change.root, transaction, actions, java.operation("UpdateSchema", old.schema(), new.schema())
    )


def _with_ids(change: Numbering, frame: DataFrame) -> DataFrame:
    """Return rows with an id each: a range for each task, so that each file has ids that are near."""
    frame = frame.coalesce(change.parts)
    count = frame._jdf.rdd().getNumPartitions()  # noqa: SLF001
    starts = ", ".join(f"{first}L" for first in change.first_ids(count, change.max_rows))
    row = f"(monotonically_increasing_id() & {_ROW_IN_TASK}L)"
    too_many = "CAST(raise_error('a file has more rows than the log says') AS BIGINT)"
    fresh = f"element_at(array({starts}), spark_partition_id() + 1) + {row}"
    numbered = sf.expr(f"IF({row} < {change.max_rows}L, {fresh}, {too_many})")
    if change.fields is None:
        numbered = sf.coalesce(sf.col(quoted(change.id_name)), numbered)
    return frame.withColumn(change.id_name, numbered)
