"""What tests of row ids ask a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkport.catalog import Call
from sparkport.spark.table import DeltaTable
from tests.spark.read.lake import Lake, Way


def delete(table: DeltaTable, ids: list[int], call: Call | None = None) -> int:
    """Delete rows and return how many were there."""
    return table.delete(call or Call(), pa.array(ids, pa.int64())).affected_rows


def ids_of(lake: Lake, name: str, way: Way = Way.TASKS) -> dict[int, int]:
    """Return the row ids by the values of the column `id`."""
    found = lake.read(name, way=way)
    return dict(zip(found["id"].to_pylist(), found["rowid"].to_pylist(), strict=True))


def newest(table: DeltaTable) -> int:
    """Return the number of the newest commit."""
    return max(int(path.stem) for path in Path(table.root, "_delta_log").glob("*.json"))


def actions(table: DeltaTable, version: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the actions of a commit with their kinds."""
    text = Path(table.root, "_delta_log", f"{version:020}.json").read_text(encoding="utf-8")
    return [next(iter(json.loads(line).items())) for line in text.splitlines()]
