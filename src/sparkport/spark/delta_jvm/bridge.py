"""Delta's own classes, as Python reaches them.

They are internal to Delta: what is used of them is here, and the tests of ALTER and of DML hold it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from sparkport.errors import ConflictError, NotFoundError, UnsupportedOperationError
from sparkport.spark.delta.log.spark_fields import SparkField, struct_json

_DELTA = "org.apache.spark.sql.delta"
_CONVERTERS = "scala.jdk.javaapi.CollectionConverters"


def has_transactions(session: SparkSession) -> bool:
    """Return whether Delta's transactions are within reach; over Spark Connect they are not."""
    return hasattr(session, "_jsparkSession")


class DeltaJava:
    """Delta's and Scala's classes, as Python reaches them."""

    def __init__(self, session: SparkSession) -> None:
        if not has_transactions(session):
            raise UnsupportedOperationError("session", "Spark Connect", "this change of a table")
        self.session = session._jsparkSession  # noqa: SLF001
        self._client: Any = session._jvm._gateway_client  # type: ignore[union-attr]  # noqa: SLF001
        self.empty = self.singleton("scala.collection.immutable.Nil$")
        self.none = self.singleton("scala.None$")
        # In some places Delta takes the session of the thread, and threads of the server have none.
        self.type("org.apache.spark.sql.classic.SparkSession").setActiveSession(self.session)

    def type(self, name: str) -> Any:  # noqa: ANN401
        """Return a class, at no cost: `jvm.org.apache...` would ask Java about every package on the way."""
        return JavaClass(name, self._client)

    def singleton(self, name: str) -> Any:  # noqa: ANN401
        """Return the one object of a Scala `object`."""
        return getattr(self.type(name), "MODULE$")

    def some(self, value: Any) -> Any:  # noqa: ANN401
        """Return an option that has a value."""
        return self.type("scala.Some")(value)

    def operation(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Return what the history will say of a commit."""
        return self.type(f"{_DELTA}.DeltaOperations${name}")(*arguments)

    def watch(self, transaction: Any, keys: Iterable[str]) -> None:  # noqa: ANN401
        """Make it a conflict if another commit records one of the keys meanwhile."""
        # To ask the transaction for them would do so too, but makes Delta read its whole state.
        read = transaction.readTxn()
        for key in keys:
            read.addOne(key)

    def operation_of_rows(self, name: str) -> Any:  # noqa: ANN401
        """Return INSERT, UPDATE or DELETE for the history, without a condition."""
        match name:
            case "UPDATE":
                return self.operation("Update", self.none)
            case "DELETE":
                return self.operation("Delete", self.empty)
            case _:
                append = self.type("org.apache.spark.sql.SaveMode").Append
                return self.operation("Write", append, *[self.none] * 8)

    def transaction(self, root: str, table_id: str, table: str, version: int | None = None) -> Any:  # noqa: ANN401
        """Begin at a version of the table with an id, or at its newest one.

        Raises NotFoundError if another table has taken its place.
        """
        log, snapshot = self._newest(root)
        if snapshot.metadata().id() != table_id:
            # What Delta remembers of the folder may be of a table that others have dropped.
            self.forget(root)
            log, snapshot = self._newest(root)
            if snapshot.metadata().id() != table_id:
                raise NotFoundError("table", table)
        if version is not None and snapshot.version() != version:
            snapshot = log.getSnapshotAt(version, self.none, self.none, False)
        return log.startTransaction(self.none, self.some(snapshot))

    def newest_transaction(self, root: str) -> Any:  # noqa: ANN401
        """Begin at the newest version of whatever table is in a folder."""
        log, snapshot = self._newest(root)
        return log.startTransaction(self.none, self.some(snapshot))

    def _newest(self, root: str) -> tuple[Any, Any]:
        log = self.type(f"{_DELTA}.DeltaLog").forTable(self.session, root)
        return log, log.update(False, self.none, self.none)

    def forget(self, root: str) -> None:
        """Let Delta forget a folder: another table may come to its place."""
        path = self.type("org.apache.hadoop.fs.Path")(root)
        self.type(f"{_DELTA}.DeltaLog").invalidateCache(self.session, path)

    def checkpoint(self, root: str) -> None:
        """Write a checkpoint of the newest version, if the table is still there."""
        log, snapshot = self._newest(root)
        if snapshot.version() >= 0:
            log.checkpointAndCleanUpDeltaLog(snapshot, self.none)

    def leave_checkpoint(self, transaction: Any) -> None:  # noqa: ANN401
        """Let a transaction write no checkpoint after its commit."""
        transaction.postCommitHooks().subtractOne(self.singleton(f"{_DELTA}.hooks.CheckpointHook$"))

    def transaction_at(self, root: str, version: int, table_id: str, table: str) -> Any:  # noqa: ANN401
        """Begin at a version. Raises ConflictError if it is no longer the newest."""
        transaction = self.transaction(root, table_id, table)
        if transaction.readVersion() != version:
            raise ConflictError(table, "another writer changed it at the same time")
        return transaction

    def metadata_with(
        self,
        metadata: Any,  # noqa: ANN401
        fields: Iterable[SparkField],
        partition_columns: Any,  # noqa: ANN401
        configuration: Mapping[str, str],
        comment: str | None = None,
    ) -> Any:  # noqa: ANN401
        """Return the metadata of a table with other columns and properties, and another comment if given."""
        return metadata.copy(
            metadata.id(),
            metadata.name(),
            metadata.description() if comment is None else comment,
            metadata.format(),
            json.dumps(struct_json(fields)),
            partition_columns,
            self.properties(configuration),
            metadata.createdTime(),
        )

    def metadata_named(self, metadata: Any, name: str) -> Any:  # noqa: ANN401
        """Return the metadata of a table with another name."""
        return metadata.copy(
            metadata.id(),
            name,
            metadata.description(),
            metadata.format(),
            metadata.schemaString(),
            metadata.partitionColumns(),
            metadata.configuration(),
            metadata.createdTime(),
        )

    def rows_at(self, root: str, version: int, files: Iterable[str]) -> Any:  # noqa: ANN401
        """Return the rows of files of a version, which are given by the actions that added them, as JSON."""
        log, snapshot = self._newest(root)
        if snapshot.version() != version:
            snapshot = log.getSnapshotAt(version, self.none, self.none, False)
        is_streaming, adds = False, self.actions()
        adds.add_json(files)
        return log.createDataFrame(snapshot, adds.sequence(), is_streaming, self.none)

    def rows(self, transaction: Any, files: list[Any]) -> Any:  # noqa: ANN401
        """Return the rows of some files of a transaction's table, less those that are deleted."""
        is_streaming = False
        return transaction.deltaLog().createDataFrame(
            transaction.snapshot(), self.sequence(files), is_streaming, self.none
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
        create = self.type("org.apache.spark.sql.execution.metric.SQLMetrics").createMetric
        for name, number in metrics.items():
            metric = create(context, name)
            metric.set(number)
            found = found.updated(name, metric)
        transaction.registerSQLMetrics(self.session, found)

    def sequence(self, items: tuple[Any, ...] | list[Any]) -> Any:  # noqa: ANN401
        """Return a Scala sequence."""
        gathered = self.type("java.util.ArrayList")()
        for item in items:
            gathered.add(item)
        return self.type(_CONVERTERS).asScala(gathered).toSeq()

    def to_list(self, sequence: Any) -> list[Any]:  # noqa: ANN401
        """Return what is in a Scala sequence."""
        return list(self.type(_CONVERTERS).asJava(sequence))

    def actions(self) -> Actions:
        """Return a list for the actions of a commit."""
        return Actions(self)


class Actions:
    """The actions of one commit."""

    def __init__(self, java: DeltaJava) -> None:
        self._java = java
        self._items: list[Any] = []
        self._read = java.singleton(f"{_DELTA}.actions.Action$").fromJson

    def remove_all(self, transaction: Any) -> None:  # noqa: ANN401
        """Remove all files; another commit meanwhile is a conflict then."""
        self._items += [file.remove() for file in self._java.to_list(transaction.filterFiles())]

    def add_json(self, texts: Iterable[str]) -> None:
        """Add actions that are written as in a log."""
        self._items += [self._read(text) for text in texts]

    def add_files(self, files: Any) -> None:  # noqa: ANN401
        """Add files that the transaction has written."""
        self._items += self._java.to_list(files)

    def add_txn(self, key: str, version: int) -> None:
        """Add a `txn` action: the version of an application."""
        now = int(time.time() * 1000)
        self.add_json([json.dumps({"txn": {"appId": key, "version": version, "lastUpdated": now}})])

    def rearrange(self, old: list[Any], new: Any) -> None:  # noqa: ANN401
        """Put files that the transaction has written in the place of others with the same rows."""
        now = int(time.time() * 1000)
        self._items += [file.removeWithTimestamp(now, False) for file in old]
        for file in self._java.to_list(new):
            ((kind, details),) = json.loads(file.json()).items()
            self.add_json([json.dumps({kind: {**details, "dataChange": False}})])

    def decode(self) -> Iterator[dict[str, Any]]:
        """Yield the actions as a log has them."""
        return (json.loads(item.json()) for item in self._items)

    def sequence(self) -> Any:  # noqa: ANN401
        """Return the actions as Delta wants them."""
        return self._java.sequence(self._items)
