"""What a transaction has read is compared whatever else it does in between."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.ddl import RemoveColumn, RenameTable
from sparkport.errors import ConflictError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import inserted, made

ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "n": pa.array([0, 0], pa.int64())})


def begin(catalog: SparkCatalog) -> Call:
    """Return a call of a new transaction."""
    return Call(transaction_id=catalog.transactions.begin_transaction(Call()))


def read(table: DeltaTable, call: Call) -> dict[int, tuple[int, int]]:
    """Return the row id and the number of each key."""
    rows = table.scan(call, ScanOptions()).read_all().to_pylist()
    return {row["k"]: (row["rowid"], row["n"]) for row in rows}


def write(table: DeltaTable, call: Call, row_id: int, number: int) -> None:
    """Set the number of a row."""
    rows = pa.table({"n": pa.array([number], pa.int64())})
    table.update(call, pa.array([row_id], pa.int64()), rows.to_reader())


def test_table_that_was_made_later_is_fixed_when_it_is_first_read(
    catalog: SparkCatalog, schema: SparkSchema
) -> None:
    """A table that was not there when the transaction was first used is no exception."""
    used = made(schema, ROWS, name="used")
    call = begin(catalog)
    read(used, call)
    table = made(schema, ROWS)
    row_id, _ = read(table, call)[1]
    write(table, Call(), row_id, 7)

    assert read(table, call)[1] == (row_id, 0)
    with pytest.raises(ConflictError):
        write(table, call, row_id, 5)
    assert read(table, Call())[1] == (row_id, 7)


@pytest.mark.parametrize("change", [RemoveColumn("nope", if_exists=True), RenameTable("other")], ids=str)
def test_commits_of_others_are_not_taken_for_own_ones(
    catalog: SparkCatalog, schema: SparkSchema, change: RemoveColumn | RenameTable
) -> None:
    """Neither by an ALTER of the transaction that changes nothing, nor by a new name of the table."""
    table = made(schema, ROWS)
    call = begin(catalog)
    row_id, _ = read(table, call)[1]
    write(table, Call(), row_id, 7)
    table.alter(call, change)

    assert read(table, call)[1] == (row_id, 0)
    with pytest.raises(ConflictError):
        write(table, call, row_id, 5)
    assert read(table, Call())[1] == (row_id, 7)


def test_own_writes_are_seen_without_those_of_others(catalog: SparkCatalog, schema: SparkSchema) -> None:
    """Files of own commits are combined with the version of the beginning, row by row."""
    table = made(schema, ROWS)
    call = begin(catalog)
    mine, theirs = (read(table, call)[key][0] for key in (1, 2))
    inserted(table, k=3, n=3)
    write(table, Call(), theirs, 7)
    write(table, call, mine, 5)
    inserted(table, k=4, n=4)
    table.insert(call, pa.table({"k": pa.array([5], pa.int64()), "n": pa.array([5], pa.int64())}).to_reader())
    seen = {key: number for key, (_, number) in read(table, call).items()}
    table.delete(call, pa.array([mine], pa.int64()))

    assert seen == {1: 5, 2: 0, 5: 5}
    assert {key: number for key, (_, number) in read(table, call).items()} == {2: 0, 5: 5}
    assert {key: number for key, (_, number) in read(table, Call()).items()} == {2: 7, 3: 3, 4: 4, 5: 5}
    with pytest.raises(ConflictError):
        write(table, call, theirs, 8)
