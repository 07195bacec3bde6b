"""Commits through Delta's own transaction: columns, properties and files of a table, all at once.

SQL cannot say most of it: the metadata of columns, a default for the rows that are there, NOT NULL
for a column that was not.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from sparkport.errors import ConflictError
from sparkport.spark.delta.durability import write_through_added
from sparkport.spark.delta_jvm.bridge import Actions, DeltaJava, has_transactions
from sparkport.spark.sql_names import quoted
from sparkport.spark.storage.filesystem import location_of, resolve

_ROW_IN_TASK = (1 << 33) - 1

MakeRows = Callable[[SparkSession], DataFrame]


@dataclass(frozen=True, slots=True)
class LogChange:
    """What a version of a table shall become.

    With `reads_rows` another commit meanwhile is a conflict whatever it does. `rows` replace all
    rows that are there.
    """

    table: str
    root: str
    table_id: str
    version: int
    spark_schema: Mapping[str, Any]
    configuration: Mapping[str, str]
    partition_columns: tuple[str, ...] = ()
    reads_rows: bool = False
    rows: MakeRows | None = None


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
    fits: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The version that a commit has made, None if that is not known.

    Or the `known` keys that the log has already, with what it has noted: then nothing was done.
    """

    version: int | None = None
    known: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Rows of a version that get ids; their files are written again, in `parts` or fewer.

    `first_ids` returns the first ids of so many ranges of so many ids; no part has more than
    `most_rows`. With `spark_schema` the table gets the column for the ids.
    """

    table: str
    root: str
    table_id: str
    version: int
    spark_schema: Mapping[str, Any] | None
    configuration: Mapping[str, str]
    id_name: str
    paths: frozenset[str]
    parts: int
    most_rows: int
    first_ids: Callable[[int, int], list[int]]


def commit(change: LogChange, session: SparkSession) -> CommitResult:
    """Make the change in one commit. Raises ConflictError if the table is no longer at its version."""
    java = DeltaJava(session)
    transaction = java.transaction_at(change.root, change.version, change.table_id, change.table)
    old = transaction.metadata()
    new = java.changed(
        old, change.spark_schema, java.sequence(change.partition_columns), change.configuration
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
    return _committed(change.root, transaction, actions, operation)


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
        actions.note(key, version)
    java.register(transaction, change.metrics)
    java.leave_checkpoint(transaction)
    return _committed(change.root, transaction, actions, java.operation_of_rows(change.operation))


def _committed(root: str, transaction: Any, actions: Actions, operation: Any) -> CommitResult:  # noqa: ANN401
    """Commit. What the commit names is on the disk before anybody can see it."""
    write_through_added(root, actions.decoded())
    return CommitResult(int(transaction.commit(actions.sequence(), operation)))


def _check_fits(change: FileChange, transaction: Any) -> None:  # noqa: ANN401
    if not change.fits:
        return
    fields = json.loads(transaction.metadata().schemaString())["fields"]
    present = {field["name"]: field["type"] for field in fields}
    if any(present.get(field["name"]) != field["type"] for field in change.fits):
        raise ConflictError(change.table, "its columns were altered meanwhile")


def number_rows(change: Numbering, session: SparkSession) -> None:
    """Give ids to rows in one commit that says of itself that it changes no data.

    Raises ConflictError if the table is no longer at its version.
    """
    java = DeltaJava(session)
    transaction = java.transaction_at(change.root, change.version, change.table_id, change.table)
    old = new = transaction.metadata()
    if change.spark_schema is not None:
        new = java.changed(old, change.spark_schema, old.partitionColumns(), change.configuration)
        transaction.updateMetadata(new, False)
    root = location_of(change.root)
    files = [
        file for file in java.listed(transaction.filterFiles()) if resolve(root, file.path()) in change.paths
    ]
    actions = java.actions()
    if files:
        rows = _numbered(change, DataFrame(java.rows(transaction, files), session))
        actions.rearrange(files, transaction.writeFiles(rows._jdf))  # noqa: SLF001
    _committed(change.root, transaction, actions, java.operation("UpdateSchema", old.schema(), new.schema()))


def _numbered(change: Numbering, frame: DataFrame) -> DataFrame:
    """Return rows with an id each: a range for each task, so that each file has ids that are near."""
    frame = frame.coalesce(change.parts)
    count = frame._jdf.rdd().getNumPartitions()  # noqa: SLF001
    starts = ", ".join(f"{first}L" for first in change.first_ids(count, change.most_rows))
    row = f"(monotonically_increasing_id() & {_ROW_IN_TASK}L)"
    too_many = "CAST(raise_error('a file has more rows than the log says') AS BIGINT)"
    fresh = f"element_at(array({starts}), spark_partition_id() + 1) + {row}"
    numbered = sf.expr(f"IF({row} < {change.most_rows}L, {fresh}, {too_many})")
    if change.spark_schema is None:
        numbered = sf.coalesce(sf.col(quoted(change.id_name)), numbered)
    return frame.withColumn(change.id_name, numbered)


def replace(
    root: str,
    spark_schema: Mapping[str, Any],
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
        json.dumps(spark_schema),
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
    transaction.updateMetadata(java.renamed(old, name), False)
    transaction.commit(java.empty, java.operation("UpdateSchema", old.schema(), old.schema()))


def checkpoint(root: str, session: SparkSession) -> None:
    """Write a checkpoint of the newest version, and remove what Delta keeps no longer of the log."""
    DeltaJava(session).checkpoint(root)


def dependent_checks(root: str, column: tuple[str, ...], session: SparkSession) -> list[str]:
    """Return the CHECKs of Delta's own that read a column or field."""
    java = DeltaJava(session)
    metadata = java.newest_transaction(root).metadata()
    path = java.sequence(column)
    constraints = java.singleton("org.apache.spark.sql.delta.constraints.Constraints$")
    found = constraints.findDependentConstraints(java.session, path, metadata)
    return [str(text) for text in java.listed(found.values().toSeq())]


def forget(root: str, session: SparkSession) -> None:
    """Let Spark forget a folder: another table may come to its place."""
    if has_transactions(session):
        DeltaJava(session).forget(root)
