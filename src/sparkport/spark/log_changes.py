"""Commits through Delta's own transaction: columns, properties and files of a table, all at once.

SQL cannot say most of it: the metadata of columns, a default for the rows that are there, NOT NULL
for a column that was not. The classes are internal to Delta; the tests of ALTER hold them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from sparkport.errors import ConflictError, UnsupportedOperationError
from sparkport.spark.delta.files import location_of, resolve
from sparkport.spark.names import quoted

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
    version: int
    spark_schema: Mapping[str, Any]
    configuration: Mapping[str, str]
    partition_columns: tuple[str, ...] = ()
    reads_rows: bool = False
    rows: MakeRows | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """What files become of those of a version: actions of the log, as JSON, and rows for new files.

    Another commit meanwhile is a conflict if it has removed or changed one of the same files, or
    has noted one of the keys.
    """

    table: str
    root: str
    version: int
    actions: list[str]
    operation: str
    metrics: Mapping[str, int]
    keys: Mapping[str, int]
    rows: MakeRows | None = None


@dataclass(frozen=True, slots=True)
class Numbering:
    """Rows of a version that get ids; their files are written again, in `parts` or fewer.

    `first_ids` returns the first ids of so many ranges of so many ids; no part has more than
    `most_rows`. With `spark_schema` the table gets the column for the ids.
    """

    table: str
    root: str
    version: int
    spark_schema: Mapping[str, Any] | None
    configuration: Mapping[str, str]
    id_name: str
    paths: frozenset[str]
    parts: int
    most_rows: int
    first_ids: Callable[[int, int], list[int]]


def has_transactions(session: SparkSession) -> bool:
    """Say whether Delta's transactions are within reach; over Spark Connect they are not."""
    return hasattr(session, "_jsparkSession")


def commit(change: LogChange, session: SparkSession) -> None:
    """Make the change in one commit. Raises ConflictError if the table is no longer at its version."""
    java = _Java(session)
    transaction = java.transaction_at(change.root, change.version, change.table)
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
    transaction.commit(actions.sequence(), operation)


def commit_files(change: FileChange, session: SparkSession) -> dict[str, int]:
    """Make the change in one commit, after whatever others have committed since its version.

    Returns the keys that are noted already, if any are, with what is noted; nothing is done then.
    """
    java = _Java(session)
    transaction = java.transaction(change.root, change.version)
    if known := java.noted(transaction, change.keys):
        return known
    actions = java.actions()
    actions.add_json(change.actions)
    if change.rows is not None:
        actions.add_files(transaction.writeFiles(change.rows(session)._jdf))  # noqa: SLF001
    for key, affected in change.keys.items():
        actions.note(key, affected)
    java.register(transaction, change.metrics)
    transaction.commit(actions.sequence(), java.operation_of_rows(change.operation))
    return {}


def append(root: str, rows: DataFrame, keys: Mapping[str, int], session: SparkSession) -> dict[str, int]:
    """Append rows in one commit that notes all the keys; return those that are noted already, if any are.

    Then nothing is done. Raises ConflictError if another writer notes one of them at the same time,
    or if the table has other columns than the rows.
    """
    java = _Java(session)
    transaction = java.transaction(root)
    if known := java.noted(transaction, keys):
        return known
    present = {
        field["name"]: field["type"] for field in json.loads(transaction.metadata().schemaString())["fields"]
    }
    if any(present.get(field.name) != field.jsonValue()["type"] for field in rows.schema):
        raise ConflictError(root.rpartition("/")[2], "its columns were altered meanwhile")
    actions = java.actions()
    actions.add_files(transaction.writeFiles(rows._jdf))  # noqa: SLF001
    for key, version in keys.items():
        actions.note(key, version)
    transaction.commit(actions.sequence(), java.operation_of_rows("WRITE"))
    return {}


def number_rows(change: Numbering, session: SparkSession) -> None:
    """Give ids to rows in one commit that says of itself that it changes no data.

    Raises ConflictError if the table is no longer at its version.
    """
    java = _Java(session)
    transaction = java.transaction_at(change.root, change.version, change.table)
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
    transaction.commit(actions.sequence(), java.operation("UpdateSchema", old.schema(), new.schema()))


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
    java = _Java(session)
    transaction = java.transaction(root)
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
    unknown = [java.jvm.scala.Option.empty()] * 7
    operation = java.operation("ReplaceTable", new, is_managed, or_creates, as_select, *unknown)
    transaction.commit(actions.sequence(), operation)


def dependent_checks(root: str, column: tuple[str, ...], session: SparkSession) -> list[str]:
    """Return the CHECKs of Delta's own that read a column or field."""
    java = _Java(session)
    metadata = java.transaction(root).metadata()
    path = java.sequence(column)
    constraints = java.singleton("org.apache.spark.sql.delta.constraints.Constraints$")
    found = constraints.findDependentConstraints(java.session, path, metadata)
    return [str(text) for text in java.listed(found.values().toSeq())]


def forget(root: str, session: SparkSession) -> None:
    """Let Spark forget a folder: another table may come to its place."""
    if has_transactions(session):
        java = _Java(session)
        path = java.jvm.org.apache.hadoop.fs.Path(root)
        java.jvm.org.apache.spark.sql.delta.DeltaLog.invalidateCache(java.session, path)


class _Java:
    """Delta's and Scala's classes, as Python reaches them."""

    def __init__(self, session: SparkSession) -> None:
        if not has_transactions(session):
            raise UnsupportedOperationError("session", "Spark Connect", "this change of a table")
        self.session = session._jsparkSession  # noqa: SLF001
        self.jvm: Any = session._jvm  # noqa: SLF001
        self.empty = self.singleton("scala.collection.immutable.Nil$")

    def singleton(self, name: str) -> Any:  # noqa: ANN401
        """Return the one object of a Scala `object`."""
        found = self.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return getattr(found, "MODULE$")

    def operation(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Return what the history will say of a commit."""
        return getattr(self.jvm.org.apache.spark.sql.delta, f"DeltaOperations${name}")(*arguments)

    def noted(self, transaction: Any, keys: Iterable[str]) -> dict[str, int]:  # noqa: ANN401
        """Return those of the keys that the log has. From now on it is a conflict if that changes."""
        found = {key: int(transaction.txnVersion(key)) for key in keys}
        return {key: version for key, version in found.items() if version >= 0}

    def operation_of_rows(self, name: str) -> Any:  # noqa: ANN401
        """Return INSERT, UPDATE or DELETE for the history, without a condition."""
        none = self.jvm.scala.Option.empty()
        match name:
            case "UPDATE":
                return self.operation("Update", none)
            case "DELETE":
                return self.operation("Delete", self.empty)
            case _:
                append = self.jvm.org.apache.spark.sql.SaveMode.Append
                return self.operation("Write", append, *[none] * 8)

    def transaction(self, root: str, version: int | None = None) -> Any:  # noqa: ANN401
        """Begin at a version, or at the newest one."""
        log = self.jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self.session, root)
        none = self.jvm.scala.Option.empty()
        snapshot = log.update(False, none, none)
        if version is not None and snapshot.version() != version:
            snapshot = log.getSnapshotAt(version, none, none, False)
        return log.startTransaction(none, self.jvm.scala.Option.apply(snapshot))

    def transaction_at(self, root: str, version: int, table: str) -> Any:  # noqa: ANN401
        """Begin at a version. Raises ConflictError if it is no longer the newest."""
        found = self.transaction(root)
        if found.readVersion() != version:
            raise ConflictError(table, "another writer changed it at the same time")
        return found

    def changed(
        self,
        metadata: Any,  # noqa: ANN401
        spark_schema: Mapping[str, Any],
        partition_columns: Any,  # noqa: ANN401
        configuration: Mapping[str, str],
    ) -> Any:  # noqa: ANN401
        """Return the metadata of a table with other columns and properties."""
        return metadata.copy(
            metadata.id(),
            metadata.name(),
            metadata.description(),
            metadata.format(),
            json.dumps(spark_schema),
            partition_columns,
            self.properties(configuration),
            metadata.createdTime(),
        )

    def rows(self, transaction: Any, files: list[Any]) -> Any:  # noqa: ANN401
        """Return the rows of some files of a transaction's table, less those that are deleted."""
        # Delta takes the session of the thread, and a thread of ours has none by itself.
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.session)
        is_streaming, no_name = False, self.jvm.scala.Option.empty()
        return transaction.deltaLog().createDataFrame(
            transaction.snapshot(), self.sequence(files), is_streaming, no_name
        )

    def properties(self, configuration: Mapping[str, str]) -> Any:  # noqa: ANN401
        """Return a Scala map."""
        found = self.singleton("scala.collection.immutable.Map$").empty()
        for key, value in configuration.items():
            found = found.updated(key, value)
        return found

    def register(self, transaction: Any, metrics: Mapping[str, int]) -> None:  # noqa: ANN401
        """Let the history say how much a commit has changed."""
        found = self.singleton("scala.collection.immutable.Map$").empty()
        context = self.session.sparkContext()
        for name, number in metrics.items():
            metric = self.jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
            metric.set(number)
            found = found.updated(name, metric)
        transaction.registerSQLMetrics(self.session, found)

    def sequence(self, items: tuple[Any, ...] | list[Any]) -> Any:  # noqa: ANN401
        """Return a Scala sequence."""
        gathered = self.jvm.java.util.ArrayList()
        for item in items:
            gathered.add(item)
        return self.jvm.scala.jdk.javaapi.CollectionConverters.asScala(gathered).toSeq()

    def listed(self, sequence: Any) -> list[Any]:  # noqa: ANN401
        """Return what is in a Scala sequence."""
        return list(self.jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence))

    def actions(self) -> _Actions:
        """Return a list for the actions of a commit."""
        return _Actions(self)


class _Actions:
    """The actions of one commit."""

    def __init__(self, java: _Java) -> None:
        self._java = java
        self._items: list[Any] = []

    def remove_all(self, transaction: Any) -> None:  # noqa: ANN401
        """Remove all files; another commit meanwhile is a conflict then."""
        self._items += [file.remove() for file in self._java.listed(transaction.filterFiles())]

    def add_json(self, texts: Iterable[str]) -> None:
        """Add actions that are written as in a log."""
        read = self._java.singleton("org.apache.spark.sql.delta.actions.Action$").fromJson
        self._items += [read(text) for text in texts]

    def add_files(self, files: Any) -> None:  # noqa: ANN401
        """Add files that the transaction has written."""
        self._items += self._java.listed(files)

    def note(self, key: str, version: int) -> None:
        """Note the version of an application."""
        jvm = self._java.jvm
        now = jvm.scala.Option.apply(int(time.time() * 1000))
        self._items.append(jvm.org.apache.spark.sql.delta.actions.SetTransaction(key, version, now))

    def rearrange(self, old: list[Any], new: Any) -> None:  # noqa: ANN401
        """Put files that the transaction has written in the place of others with the same rows."""
        now = int(time.time() * 1000)
        self._items += [file.removeWithTimestamp(now, False) for file in old]
        read = self._java.jvm.org.apache.spark.sql.delta.actions.Action.fromJson
        for file in self._java.listed(new):
            ((kind, details),) = json.loads(file.json()).items()
            self._items.append(read(json.dumps({kind: {**details, "dataChange": False}})))

    def sequence(self) -> Any:  # noqa: ANN401
        """Return the actions as Delta wants them."""
        return self._java.sequence(self._items)
