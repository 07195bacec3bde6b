"""Commits of columns and properties, with all rows written again where they need it.

SQL cannot say most of it: the metadata of columns, a default for existing rows, NOT NULL for a column
that was nullable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from sparkport.spark.delta.log.spark_fields import SparkField
from sparkport.spark.delta_jvm.bridge import DeltaJava
from sparkport.spark.delta_jvm.transaction import CommitResult, MakeRows, commit_actions


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What a version of a table shall become.

    With `reads_rows` another commit meanwhile is a conflict whatever it does. `rows` replace all
    rows that are there. Without a `comment` the table keeps its own.
    """

    table: str
    root: str
    table_id: str
    version: int
    fields: Sequence[SparkField]
    configuration: Mapping[str, str]
    partition_columns: tuple[str, ...] = ()
    reads_rows: bool = False
    rows: MakeRows | None = None
    comment: str | None = None


def commit_metadata(change: MetadataChange, session: SparkSession) -> CommitResult:
    """Make the change in one commit. Raises ConflictError if the table is no longer at its version."""
    java = DeltaJava(session)
    transaction = java.transaction_at(change.root, change.version, change.table_id, change.table)
    old = transaction.metadata()
    new = java.metadata_with(
        old, change.fields, java.sequence(change.partition_columns), change.configuration, change.comment
    )
    transaction.updateMetadata(new, False)
    actions = java.actions()
    if change.rows is not None:
        actions.remove_all(transaction)
        actions.add_files(transaction.writeFiles(change.rows(session)._jdf))  # noqa: SLF001
    elif change.reads_rows:
        transaction.readWholeTable()
    # After an operation that Delta does not know it would read the whole log again for its checksum.
    operation = java.operation("UpdateSchema", old.schema(), new.schema())
    return commit_actions(change.root, transaction, actions, operation)


def dependent_checks(root: str, column: tuple[str, ...], session: SparkSession) -> list[str]:
    """Return the CHECKs of Delta's own that read a column or field."""
    java = DeltaJava(session)
    metadata = java.newest_transaction(root).metadata()
    path = java.sequence(column)
    constraints = java.singleton("org.apache.spark.sql.delta.constraints.Constraints$")
    found = constraints.findDependentConstraints(java.session, path, metadata)
    return [str(text) for text in java.to_list(found.values().toSeq())]
