"""Constraints as Delta keeps them, among several writers."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkport.catalog import (
    AddConstraint,
    Call,
    ChangeColumnType,
    CreateTableOptions,
    RemoveColumn,
    RenameColumn,
    TableChange,
    TableConstraints,
)
from sparkport.errors import ConstraintViolationError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.sql_names import quoted
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import ids, inserted, made, newest, rows

PAIR = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array(["x", "y"])})


def test_constraints_are_kept_with_the_table(schema: SparkSchema, catalog: SparkCatalog) -> None:
    """Whoever opens the table next enforces the same, and what is read is what was written."""
    check = "b <> '\"it''s\" `\\'"
    options = CreateTableOptions(check_constraints=(check,), primary_key=("a",), unique_keys=(("b", "a"),))
    made(schema, PAIR, options)
    found = SparkCatalog(catalog.engine).schema(Call(), schema.name)
    assert found is not None
    table = found.table(Call(), "t")

    assert isinstance(table, DeltaTable)
    assert table.constraints == TableConstraints((check,), ("a",), (("b", "a"),))
    with pytest.raises(ConstraintViolationError, match=r"^PRIMARY KEY constraint of table 't' failed"):
        inserted(table, a=1, b="z")


def test_checks_of_deltas_own_hold_for_all_writers(schema: SparkSchema, spark: SparkSession) -> None:
    """They are shown, their violation is one of ours, and they hold their columns."""
    table = made(schema, PAIR, CreateTableOptions(check_constraints=("a < 100",)))
    spark.sql(f"ALTER TABLE delta.{quoted(table.root)} ADD CONSTRAINT small CHECK (b < 'zz')").collect()

    assert table.constraints.checks == ("a < 100", "b < 'zz'")
    with pytest.raises(ConstraintViolationError, match=r"^CHECK constraint of table"):
        inserted(table, a=3, b="zzz")
    with pytest.raises(ConstraintViolationError, match=r"^CHECK \(a < 100\) constraint of table 't' failed"):
        inserted(table, a=100, b="z")
    held: list[TableChange] = [RemoveColumn("B"), RenameColumn("b", "c"), ChangeColumnType("b", pa.binary())]
    for change in held:
        with pytest.raises(PreconditionError, match=r"^column 'b' is used by Delta's CHECK \(b < 'zz'\)"):
            table.alter(Call(), change)
    table.alter(Call(), RemoveColumn("a", cascade=True))
    assert rows(table) == [{"b": "x"}, {"b": "y"}]


def test_keys_hold_among_concurrent_writers(schema: SparkSchema) -> None:
    """Of many that bring the same key at the same time, one wins."""
    table = made(schema, PAIR, CreateTableOptions(primary_key=("a",)))
    outcomes: list[str] = []

    def write(text: str) -> None:
        try:
            inserted(table, a=3, b=text)
            outcomes.append("written")
        except ConstraintViolationError:
            outcomes.append("refused")

    threads = [threading.Thread(target=write, args=(text,)) for text in "pqrs"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["refused", "refused", "refused", "written"]
    assert [row["a"] for row in rows(table)] == [1, 2, 3]


def test_keys_of_many_rows_are_compared_with_the_table(schema: SparkSchema) -> None:
    """More keys than a predicate lists are found by their range, over several files."""
    many = pa.table({"a": pa.array(range(5000), pa.int64()), "b": pa.array(map(str, range(5000)))})
    table = made(schema, many, CreateTableOptions(primary_key=("a",), unique_keys=(("b",),)))
    more = pa.table(
        {"a": pa.array(range(5000, 10000), pa.int64()), "b": pa.array(map(str, range(5000, 10000)))}
    )

    taken = pa.table({"a": [20000], "b": ["4999"]})
    late = pa.table({"a": pa.array(range(9999, 14999), pa.int64()), "b": pa.nulls(5000, pa.string())})

    assert table.insert(Call(), more.to_reader()).affected_rows == 5000
    with pytest.raises(ConstraintViolationError, match=r"UNIQUE .* in column 'b': b='4999'$"):
        table.insert(Call(), taken.to_reader())
    with pytest.raises(ConstraintViolationError, match=r"PRIMARY KEY .* in column 'a': a=9999$"):
        table.insert(Call(), late.to_reader())
    assert newest(table) == 2


def test_update_is_checked_with_the_rest_of_the_row(schema: SparkSchema) -> None:
    """A CHECK sees the columns that an UPDATE does not set; what it does not touch costs nothing."""
    options = CreateTableOptions(check_constraints=("a < length(b) * 10",), unique_keys=(("a", "b"),))
    table = made(schema, PAIR, options)
    first, second = ids(table)
    values = pa.table({"a": pa.array([10], pa.int64())})

    with pytest.raises(ConstraintViolationError) as caught:
        table.update(Call(), pa.array([first]), values.to_reader())
    assert str(caught.value) == "CHECK (a < length(b) * 10) constraint of table 't' failed: a=10, b='x'"
    with pytest.raises(ConstraintViolationError, match=r"^UNIQUE .* in column 'a, b': a=1, b='x'$"):
        table.update(Call(), pa.array([second]), pa.table({"a": [1], "b": ["x"]}).to_reader())
    assert table.update(Call(), pa.array([second]), pa.table({"b": ["yyy"]}).to_reader()).affected_rows == 1
    assert table.update(Call(), pa.array([second]), values.to_reader()).affected_rows == 1
    assert rows(table) == [{"a": 1, "b": "x"}, {"a": 10, "b": "yyy"}]


def test_rows_of_outside_writers_count_when_a_constraint_is_added(
    schema: SparkSchema, spark: SparkSession
) -> None:
    """Plain Spark is not checked, but what it has written is."""
    table = made(schema, PAIR, CreateTableOptions(primary_key=("a",)))
    spark.sql(f"INSERT INTO delta.{quoted(table.root)} VALUES (1, 'x', NULL)").collect()

    assert [row["a"] for row in rows(table)] == [1, 1, 2]
    with pytest.raises(ConstraintViolationError, match=r"^UNIQUE .* in column 'b': b='x'$"):
        table.alter(Call(), AddConstraint("UNIQUE (b)"))
    with pytest.raises(ConstraintViolationError, match=r"^PRIMARY KEY .* in column 'a': a=1$"):
        inserted(table, a=1, b="z")
