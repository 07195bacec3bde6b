"""What was acknowledged is on the disk: a statement ends when its commit is written through."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, CreateSchemaOptions, DropSchemaOptions, DropTableOptions
from sparkport.catalog.ddl import AddColumn, ChangeColumnType, CreateTableOptions, OnConflict, RenameTable
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.delta.commit.durability import Durability
from sparkport.spark.delta.files.data_files import MAX_ROWS
from sparkport.spark.delta.files.deletion_vectors import vector_location
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta_jvm.bridge import Actions
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import ids, inserted, made, newest

from .disk import Identity, identities


def written(table: DeltaTable) -> set[Identity]:
    """Return all that a power failure must not take away from a table."""
    root = Path(table.root)
    paths = {root, root / "_delta_log", *(root / "_delta_log").glob("*.json")}
    for file in DeltaLog(table.root).snapshot().files:
        paths.add(Path(file.path))
        if file.deletion_vector is not None:
            paths.add(Path(vector_location(file.deletion_vector, table.root) or root))
    return identities(paths)


def many(table: DeltaTable) -> None:
    """Insert more rows than are kept in memory."""
    rows = pa.table({"n": pa.array(range(MAX_ROWS + 1), pa.int64())})
    table.insert(Call(), rows.to_reader())


def update(table: DeltaTable) -> None:
    """Change a row."""
    changed = pa.table({"n": pa.array([7], pa.int64())})
    table.update(Call(), pa.array(ids(table)[:1]), changed.to_reader())


def delete(table: DeltaTable) -> None:
    """Remove a row."""
    table.delete(Call(), pa.array(ids(table)[:1]))


def alter(table: DeltaTable) -> None:
    """Add a column."""
    table.alter(Call(), AddColumn(pa.field("more", pa.string())))


def rename(table: DeltaTable) -> None:
    """Give the table another name."""
    table.alter(Call(), RenameTable("renamed"))


STATEMENTS: dict[str, Callable[[DeltaTable], object]] = {
    "small INSERT": lambda table: inserted(table, n=3),
    "large INSERT": many,
    "UPDATE": update,
    "DELETE": delete,
    "ALTER": alter,
    "RENAME": rename,
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_ends_when_its_commit_is_on_the_disk(
    schema: SparkSchema, synced: set[Identity], statement: str
) -> None:
    """The files that it names, the log, and the folders that name them are written through."""
    table = made(schema, pa.table({"n": pa.array([1, 2], pa.int64())}))
    STATEMENTS[statement](table)

    assert newest(table) == 2
    assert written(table) <= synced


def rewrite(table: DeltaTable) -> None:
    """Change the type of a column, for which all rows are written again."""
    table.alter(Call(), ChangeColumnType("n", pa.string(), "CAST(n AS VARCHAR)"))


WRITING: dict[str, Callable[[DeltaTable], object]] = {
    **{name: STATEMENTS[name] for name in ("small INSERT", "large INSERT", "UPDATE", "DELETE")},
    "ALTER": rewrite,
}


@pytest.mark.parametrize(
    ("statement", "by_spark"),
    [*((name, False) for name in WRITING), *((name, True) for name in WRITING if name != "ALTER")],
)
def test_files_are_on_the_disk_before_a_commit_names_them(
    schema: SparkSchema,
    spark: SparkSession,
    synced: set[Identity],
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    *,
    by_spark: bool,
) -> None:
    """A power failure right after the commit leaves no table whose files are not there."""
    table = made(schema, pa.table({"n": pa.array([1, 2], pa.int64())}))
    if by_spark:  # a CHECK of Delta's own, and no deletion vectors, leave the files to Spark
        location = f"delta.`{table.root}`"
        spark.sql(f"ALTER TABLE {location} ADD CONSTRAINT small CHECK (n < 1000000)").collect()
        spark.sql(f"ALTER TABLE {location} SET TBLPROPERTIES (delta.enableDeletionVectors = false)").collect()
    before: list[set[Identity]] = []
    sequence, link = Actions.sequence, os.link

    def watched(actions: Actions) -> object:
        before.append(set(synced))
        return sequence(actions)

    def linked(path: str, target: str) -> None:
        before.append(set(synced))
        link(path, target)

    monkeypatch.setattr(Actions, "sequence", watched)  # what Delta commits
    monkeypatch.setattr(os, "link", linked)  # what the server commits
    known = {file.path for file in DeltaLog(table.root).snapshot().files}
    synced.clear()
    WRITING[statement](table)
    found = DeltaLog(table.root).snapshot().files
    paths = {Path(table.root), *(Path(file.path) for file in found if file.path not in known)}
    vectors = [vector_location(file.deletion_vector, table.root) for file in found if file.deletion_vector]

    assert identities([*paths, *(Path(path) for path in vectors if path)]) <= before[-1]


def test_new_tables_and_schemas_are_on_the_disk(
    catalog: SparkCatalog, schema: SparkSchema, synced: set[Identity]
) -> None:
    """Their folders are known to those that they are in."""
    table = made(schema, pa.table({"n": pa.array([], pa.int64())}))
    fresh = f"{schema.name}_fresh"
    catalog.create_schema(Call(), fresh, CreateSchemaOptions(comment="new"))
    folder = Path(catalog.engine.warehouse.schema_folder(fresh))

    assert identities(Path(table.root).parents[:2]) <= synced
    assert identities([folder.parent, folder, folder / "_sparkport.json"]) <= synced


def test_what_is_dropped_stays_so(catalog: SparkCatalog, schema: SparkSchema, synced: set[Identity]) -> None:
    """That a folder is gone is written through as well."""
    table = made(schema, pa.table({"n": pa.array([], pa.int64())}))
    folder = Path(table.root).parent
    of_table, of_schema = identities([folder]), identities([folder.parent])
    synced.clear()
    schema.drop_table(Call(), "t", DropTableOptions())
    with_table = set(synced)
    catalog.drop_schema(Call(), schema.name, DropSchemaOptions())

    assert of_table <= with_table
    assert of_schema <= synced


def test_replaced_table_is_on_the_disk(schema: SparkSchema, synced: set[Identity]) -> None:
    """CREATE OR REPLACE is a commit like others."""
    table = made(schema, pa.table({"n": pa.array([1], pa.int64())}))
    options = CreateTableOptions(on_conflict=OnConflict.REPLACE)
    schema.create_table(Call(), "t", pa.schema([("other", pa.string())]), options)

    assert newest(table) == 2
    assert written(table) <= synced


def test_each_commit_is_written_through_once(
    schema: SparkSchema, spark: SparkSession, synced: set[Identity]
) -> None:
    """Commits since the first statement are, whoever made them; those before, and once more, are not."""
    table = made(schema, pa.table({"n": pa.array([1], pa.int64())}))
    durability, log = Durability(), DeltaLog(table.root)
    durability.begin(log)
    for number in (3, 4):
        spark.sql(f"INSERT INTO delta.`{table.root}` (n) VALUES ({number})").collect()
    commits = [identities([Path(table.root, "_delta_log", f"{version:020}.json")]) for version in range(4)]
    synced.clear()
    durability.reach(log)
    first = [commit <= synced for commit in commits]
    synced.clear()
    durability.reach(log)

    assert first == [False, False, True, True]
    assert synced == set()
