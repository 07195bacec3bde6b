"""Tables of the tests of DDL, in a few words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkport.catalog import Call, CreateTableOptions, ScanOptions, TimePoint, TimeUnit
from sparkport.catalog.rowid import without_rowid
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.table import DeltaTable


def made(
    schema: SparkSchema,
    rows: pa.Table,
    options: CreateTableOptions | None = None,
    name: str = "t",
) -> DeltaTable:
    """Return a new table with these rows."""
    table = schema.create_table(Call(), name, rows.schema, options or CreateTableOptions())
    if len(rows):
        table.insert(Call(), rows.to_reader())
    return table


def inserted(table: DeltaTable, **values: Any) -> int:
    """Insert one row and return the count."""
    batch = pa.Table.from_pylist([values], without_rowid(table.arrow_schema))
    return table.insert(Call(), batch.to_reader()).affected_rows


def rows(table: DeltaTable, version: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a version, without their ids and in order."""
    point = None if version is None else TimePoint(TimeUnit.VERSION, str(version))
    found = table.scan(Call(), ScanOptions(time_point=point)).read_all()
    hidden = [name for name in found.column_names if name == "rowid"]
    listed: list[dict[str, Any]] = found.drop_columns(hidden).to_pylist()
    return sorted(listed, key=repr)


def ids(table: DeltaTable) -> list[int]:
    """Return the row ids in order."""
    found: list[int] = table.scan(Call(), ScanOptions(columns=("rowid",))).read_all()["rowid"].to_pylist()
    return sorted(found)


def newest(table: DeltaTable) -> int:
    """Return the number of the newest commit."""
    return max(int(path.stem) for path in Path(table.root, "_delta_log").glob("*.json"))


def actions(table: DeltaTable, version: int) -> list[str]:
    """Return the kinds of actions of a commit."""
    return [next(iter(json.loads(line))) for line in log_text(table, version).splitlines()]


def log_text(table: DeltaTable, version: int) -> str:
    """Return a commit as it is written."""
    return Path(table.root, "_delta_log", f"{version:020}.json").read_text(encoding="utf-8")
