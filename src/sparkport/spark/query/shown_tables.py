"""What a caller sees of tables with row filters, masks or hidden columns, for one query in Spark SQL.

The rows are read through the caller's view of the table and written to a Delta table of their own, which
the query reads under the table's name. Spark gets to know no other row and no other value.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from sparkport.arrow.conform import conform_column
from sparkport.catalog.call import Call
from sparkport.catalog.guards import GuardedTable
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.scan import ScanOptions, TimePoint, TimeUnit
from sparkport.errors import NotFoundError, PermissionDeniedError, UnsupportedOperationError
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.log.commits import commit_name
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields, struct_json
from sparkport.spark.delta.mapping import mapped_fields
from sparkport.spark.errors import writing
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.query.tables import NamedTable, QueryTable
from sparkport.spark.sql_names import staged_name
from sparkport.spark.storage.filesystem import storage_of
from sparkport.spark.storage.temp_folders import hold
from sparkport.spark.table import DeltaTable
from sparkport.spark.types import encode

_ROWS = "rows.parquet"
_READER_FEATURES = ["columnMapping", "timestampNtz"]
_WRITER_FEATURES = [*_READER_FEATURES, "invariants"]  # NOT NULL


class ShownTables:
    """Makes such tables for one query. They are removed by `close`, at the latest with this object."""

    def __init__(self, *, with_rows: bool) -> None:
        """Without rows the tables are good to analyse a query alone."""
        self._with_rows = with_rows
        self._made: dict[tuple[str, str], QueryTable] = {}
        self._stages: list[tuple[Stage, str]] = []
        self.close = weakref.finalize(self, _remove, self._stages)

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the tables."""
        self.close()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._made)

    def table(self, call: Call, seen: GuardedTable, named: NamedTable) -> QueryTable:
        """Return what a name in a query stands for; the same for the same table.

        Raises PermissionDeniedError for a version of it, and UnsupportedOperationError for columns that
        cannot be written.
        """
        table = seen.behind
        if not isinstance(table, DeltaTable):
            raise NotFoundError("table", ".".join(named.path))
        if named.is_versioned:
            raise PermissionDeniedError(
                f"Spark SQL reads table '{table}' at its newest version alone: '{call.principal}' sees a"
                " part of it (row filter, masks or hidden columns). Scans read it at any version"
            )
        key = table.schema, table.name
        if key not in self._made:
            self._made[key] = self._make(call, seen, table)
        return self._made[key]

    def _make(self, call: Call, seen: GuardedTable, table: DeltaTable) -> QueryTable:
        engine = table.versions.engine
        snapshot = table.versions.at(call, None)
        pin = table.versions.pin(call, snapshot)
        if call.if_version is not None and call.transaction_id is None:
            # The query of a change: its rows are to be those that the change is based on.
            pin = TimePoint(TimeUnit.SNAPSHOT, call.if_version)
            snapshot = table.versions.at(call, pin)
        columns = {column.exact.name: column for column in snapshot.columns if not column.is_absent}
        shown = current_arrow_schema(call, seen, pin)
        shown = pa.schema([field for field in shown if field.name in columns])
        fields = {field.name: field for field in snapshot.metadata.fields}
        chosen = [columns[name] for name in shown.names]
        spark_fields = [
            replace(fields[column.logical], nullable=shown.field(column.exact.name).nullable)
            for column in chosen
        ]
        for column, field in zip(chosen, spark_fields, strict=True):
            _check_writable(table, column, field)
        stage = Stage(engine.staging)
        with writing():
            hold(engine.staging)
        folder = stage.on_disk()
        self._stages.append((stage, folder))
        if self._with_rows:
            _fill(call, seen, ScanOptions(columns=tuple(shown.names), time_point=pin), chosen, stage)
        storage, size, table_id = storage_of(folder), None, str(uuid.uuid4())
        if stage.rows:
            with storage.open(f"{folder}/{_ROWS}") as file:
                size = file.size()
        with writing(), storage.create(f"{folder}/_delta_log/{commit_name(0)}") as log:
            actions = _commit(table_id, spark_fields, size)
            log.write("".join(f"{json.dumps(action)}\n" for action in actions).encode())
        return QueryTable(table.schema, table.name, folder, table_id, is_private=True)


def _fill(
    call: Call, seen: GuardedTable, options: ScanOptions, columns: Sequence[TableColumn], stage: Stage
) -> None:
    """Write the rows that the caller sees to a stage, as they are stored."""
    names = [column.logical for column in columns]
    with seen.scan(call, options) as reader:
        for batch in call.checked(reader):
            arrays = [
                encode(conform_column(batch.column(column.exact.name), column.exact), column.exact)
                for column in columns
            ]
            if batch.num_rows:
                stage.add(pa.RecordBatch.from_arrays(arrays, names))
    stage.on_disk()
    stage.close()


def _check_writable(table: DeltaTable, column: TableColumn, field: SparkField) -> None:
    if column.is_text_of_another or column.is_year_month or "__COLLATIONS" in field.metadata:
        raise UnsupportedOperationError(
            "table", str(table), f"Spark SQL under a row filter or mask: the type of column '{field.name}'"
        )


def _commit(table_id: str, fields: Sequence[SparkField], size: int | None) -> list[dict[str, Any]]:
    mapped, last_number = mapped_fields(map(_plain, fields), lambda field: staged_name(field.name))
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(struct_json(mapped)),
        "partitionColumns": [],
        "configuration": {
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": str(last_number),
        },
        "createdTime": int(time.time() * 1000),
    }
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": _READER_FEATURES,
        "writerFeatures": _WRITER_FEATURES,
    }
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    if size is not None:
        file = {"path": _ROWS, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": file})
    return actions


def _plain(field: SparkField) -> SparkField:
    """Return a field without what asks for features of Delta or checks new rows."""
    kept = {key: value for key, value in field.metadata.items() if not key.startswith("delta.")}
    return replace(field, type=_plain_type(field.type), metadata=kept)


def _plain_type(kind: SparkType) -> SparkType:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return struct_json(map(_plain, struct_fields(kind)))
    return {key: _plain_type(value) if key.endswith("Type") else value for key, value in kind.items()}


def _remove(stages: list[tuple[Stage, str]]) -> None:
    while stages:
        stage, folder = stages.pop()
        stage.remove()
        with contextlib.suppress(OSError):  # removed as an orphan later
            storage_of(folder).remove(folder)
