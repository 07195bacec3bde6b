"""Transactions on tables as Spark makes them: without deletion vectors, and with CHECKs of Delta's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import Call, ScanOptions
from sparkport.catalog.transactions import TransactionMode
from sparkport.errors import ConflictError, ConstraintViolationError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.delta.commit.private_log import PrivateLog
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import log_text, newest, rows
from tests.spark.write.test_commit_ways import engine_of

Make = Callable[..., DeltaTable]


@pytest.fixture(scope="module")
def lake(spark_host: SparkHost) -> Iterator[SparkCatalog]:
    """Return a catalog that gives row ids to the tables of others."""
    engine = Engine(spark_host, adopts=True)
    yield SparkCatalog(engine)
    engine.jobs.close()


@pytest.fixture
def make(lake: SparkCatalog, schema: SparkSchema, spark: SparkSession) -> Make:
    """Return what makes a table of Spark's own, without deletion vectors and with row ids."""

    def made(*statements: str) -> DeltaTable:
        root = Path(lake.engine.warehouse.root, f"{schema.name}.db", "t")
        off = "TBLPROPERTIES (delta.enableDeletionVectors = false)"
        create = f"CREATE TABLE {{t}} (k BIGINT, n INT, p STRING) USING delta PARTITIONED BY (p) {off}"
        first = "INSERT INTO {t} VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, NULL), (4, 40, 'b')"
        for statement in (create, *statements, first):
            spark.sql(statement.format(t=f"delta.`{root}`")).collect()
        own = lake.schema(Call(), schema.name)
        table = None if own is None else own.table(Call(), "t")
        assert isinstance(table, DeltaTable)
        with pytest.raises(PreconditionError, match="provisional"):
            table.delete(Call(), pa.array([ids(table, Call())[1]]))
        return table

    return made


def ids(table: DeltaTable, call: Call) -> dict[int, int]:
    """Return the row id of each key that a call sees."""
    found = table.scan(call, ScanOptions(columns=("k", "rowid"))).read_all()
    return dict(zip(found["k"].to_pylist(), found["rowid"].to_pylist(), strict=True))


def begin(lake: SparkCatalog) -> Call:
    """Return a call of a new staged transaction."""
    return Call(transaction_id=lake.transactions.begin_transaction(Call(), TransactionMode.STAGED))


def commit(lake: SparkCatalog, call: Call) -> None:
    """Commit a transaction."""
    assert call.transaction_id is not None
    lake.transactions.commit_transaction(Call(), call.transaction_id)


def insert(table: DeltaTable, call: Call, *values: tuple[int, int | None, str]) -> None:
    """Insert rows."""
    arrow_schema = pa.schema([("k", pa.int64()), ("n", pa.int32()), ("p", pa.string())])
    found = [dict(zip(arrow_schema.names, row, strict=True)) for row in values]
    table.insert(call, pa.Table.from_pylist(found, arrow_schema).to_reader())


def update(table: DeltaTable, call: Call, key: int, number: int | None) -> None:
    """Set the number of a row."""
    new = pa.table({"n": pa.array([number], pa.int32())})
    table.update(call, pa.array([ids(table, call)[key]]), new.to_reader())


def delete(table: DeltaTable, call: Call, *keys: int) -> None:
    """Delete rows."""
    known = ids(table, call)
    table.delete(call, pa.array([known[key] for key in keys]))


def by_spark(table: DeltaTable, spark: SparkSession) -> list[tuple[int, int, str]]:
    """Return the rows as Spark finds them."""
    found = spark.read.format("delta").load(table.root).select("k", "n", "p").collect()
    return sorted(map(tuple, found))


def test_rows_are_changed_without_deletion_vectors(
    lake: SparkCatalog, make: Make, spark: SparkSession, tmp_path: Path
) -> None:
    """What is left of the files is written again; others see it after the commit, and rows keep their ids."""
    table = make()
    before = ids(table, Call())
    call = begin(lake)
    update(table, call, 1, 11)
    delete(table, call, 3)
    insert(table, call, (5, 50, "a"), (6, 60, "c"))
    delete(table, call, 5)
    update(table, call, 6, 61)
    inside = [(row["k"], row["n"]) for row in table.scan(call, ScanOptions()).read_all().to_pylist()]
    outside = by_spark(table, spark)
    private = PrivateLog(str(tmp_path / "private"), table.root)
    private.show(table.versions.at(call, None).state)
    in_queries = spark.read.format("delta").load(private.folder).select("k", "n").collect()
    commit(lake, call)

    assert sorted(inside) == sorted(map(tuple, in_queries)) == [(1, 11), (2, 20), (4, 40), (6, 61)]
    assert outside == [(1, 10, "a"), (2, 20, "a"), (3, 30, None), (4, 40, "b")]
    assert by_spark(table, spark) == [(1, 11, "a"), (2, 20, "a"), (4, 40, "b"), (6, 61, "c")]
    assert engine_of(table) == "sparkport"
    assert "deletionVector" not in log_text(table, newest(table))
    after = ids(table, Call())
    assert {key: after[key] for key in (1, 2, 4)} == {key: before[key] for key in (1, 2, 4)}
    assert spark.read.format("delta").load(table.root).where("p = 'c' AND n > 60").count() == 1


def test_others_change_other_rows_of_the_same_file(
    lake: SparkCatalog, make: Make, spark: SparkSession
) -> None:
    """A file that others have rewritten meanwhile has the rows elsewhere; the same row is a conflict."""
    table = make()
    first, second, third = begin(lake), begin(lake), begin(lake)
    update(table, first, 1, 11)
    delete(table, second, 2)
    update(table, third, 1, 13)
    commit(lake, first)
    commit(lake, second)
    with pytest.raises(ConflictError, match="changed the same rows"):
        commit(lake, third)
    fourth = begin(lake)
    update(table, fourth, 4, 44)
    spark.sql(f"UPDATE delta.`{table.root}` SET n = n + 1 WHERE k <> 4").collect()
    commit(lake, fourth)

    assert by_spark(table, spark) == [(1, 12, "a"), (3, 31, None), (4, 44, "b")]


def test_checks_of_delta_are_evaluated_by_spark(lake: SparkCatalog, make: Make, spark: SparkSession) -> None:
    """A row that breaks one, or makes it NULL, is refused at its statement; the transaction goes on."""
    check = "n % 1000 < 100 AND coalesce(p, '') <> 'z'"
    table = make(f"ALTER TABLE {{t}} ADD CONSTRAINT small CHECK ({check})")
    staging = Path(lake.engine.staging)
    before = set(staging.glob("*/"))  # of transactions of other tests
    call = begin(lake)
    insert(table, call, (5, 50, "a"))
    with pytest.raises(ConstraintViolationError, match=r"CHECK \(n % 1000 < 100"):
        insert(table, call, (6, 60, "a"), (7, 170, "a"))
    with pytest.raises(ConstraintViolationError):
        insert(table, call, (8, None, "a"))
    with pytest.raises(ConstraintViolationError):
        update(table, call, 1, 999)
    update(table, call, 2, 1020)
    delete(table, call, 3)
    staged = set(staging.glob("*/")) - before
    commit(lake, call)
    late = begin(lake)
    insert(table, late, (9, 90, "a"))
    spark.sql(f"ALTER TABLE delta.`{table.root}` ADD CONSTRAINT more CHECK (n IS NOT NULL)").collect()
    with pytest.raises(ConflictError, match="columns were altered"):
        commit(lake, late)

    assert by_spark(table, spark) == [(1, 10, "a"), (2, 1020, "a"), (4, 40, "b"), (5, 50, "a")]
    assert len(staged) == 1
    assert [row["k"] for row in rows(table)] == [1, 2, 4, 5]


def test_file_of_unknown_length_is_not_changed(lake: SparkCatalog, make: Make) -> None:
    """Without the number of its rows nobody knows whether a file has others: nothing of it may be lost."""
    table = make()
    version = newest(table)
    add = next(
        action["add"]
        for number in range(version, 0, -1)
        for action in map(json.loads, log_text(table, number).splitlines())
        if "add" in action and action["add"]["partitionValues"]["p"] == "a"
    )
    lines = [{"commitInfo": {}}, {"add": {name: add[name] for name in add if name != "stats"}}]
    log = Path(table.root, "_delta_log", f"{version + 1:020}.json")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    call = begin(lake)
    with pytest.raises(PreconditionError, match="how many rows its files have"):
        delete(table, call, 1)
    delete(table, call, 4)
    commit(lake, call)

    assert [row["k"] for row in rows(table)] == [1, 2, 3]
