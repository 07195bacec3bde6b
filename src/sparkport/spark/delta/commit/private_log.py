"""A Delta log for what one transaction sees of a table, so that Spark SQL can read it.

The log lies in a folder of its own. It names the files of the table, and those that the transaction has
staged, by absolute paths. Each state that a query asks for is one more version.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkport.spark.delta.files.deletion_vectors import vector_location
from sparkport.spark.delta.log.actions import DataFile, DeletionVector, Protocol
from sparkport.spark.delta.log.commits import commit_name
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import struct_json
from sparkport.spark.storage.filesystem import storage_of

# All that a reader goes by; others ask something of writers, or of commits that are not there.
_READ_PROPERTIES = "delta.columnMapping."
_READER_FEATURES, _WRITER_FEATURES = 3, 7
_MAPPED = 2  # the reader version that means column mapping


class PrivateLog:
    """The log of one table for one transaction. Safe to use from many threads."""

    def __init__(self, folder: str, table_root: str) -> None:
        self.folder = folder
        self._table_root = table_root
        self._lock = threading.Lock()
        self._state: DeltaSnapshot | None = None
        self._version = -1
        self._is_discarded = False

    def show(self, state: DeltaSnapshot) -> None:
        """Make a state of the table the newest version; the metadata is the same for all of them.

        Nothing is written once the log is discarded.
        """
        with self._lock:
            if self._state is state or self._is_discarded:
                return
            actions = list(self._actions(state))
            if actions:
                self._write(self._version + 1, actions)
                self._version += 1
            self._state = state

    def discard(self) -> None:
        """Remove the folder."""
        with self._lock, contextlib.suppress(OSError):  # removed as an orphan later
            self._is_discarded = True
            storage_of(self.folder).remove(self.folder)

    def _actions(self, state: DeltaSnapshot) -> Iterator[dict[str, Any]]:
        """Yield what leads from the newest version to a state."""
        if self._state is None:
            yield {"protocol": _protocol(state.protocol)}
            yield {"metaData": _metadata(state)}
        before = {file.path: file for file in self._state.files} if self._state else {}
        after = {file.path: file for file in state.files}
        for path, file in before.items():
            now = after.get(path)
            if now is None or now.vector_id != file.vector_id:
                yield {"remove": self._described(file)}
        for path, file in after.items():
            known = before.get(path)
            if known is None or known.vector_id != file.vector_id:
                yield {"add": self._described(file) | _added(file)}

    def _described(self, file: DataFile) -> dict[str, Any]:
        action = {
            "path": Path(file.path).as_uri(),
            "partitionValues": dict(file.partition_values),
            "size": file.size,
            "dataChange": True,
        }
        if file.deletion_vector is not None:
            action["deletionVector"] = self._absolute(file.deletion_vector).logged
        return action

    def _absolute(self, vector: DeletionVector) -> DeletionVector:
        location = vector_location(vector, self._table_root)
        if location is None:
            return vector
        return replace(vector, storage_type="p", path_or_inline=Path(location).as_uri())

    def _write(self, version: int, actions: list[dict[str, Any]]) -> None:
        log = Path(self.folder) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        whole = log / f".{commit_name(version)}.tmp"
        whole.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        whole.replace(log / commit_name(version))


def _protocol(protocol: Protocol) -> dict[str, Any]:
    """Return what a reader must understand; staged rows are deleted by vectors whatever the table has."""
    implied = {"columnMapping"} if protocol.min_reader == _MAPPED else set()
    features = protocol.reader_features | implied | {"deletionVectors"}
    return {
        "minReaderVersion": _READER_FEATURES,
        "minWriterVersion": _WRITER_FEATURES,
        "readerFeatures": sorted(features),
        "writerFeatures": sorted(features | protocol.writer_features),
    }


def _metadata(state: DeltaSnapshot) -> dict[str, Any]:
    metadata = state.metadata
    configuration = metadata.configuration.items()
    return {
        "id": metadata.table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct_json(metadata.fields)),
        "partitionColumns": list(metadata.partition_columns),
        "configuration": {key: value for key, value in configuration if key.startswith(_READ_PROPERTIES)},
        "createdTime": metadata.created_ms,
    }


def _added(file: DataFile) -> dict[str, Any]:
    added: dict[str, Any] = {"modificationTime": file.modification_ms}
    if file.statistics is not None:
        # The bounds may be those of rows that are deleted.
        loose = {"tightBounds": False} if file.deletion_vector else {}
        added["stats"] = json.dumps(json.loads(file.statistics) | loose) if loose else file.statistics
    return added
