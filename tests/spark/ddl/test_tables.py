"""Tables that are replaced, renamed and dropped while others use them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkport.catalog import (
    AddColumn,
    Call,
    CreateTableOptions,
    DropTableOptions,
    HasDescription,
    OnConflict,
    RemoveColumn,
    RenameColumn,
    RenameField,
    RenameTable,
    ScanOptions,
    TableDescription,
)
from sparkport.errors import AlreadyExistsError, NotFoundError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.session.host import SparkHost
from sparkport.spark.table import DeltaTable
from tests.spark.ddl.tables import ids, inserted, log_text, made, newest, rows

ROWS = pa.table({"a": pa.array([1, 2], pa.int64())})
OTHER = pa.table({"b": ["x"]})
NAMES = [
    "a `b` \"c\" 'd'; -- dot.ted/and\\back 数据 Grüße 🦆 new\nline=,{}()\t%20 ",
    "..",
    "ü" * 255,
]


def test_replacement_goes_on_with_the_history(schema: SparkSchema) -> None:
    """Older versions and pinned scans stay readable; comment, constraints and rows are new."""
    options = CreateTableOptions(comment="old", primary_key=("a",))
    table = made(schema, ROWS, options)
    pin = table.snapshot(Call(), None).time_point
    replacing = CreateTableOptions(OnConflict.REPLACE, comment="new", check_constraints=("b <> 'y'",))
    table = made(schema, OTHER, replacing, "T")

    assert (table.name, table.comment, newest(table)) == ("T", "new", 3)
    assert table.constraints.checks == ("b <> 'y'",)
    assert table.constraints.primary_key == ()
    assert rows(table) == [{"b": "x"}]
    assert rows(table, 1) == [{"a": 1}, {"a": 2}]
    pinned = table.scan(Call(), ScanOptions(time_point=pin)).read_all()
    assert pinned["a"].to_pylist() == [1, 2]
    assert [found.name for found in schema.tables(Call())] == ["T"]


def test_a_listing_gets_everything_at_once(schema: SparkSchema) -> None:
    """The description of a table is what its properties say, also after it was replaced."""
    old = made(schema, ROWS, CreateTableOptions(comment="old", primary_key=("a",)))
    first = old.describe(Call())
    new = made(schema, OTHER, CreateTableOptions(OnConflict.REPLACE, comment="new"))
    second = new.describe(Call())

    assert isinstance(new, HasDescription)
    assert (first.comment, first.arrow_schema.names[0]) == ("old", "a")
    assert first.constraints is not None
    assert first.constraints.primary_key == ("a",)
    assert second == TableDescription(new.arrow_schema, "new", new.constraints)
    assert second.arrow_schema.names[0] == "b"


def test_metadata_outlives_the_server(schema: SparkSchema, spark_host: SparkHost) -> None:
    """What CREATE TABLE says beside the columns is in the log; a table without it has no such property."""
    metadata = {b"owner": b"ann", b"comment": b"hi"}
    table = made(schema, ROWS.replace_schema_metadata(metadata), CreateTableOptions(comment="hi"))
    plain = made(schema, ROWS, CreateTableOptions(comment="hi"), "plain")
    engine = Engine(spark_host)
    again = SparkCatalog(engine).schema(Call(), schema.name)
    assert isinstance(again, SparkSchema)
    restarted = again.delta_table(Call(), "t")

    assert restarted is not None
    assert restarted.arrow_schema.metadata == metadata
    assert '"sparkport.metadata":"{\\"owner\\": \\"ann\\", \\"comment\\": null}"' in log_text(table, 0)
    assert plain.arrow_schema.metadata is None
    assert "sparkport.metadata" not in log_text(plain, 0)
    engine.jobs.close()


def test_names_are_free_at_once(schema: SparkSchema) -> None:
    """A renamed or dropped table leaves its name to another, and takes its ids with it."""
    first = made(schema, ROWS)
    before = ids(first)
    first.alter(Call(), RenameTable("kept"))
    second = made(schema, OTHER)
    first.alter(Call(), AddColumn(pa.field("c", pa.int8())))
    inserted(first, a=3, c=1)
    schema.drop_table(Call(), "T", DropTableOptions())
    third = made(schema, ROWS)
    with pytest.raises(AlreadyExistsError):
        third.alter(Call(), RenameTable("KEPT"))
    third.alter(Call(), RenameTable("T"))

    assert rows(first) == [{"a": 1, "c": None}, {"a": 2, "c": None}, {"a": 3, "c": 1}]
    assert ids(first)[:2] == before
    assert len(set(ids(first))) == 3
    with pytest.raises(NotFoundError):
        rows(second)
    assert rows(third) == [{"a": 1}, {"a": 2}]
    assert sorted(found.name for found in schema.tables(Call())) == ["T", "kept"]


@pytest.mark.parametrize("end", ["renamed", "dropped", "dropped and made again"])
def test_statement_does_not_outlive_its_table(schema: SparkSchema, end: str) -> None:
    """Rows for a table that is gone are refused, and none comes up where it was."""
    table = made(schema, ROWS.slice(0, 0))
    statement = table.begin_insert(Call(), returning=False)
    statement.write(ROWS.to_batches()[0])
    if end == "renamed":
        table.alter(Call(), RenameTable("other"))
    else:
        schema.drop_table(Call(), "t", DropTableOptions())
    if end == "dropped and made again":
        made(schema, ROWS.slice(0, 0))

    with pytest.raises(NotFoundError):
        statement.commit()
    with pytest.raises(NotFoundError):
        schema.drop_table(Call(), "missing", DropTableOptions())
    left = [found for found in schema.tables(Call()) if isinstance(found, DeltaTable)]
    assert [rows(found) for found in left] == ([] if end == "dropped" else [[]])


@pytest.mark.parametrize("name", NAMES, ids=["odd", "dots", "long"])
def test_any_name_goes_through_all_statements(schema: SparkSchema, name: str) -> None:
    """Tables, columns and fields of any name are made, filled, changed, altered, found and dropped."""
    kind = pa.struct([(name, pa.int32())])
    start = pa.table({name: pa.array([1, 2], pa.int64()), "s": pa.array([{name: 1}, None], kind)})
    table = made(schema, start, CreateTableOptions(primary_key=(name,)), name)
    first, second = ids(table)
    table.update(Call(), pa.array([second]), pa.table({name: pa.array([5], pa.int64())}).to_reader())
    table.delete(Call(), pa.array([first]))
    table.alter(Call(), AddColumn(pa.field(f"{name}+", pa.string(), metadata={"default": "'d'"})))
    table.alter(Call(), RenameField(("s", name), f"{name}-"))
    table.alter(Call(), RenameColumn(name, f"{name}*"))
    inserted(table, **{f"{name}*": 6, "s": {f"{name}-": 7}, f"{name}+": "e"})

    assert rows(table) == [
        {f"{name}*": 5, "s": None, f"{name}+": "d"},
        {f"{name}*": 6, "s": {f"{name}-": 7}, f"{name}+": "e"},
    ]
    assert table.constraints.primary_key == (f"{name}*",)
    table.alter(Call(), RemoveColumn("s"))
    table.alter(Call(), RenameTable(f"{name}!"))
    assert [found.name for found in schema.tables(Call())] == [f"{name}!"]
    schema.drop_table(Call(), f"{name}!", DropTableOptions())
    assert schema.tables(Call()) == []
