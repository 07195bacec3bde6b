"""`dropped` and `undrop`: the tables in the warehouse's trash, and the way back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.guards import Privilege, check
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import InvalidRequestError, SparkportError
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.log.snapshots import TableHeader
from sparkport.spark.functions.names import schema_and_table
from sparkport.spark.warehouse.trash import DroppedTable, Trash

_TIME = pa.timestamp("us", "UTC")

FindDropped = Callable[[Call, str, str], DroppedTable]
"""Return the table that a name means, or raise what stands against bringing it back."""
Undrop = Callable[[Call, str, str], DroppedTable]


class Dropped:
    """The tables in the trash, of all schemas or of one, those that were dropped last first."""

    name = "dropped"
    comment = "The dropped tables that can be brought back"
    signature = FunctionSignature((Parameter("schema", pa.string(), named=True, default=None),))
    columns = pa.schema(
        [
            ("schema", pa.string()),
            ("table", pa.string()),
            ("table_id", pa.string()),
            ("version", pa.int64()),
            ("dropped_at", _TIME),
            ("expires_at", _TIME),
            ("size_in_bytes", pa.int64()),
        ]
    )

    def __init__(self, trash: Trash) -> None:
        self._trash = trash

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, which are always the same."""
        del parameters
        check(call, Privilege.ADMIN)
        return self.columns

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Look into the trash; Spark has no part in it."""
        del options
        check(call, Privilege.ADMIN)
        return pa.RecordBatchReader.from_batches(self.columns, call.checked(self._batches(parameters[0])))

    def _batches(self, schema: str | None) -> Iterator[pa.RecordBatch]:
        for table in self._trash.tables():
            if schema is not None and table.schema.lower() != schema.lower():
                continue
            header = _header(table)
            row = {
                "schema": table.schema,
                "table": table.name,
                "table_id": header and header.metadata.table_id,
                "version": header and header.version,
                "dropped_at": _time(table.dropped_ms),
                "expires_at": _time(self._trash.expires_ms(table)),
                "size_in_bytes": _size(table.folder),
            }
            yield pa.RecordBatch.from_pylist([row], self.columns)


class UndropTable:
    """Brings back the table of that name that was dropped last. Reading the row does it, once."""

    name = "undrop"
    comment = "Brings back the table of that name that was dropped last"
    signature = FunctionSignature((Parameter("table", pa.string()),))
    columns = pa.schema([("schema", pa.string()), ("table", pa.string()), ("dropped_at", _TIME)])

    def __init__(self, find: FindDropped, undrop: Undrop) -> None:
        self._find = find
        self._undrop = undrop

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns, once the table is known to be in the trash and its name to be free."""
        schema, table = _name(parameters)
        check(call, Privilege.CREATE, schema, table)
        self._find(call, schema, table)
        return self.columns

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Move the table back and say which one it was."""
        del options
        schema, table = _name(parameters)
        check(call, Privilege.CREATE, schema, table)
        return pa.RecordBatchReader.from_batches(self.columns, self._batches(call, schema, table))

    def _batches(self, call: Call, schema: str, table: str) -> Iterator[pa.RecordBatch]:
        dropped = self._undrop(call, schema, table)
        row = {"schema": dropped.schema, "table": dropped.name, "dropped_at": _time(dropped.dropped_ms)}
        yield pa.RecordBatch.from_pylist([row], self.columns)


def _name(parameters: Sequence[Any]) -> tuple[str, str]:
    if not isinstance(parameters[0], str):
        raise InvalidRequestError("the name of the table is NULL")
    return schema_and_table(parameters[0])


def _header(table: DroppedTable) -> TableHeader | None:
    """Return the header of a dropped table; None if its log is damaged, or it is being restored."""
    try:
        return DeltaLog(str(table.folder)).header()
    except (SparkportError, OSError):
        return None


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _size(folder: Path) -> int:
    total = 0
    for inner, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(inner, name).lstat().st_size
            except FileNotFoundError:
                continue  # being removed
    return total
