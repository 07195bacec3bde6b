"""DDL in a process that uses Spark Connect: `connect_client.py ADDRESS WAREHOUSE`; the outcome is JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa

from sparkport.catalog import (
    AddColumn,
    AddConstraint,
    Call,
    ChangeColumnType,
    CreateSchemaOptions,
    CreateTableOptions,
    DropNotNull,
    OnConflict,
    RemoveColumn,
    RenameColumn,
    ScanOptions,
    SetDefault,
    TableChange,
)
from sparkport.errors import SparkportError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from sparkport.spark.session.settings import SparkSettings
from sparkport.spark.table import DeltaTable

START = pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]})
MADE: list[TableChange] = [
    AddColumn(pa.field("u", pa.uint8(), metadata={"comment": "small"})),
    RenameColumn("a", "the `key`"),
    DropNotNull("the `key`"),
    AddConstraint("UNIQUE (b)"),
    AddColumn(pa.field("gone", pa.int8())),
    RemoveColumn("gone"),
]
REFUSED: list[TableChange] = [
    SetDefault("b", "'z'"),
    ChangeColumnType("b", pa.binary()),
    RenameColumn("b", "c"),
]


def error_of(table: DeltaTable, change: TableChange) -> str:
    """Return what is said to a change that cannot be made."""
    try:
        table.alter(Call(), change)
    except SparkportError as error:
        return str(error)
    return "no error"


def inserted(table: DeltaTable, row: dict[str, Any]) -> str:
    """Insert a row and return what is said to it."""
    fields = [field for field in table.arrow_schema if field.name != "rowid"]
    try:
        table.insert(Call(), pa.Table.from_pylist([row], pa.schema(fields)).to_reader())
    except SparkportError as error:
        return str(error)
    return "inserted"


def repeated(catalog: SparkCatalog, schema: SparkSchema) -> dict[str, Any]:
    """Send each statement twice under one key; return the counts, the commits and the rows."""
    table = schema.create_table(Call(), "twice", pa.schema([("n", pa.int64())]), CreateTableOptions())
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    counts = [table.insert(Call(idempotency_key="i"), rows.to_reader()).affected_rows for _ in range(2)]
    first, second, _ = sorted(table.scan(Call(), ScanOptions()).read_all()["rowid"].to_pylist())
    ten = pa.table({"n": pa.array([10], pa.int64())})
    for _ in range(2):
        updated = table.update(Call(idempotency_key="u"), pa.array([first]), ten.to_reader())
        deleted = table.delete(Call(idempotency_key="d"), pa.array([second]))
        counts += [updated.affected_rows, deleted.affected_rows]
    found = table.scan(Call(), ScanOptions(columns=("n",))).read_all()["n"].to_pylist()
    commits = catalog.engine.log(table.root).newest_version()
    return {"counts": counts, "commits": commits, "rows": sorted(found)}


def ran(catalog: SparkCatalog) -> dict[str, Any]:
    """Make, alter, fill and replace a table."""
    schema = catalog.create_schema(Call(), "s", CreateSchemaOptions())
    options = CreateTableOptions(check_constraints=("b <> 'it''s \\'",), not_null_constraints=(0,))
    table = schema.create_table(Call(), "t", START.schema, options)
    table.insert(Call(), START.to_reader())
    before = catalog.engine.log(table.root).newest_version()
    for change in MADE:
        table.alter(Call(), change)
    outcome: dict[str, Any] = {
        "commits": catalog.engine.log(table.root).newest_version() - before,
        "type": str(table.arrow_schema.field("u").type),
        "comment": table.arrow_schema.field("u").metadata[b"comment"].decode(),
        "refused": [error_of(table, change) for change in REFUSED],
        "inserted": [inserted(table, {"b": text, "u": 255}) for text in ("x", "it's \\", "z")],
        "rows": table.scan(Call(), ScanOptions(columns=("the `key`", "b", "u"))).read_all().to_pylist(),
    }
    replacing = CreateTableOptions(OnConflict.REPLACE, comment="it's new", check_constraints=("c > 0",))
    table = schema.create_table(Call(), "t", pa.schema([("c", pa.int64())]), replacing)
    outcome["repeated"] = repeated(catalog, schema)
    outcome["replaced"] = [table.comment, list(table.constraints.checks), table.arrow_schema.names]
    return outcome


def main() -> None:
    """Run everything and write the outcome."""
    host = SparkHost(SparkSettings(sys.argv[2], remote=sys.argv[1], warm_up=False))
    host.session(Call(timeout=100))
    engine = Engine(host)
    outcome = ran(SparkCatalog(engine))
    engine.close()
    sys.stdout.write("\n" + json.dumps(outcome))


if __name__ == "__main__":
    main()
