"""ALTER TABLE as others see it: commits, history, plain Spark, concurrent writers."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import (
    AddColumn,
    AddConstraint,
    AddField,
    Call,
    ChangeColumnType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    SetDefault,
    SetNotNull,
    TableChange,
)
from sparkport.errors import ConflictError, PreconditionError, UnsupportedOperationError
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.ddl import alter as altering
from sparkport.spark.delta_jvm.metadata_commit import MetadataChange
from sparkport.spark.sql_names import quoted
from tests.spark.ddl.tables import actions, ids, inserted, made, newest, rows

POINT = pa.struct([("x", pa.int32()), ("y", pa.uint8())])
ROWS = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "u": pa.array([1, None, 255], pa.uint8()),
        "p": pa.array([{"x": 1, "y": 2}, None, {"x": None, "y": 3}], POINT),
    }
)

METADATA_ONLY: list[TableChange] = [
    AddColumn(pa.field("b", pa.uint64(), metadata={"comment": "more"})),
    RenameColumn("b", "c"),
    SetDefault("c", "7"),
    SetNotNull("a"),
    AddField(("p",), pa.field("z", pa.string())),
    RenameField(("p", "x"), "ex"),
    RemoveField(("p", "y")),
    RemoveField(("p", "ex")),
    AddConstraint("CHECK (length(CAST(a AS VARCHAR)) < 4)"),
    DropNotNull("a"),
    RemoveColumn("u"),
]
REWRITING: list[TableChange] = [
    AddColumn(pa.field("d", pa.uint16(), nullable=False, metadata={"default": "40 + 2"})),
    ChangeColumnType("a", pa.string(), "'n' || (10 * a)"),
]


def test_change_after_rows_of_the_servers_own_commit_starts_no_job(
    schema: SparkSchema, spark: SparkSession
) -> None:
    """Delta finds in the checksum what it needs, and does not compute it from the whole log."""
    table = made(schema, ROWS)
    inserted(table, a=4)
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()

    table.alter(Call(), AddColumn(pa.field("b", pa.int64())))

    assert scheduler.numTotalJobs() == before


def test_every_change_is_one_commit_and_history_stays(schema: SparkSchema, spark: SparkSession) -> None:
    """Rows are rewritten only where values change, ids never change, and all old versions can be read."""
    table = made(schema, ROWS)
    before, first = ids(table), rows(table)
    for change in METADATA_ONLY[:-3]:
        table.alter(Call(), change)
        assert actions(table, newest(table)) == ["commitInfo", "metaData"], change
    altered = rows(table)
    for change in METADATA_ONLY[-3:]:
        table.alter(Call(), change)
        assert actions(table, newest(table)) == ["commitInfo", "metaData"], change
    for change in REWRITING:
        table.alter(Call(), change)
        assert set(actions(table, newest(table))) == {"commitInfo", "metaData", "add", "remove"}, change

    assert newest(table) == 1 + len(METADATA_ONLY) + len(REWRITING)
    assert ids(table) == before
    assert rows(table, 1) == first
    assert altered == rows(table, len(METADATA_ONLY) - 2)
    # The structs that are there have none of the fields that are left.
    assert rows(table) == [
        {"a": "n10", "p": {"z": None}, "c": None, "d": 42},
        {"a": "n20", "p": None, "c": None, "d": 42},
        {"a": "n30", "p": {"z": None}, "c": None, "d": 42},
    ]
    assert inserted(table, a="n9", p={"z": "new"}, c=2**64 - 1, d=1) == 1
    seen = spark.sql(f"SELECT a, p.z, c, d FROM delta.{quoted(table.root)} WHERE d = 1").collect()
    assert [tuple(row) for row in seen] == [("n9", "new", 2**64 - 1, 1)]
    assert table.arrow_schema.field("c").metadata == {b"comment": b"more", b"default": b"7"}
    assert not table.arrow_schema.field("d").nullable


def test_changes_of_a_table_without_rows_write_no_files(schema: SparkSchema) -> None:
    """What no row is there for needs metadata alone."""
    table = made(schema, ROWS.schema.empty_table())
    for change in REWRITING:
        table.alter(Call(), change)

        assert actions(table, newest(table)) == ["commitInfo", "metaData"]
    assert inserted(table, a="x", u=1, p=None, d=3) == 1
    assert rows(table) == [{"a": "x", "u": 1, "p": None, "d": 3}]


def test_column_that_was_dropped_does_not_come_back(schema: SparkSchema) -> None:
    """A new column of an old name has none of the old values, even of the same type."""
    table = made(schema, ROWS)
    table.alter(Call(), RemoveColumn("a"))
    table.alter(Call(), AddColumn(pa.field("a", pa.int64())))
    table.alter(Call(), RemoveField(("p", "x")))
    table.alter(Call(), AddField(("p",), pa.field("x", pa.int32())))

    assert [row["a"] for row in rows(table)] == [None, None, None]
    assert [row["p"] and row["p"]["x"] for row in rows(table)] == [None, None, None]


def test_column_may_take_the_name_of_the_hidden_one(schema: SparkSchema) -> None:
    """The user's column goes before; the one that keeps the row ids gets out of the way."""
    table = made(schema, ROWS)
    before = ids(table)
    table.alter(Call(), RenameColumn("a", "_sparkport_rowid"))
    table.alter(Call(), AddColumn(pa.field("__sparkport_rowid", pa.int64())))
    inserted(table, _sparkport_rowid=4, u=None, p=None, __sparkport_rowid=5)

    assert ids(table)[:3] == before
    assert [row["_sparkport_rowid"] for row in rows(table)] == [1, 2, 3, 4]
    assert table.delete(Call(), pa.array(before)).affected_rows == 3


def test_statement_that_began_before_a_change_is_told(schema: SparkSchema) -> None:
    """Rows for columns that are no more are refused, and nothing of them stays."""
    table = made(schema, ROWS)
    statement = table.begin_insert(Call(), returning=False)
    statement.write(ROWS.to_batches()[0])
    table.alter(Call(), AddConstraint("UNIQUE (a)"))

    with pytest.raises(ConflictError, match="columns were altered meanwhile"):
        statement.commit()
    assert len(rows(table)) == 3


def test_change_is_made_again_when_another_writer_was_faster(
    schema: SparkSchema, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that come between the reading and the commit are part of the changed table."""
    table = made(schema, ROWS.select(["a"]))
    original = altering._log_change
    others = iter([4])

    def delayed(*arguments: object) -> MetadataChange:
        for value in others:
            spark.sql(f"INSERT INTO delta.{quoted(table.root)} VALUES ({value}, NULL)").collect()
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(altering, "_log_change", delayed)
    table.alter(Call(), ChangeColumnType("a", pa.string()))

    assert [row["a"] for row in rows(table)] == ["1", "2", "3", "4"]


def test_rows_written_while_a_table_is_altered_all_arrive(schema: SparkSchema) -> None:
    """Writers of this server wait for a change, and those that began before try again."""
    table = made(schema, ROWS.select(["a"]))
    failures: list[BaseException] = []

    def write(start: int) -> None:
        for value in range(start, start + 3):
            for _ in range(20):
                try:
                    arrow_schema = pa.schema([field for field in table.arrow_schema if field.name != "rowid"])
                    batch = pa.Table.from_pylist([{"a": value}], arrow_schema)
                    table.insert(Call(), batch.to_reader())
                    break
                except ConflictError:
                    continue
                except BaseException as error:
                    failures.append(error)
                    raise

    threads = [threading.Thread(target=write, args=(start,)) for start in (10, 20)]
    for thread in threads:
        thread.start()
    for name in ("b", "c", "d"):
        table.alter(Call(), AddColumn(pa.field(name, pa.int8())))
    for thread in threads:
        thread.join()

    assert failures == []
    assert [row["a"] for row in rows(table)] == sorted([1, 2, 3, 10, 11, 12, 20, 21, 22], key=repr)


def test_table_of_another_is_altered_as_far_as_it_can_be(schema: SparkSchema, spark: SparkSession) -> None:
    """Without column mapping columns are added and converted; renaming and dropping need it first."""
    path = f"{schema._tables.engine.warehouse.schema_folder(schema.name)}/plain"
    target = f"delta.{quoted(path)}"
    spark.sql(
        f"CREATE TABLE {target} (a INT, part STRING, c INT) USING delta PARTITIONED BY (part)"
    ).collect()
    spark.sql(f"INSERT INTO {target} VALUES (1, 'x', 5), (2, 'y', 6)").collect()
    table = schema.delta_table(Call(), "plain")
    assert table is not None
    for change in (RenameColumn("a", "b"), RemoveColumn("a")):
        with pytest.raises(PreconditionError, match=r"set its property delta\.columnMapping\.mode to 'name'"):
            table.alter(Call(), change)
    table.alter(Call(), AddColumn(pa.field("n", pa.int64(), metadata={"default": "7"})))
    table.alter(Call(), ChangeColumnType("c", pa.string(), "part || c"))
    spark.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").collect()
    table.alter(Call(), RenameColumn("part", "section"))
    with pytest.raises(UnsupportedOperationError, match="the table is partitioned by the column"):
        table.alter(Call(), RemoveColumn("section"))

    assert rows(table) == [
        {"a": 1, "section": "x", "c": "x5", "n": 7},
        {"a": 2, "section": "y", "c": "y6", "n": 7},
    ]
    assert rows(table, 1) == [{"a": 1, "part": "x", "c": 5}, {"a": 2, "part": "y", "c": 6}]
    assert inserted(table, a=3, section="x", c="w", n=1) == 1
    found = spark.sql(f"SELECT a FROM {target} WHERE section = 'x' ORDER BY a").collect()
    assert [row.a for row in found] == [1, 3]
