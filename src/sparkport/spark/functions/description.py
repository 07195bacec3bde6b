"""`detail`, `files` and `history`: what a Delta table says about itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.engine import Engine
from sparkport.spark.functions.names import delta_table
from sparkport.spark.model.columns import table_columns
from sparkport.spark.table import DeltaTable

TABLE = Parameter("table", pa.string())
_TIME = pa.timestamp("us", "UTC")
_TEXTS = pa.map_(pa.string(), pa.string())
_ROWS_AT_ONCE = 1024


class _OfTable:
    """A function of one table whose result always has the same columns."""

    signature = FunctionSignature((TABLE,))
    columns: pa.Schema

    def __init__(self, engine: Engine, catalog: Catalog) -> None:
        self._engine = engine
        self._catalog = catalog

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, once the table is known to exist."""
        delta_table(call, self._catalog, parameters[0])
        return self.columns

    def _reader(self, call: Call, rows: Iterable[Mapping[str, Any]]) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.columns, call.checked(_batches(rows, self.columns)))

    def _snapshot(self, call: Call, table: DeltaTable, version: int | None = None) -> DeltaSnapshot:
        if version is None:
            view = table.versions.view(call)
            version = None if view is None else view.newest
        return table.versions.log.snapshot(version)


class Detail(_OfTable):
    """What a table is, in one row."""

    name = "detail"
    comment = "What a Delta table is: format, files, size, properties, protocol"
    columns = pa.schema(
        [
            ("format", pa.string()),
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("location", pa.string()),
            ("created_at", _TIME),
            ("last_modified", _TIME),
            ("version", pa.int64()),
            ("partition_columns", pa.list_(pa.string())),
            ("num_files", pa.int64()),
            ("num_rows", pa.int64()),
            ("size_in_bytes", pa.int64()),
            ("properties", _TEXTS),
            ("min_reader_version", pa.int32()),
            ("min_writer_version", pa.int32()),
            ("features", pa.list_(pa.string())),
            ("read_mode", pa.string()),
        ]
    )

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Read the log; Spark has no part in it."""
        del options
        table = delta_table(call, self._catalog, parameters[0])
        snapshot = self._snapshot(call, table)
        metadata, protocol = snapshot.metadata, snapshot.protocol
        row = {
            "format": "delta",
            "id": metadata.table_id,
            "name": str(table),
            "description": metadata.description,
            "location": _relative(table.root, self._engine.warehouse.root),
            "created_at": None if metadata.created_ms is None else metadata.created_ms * 1000,
            "last_modified": snapshot.timestamp_ms * 1000,
            "version": snapshot.version,
            "partition_columns": list(metadata.partition_columns),
            "num_files": len(snapshot.files),
            "num_rows": snapshot.row_count,
            "size_in_bytes": sum(file.size for file in snapshot.files),
            "properties": sorted(metadata.configuration.items()),
            "min_reader_version": protocol.min_reader,
            "min_writer_version": protocol.min_writer,
            "features": sorted(protocol.reader_features | protocol.writer_features),
            "read_mode": _read_mode(call, table),
        }
        return self._reader(call, [row])


class Files(_OfTable):
    """The data files of a version."""

    name = "files"
    comment = "The data files of a Delta table, now or at a version: size, rows, partition, bounds"
    signature = FunctionSignature((TABLE, Parameter("version", pa.int64(), named=True, default=None)))
    columns = pa.schema(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("rows", pa.int64()),
            ("deleted_rows", pa.int64()),
            ("partition_values", _TEXTS),
            ("modified", _TIME),
            ("min_values", pa.string()),
            ("max_values", pa.string()),
            ("null_counts", pa.string()),
        ]
    )

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, once the table is known to exist."""
        version = parameters[1]
        if version is not None and version < 0:
            raise InvalidRequestError(f"there is no version {version}: versions count from 0")
        return super().schema_for_parameters(call, parameters)

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Read the log; Spark has no part in it."""
        del options
        table = delta_table(call, self._catalog, parameters[0])
        snapshot = self._snapshot(call, table, parameters[1])
        logical = {column.physical.name: column.logical for column in table_columns(snapshot.metadata)}
        return self._reader(call, (_file_row(file, table.root, logical) for file in snapshot.files))


class History(_OfTable):
    """The commits of a table."""

    name = "history"
    comment = "The versions of a Delta table, newest first: when, what, by which operation"
    columns = pa.schema(
        [
            ("version", pa.int64()),
            ("timestamp", _TIME),
            ("user_id", pa.string()),
            ("user_name", pa.string()),
            ("operation", pa.string()),
            ("operation_parameters", _TEXTS),
            ("read_version", pa.int64()),
            ("isolation_level", pa.string()),
            ("is_blind_append", pa.bool_()),
            ("operation_metrics", _TEXTS),
            ("user_metadata", pa.string()),
            ("engine_info", pa.string()),
        ]
    )

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Read the log; Spark has no part in it."""
        del options
        table = delta_table(call, self._catalog, parameters[0])
        return self._reader(call, table.versions.log.history())


def _read_mode(call: Call, table: DeltaTable) -> str:
    """Return who reads a query of all columns of the caller's."""
    columns = tuple(without_rowid(table.versions.at(call, None).arrow_schema).names)
    return table.plan_scan(call, ScanOptions(columns=columns)).read_mode(call)


def _file_row(file: DataFile, root: str, logical: Mapping[str, str]) -> dict[str, Any]:
    statistics = json.loads(file.statistics) if file.statistics else {}
    return {
        "path": _relative(file.path, root),
        "size": file.size,
        "rows": file.row_count,
        "deleted_rows": file.deleted_rows,
        "partition_values": [
            (logical.get(name, name), value) for name, value in file.partition_values.items()
        ],
        "modified": file.modification_ms * 1000,
        "min_values": _values(statistics.get("minValues"), logical),
        "max_values": _values(statistics.get("maxValues"), logical),
        "null_counts": _values(statistics.get("nullCount"), logical),
    }


def _values(said: Mapping[str, Any] | None, logical: Mapping[str, str]) -> str | None:
    """Return statistics by the names of the columns as JSON."""
    if not said:
        return None
    return json.dumps({logical.get(name, name): value for name, value in said.items()}, ensure_ascii=False)


def _relative(location: str, root: str) -> str:
    """Return a location below a folder, without what is the server's own business."""
    below = location.removeprefix(f"{root}/")
    return below if below != location else location.rpartition("/")[2]


def _batches(rows: Iterable[Mapping[str, Any]], arrow_schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    waiting: list[Mapping[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_AT_ONCE:
            yield pa.RecordBatch.from_pylist(waiting, arrow_schema)
            waiting = []
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, arrow_schema)
