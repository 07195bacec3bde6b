"""What the behaviour tests need of any engine, in terms of the contracts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa

from sparkport.arrow.taking import take_rows
from sparkport.catalog import (
    AddColumn,
    Call,
    ConstrainedTable,
    CreateTableOptions,
    DeletableTable,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    InsertableTable,
    ScanOptions,
    SplittableTable,
    StatementTable,
    StatisticsTable,
    TimePoint,
    TimeUnit,
    TransactionalCatalog,
    UpdatableTable,
    VersionedCatalog,
    VersionedTable,
)
from sparkport.catalog.rowid import rowid_name, without_rowid
from sparkport.errors import NotFoundError

Row = dict[str, Any]


class FullCatalog(DynamicCatalog, VersionedCatalog, TransactionalCatalog, Protocol):
    """A catalog with every ability."""


class FullTable(
    DynamicTable,
    VersionedTable,
    SplittableTable,
    StatisticsTable,
    ConstrainedTable,
    StatementTable,
    InsertableTable,
    UpdatableTable,
    DeletableTable,
    Protocol,
):
    """A table with every ability."""


def create(
    schema: DynamicSchema,
    columns: pa.Schema | Mapping[str, pa.DataType],
    name: str = "t",
    options: CreateTableOptions | None = None,
) -> FullTable:
    """Make a table."""
    arrow_schema = columns if isinstance(columns, pa.Schema) else pa.schema(list(columns.items()))
    made = schema.create_table(Call(), name, arrow_schema, options or CreateTableOptions())
    return cast("FullTable", made)


def numbers(schema: DynamicSchema, *values: int, name: str = "t") -> FullTable:
    """Make a table of one column `n` with these values."""
    table = create(schema, {"n": pa.int64()}, name)
    insert(table, [{"n": value} for value in values])
    return table


def columns_of(table: FullTable, call: Call | None = None, at: TimePoint | None = None) -> pa.Schema:
    """Return the columns without the row id."""
    return without_rowid(table.snapshot(call or Call(), at).arrow_schema)


def batch(table: FullTable, rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows with the columns of the table."""
    return pa.RecordBatch.from_pylist(list(rows), columns_of(table))


def insert(table: FullTable, rows: Sequence[Row], call: Call | None = None) -> int:
    """Insert rows as one statement and return the count."""
    data = pa.Table.from_batches([batch(table, rows)])
    return table.insert(call or Call(), data.to_reader()).affected_rows


def update(table: FullTable, ids: Sequence[int], changes: Row, call: Call | None = None) -> int:
    """Set columns to lists of values in the rows named, and return the count."""
    schema = columns_of(table)
    data = pa.table({name: pa.array(values, schema.field(name).type) for name, values in changes.items()})
    return table.update(call or Call(), pa.array(ids, pa.int64()), data.to_reader()).affected_rows


def delete(table: FullTable, ids: Sequence[int], call: Call | None = None) -> int:
    """Delete the rows named and return the count."""
    return table.delete(call or Call(), pa.array(ids, pa.int64())).affected_rows


def read(table: FullTable, call: Call | None = None, options: ScanOptions | None = None) -> pa.Table:
    """Return what a scan gives."""
    return table.scan(call or Call(), options or ScanOptions()).read_all()


def rows(table: FullTable, call: Call | None = None, options: ScanOptions | None = None) -> list[Row]:
    """Return the rows without their ids, in the order of these: a scan may have another after changes."""
    found = read(table, call, options)
    hidden = rowid_name(found.schema)
    if hidden is None:
        return cast("list[Row]", found.to_pylist())
    found = pa.Table.from_batches([take_rows(found, np.argsort(found[hidden].to_numpy()))])
    return cast("list[Row]", found.drop_columns([hidden]).to_pylist())


def values(table: FullTable, column: str = "n", call: Call | None = None) -> list[Any]:
    """Return one column in the order of the row ids."""
    return [row[column] for row in rows(table, call)]


def ids(table: FullTable, call: Call | None = None) -> list[int]:
    """Return the row ids in their order."""
    found = read(table, call)
    name = rowid_name(found.schema)
    assert name is not None
    return sorted(found.column(name).to_pylist())


def id_of(table: FullTable, column: str, value: object, call: Call | None = None) -> int:
    """Return the id of the one row with this value."""
    found: dict[object, int] = dict(zip(values(table, column, call), ids(table, call), strict=True))
    return found[value]


def version(table: FullTable) -> int:
    """Return how many versions the table has after its first."""
    newest = 0
    for number in range(1, 1000):
        try:
            table.snapshot(Call(), TimePoint(TimeUnit.VERSION, str(number)))
        except NotFoundError:
            break
        newest = number
    return newest


def at_version(number: int) -> TimePoint:
    """Return the time point of a version."""
    return TimePoint(TimeUnit.VERSION, str(number))


def add(name: str, kind: pa.DataType, default: str = "", *, nullable: bool = True) -> AddColumn:
    """Return the change that adds a column."""
    metadata = {"default": default} if default else None
    return AddColumn(pa.field(name, kind, nullable=nullable, metadata=metadata))
