"""Dropped tables in the trash: what is brought back, from where, and for how long."""

from __future__ import annotations

import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkport.catalog import (
    Call,
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    OnConflict,
    RenameTable,
)
from sparkport.errors import AlreadyExistsError, NotFoundError, PreconditionError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.engine import Engine
from sparkport.spark.functions.catalog_functions import FunctionFlags
from sparkport.spark.storage.filesystem import LocalStorage
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse.trash import Trash
from tests.spark.ddl.tables import ids, inserted, made, rows
from tests.spark.functions import calling

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
LISTED = [{"a": 1}, {"a": 2}, {"a": 3}]
OTHER = pa.table({"b": ["x"]})


@pytest.fixture
def sales(lake: SparkCatalog) -> SparkSchema:
    """Return an empty schema."""
    return lake.create_schema(Call(), "sales", CreateSchemaOptions(comment="shop"))


def dropped(lake: SparkCatalog) -> list[tuple[str, str]]:
    """Return the names of the tables in the trash."""
    return [(row["schema"], row["table"]) for row in calling.rows(lake, "dropped")]


def undrop(lake: SparkCatalog, name: str) -> list[dict[str, Any]]:
    """Bring a table back."""
    return calling.rows(lake, "undrop", name)


def found(lake: SparkCatalog, schema: str, name: str) -> DeltaTable:
    """Return a table that is there."""
    within = lake.schema(Call(), schema)
    assert isinstance(within, SparkSchema)
    table = within.delta_table(Call(), name)
    assert table is not None
    return table


def entries(root: Path) -> list[Path]:
    """Return what is in the trash."""
    return sorted((root / "_sparkport" / "trash").iterdir())


@pytest.mark.parametrize("name", ["orders", 'the "odd" one', "ü" * 255, "a/b.c", "%20"])
def test_dropped_table_comes_back_with_its_rows_and_history(
    lake: SparkCatalog, sales: SparkSchema, name: str
) -> None:
    """It has the ids that it had, new rows get others, and older versions can be read."""
    table = made(sales, ROWS, name=name)
    before = ids(table)
    sales.drop_table(Call(), name, DropTableOptions())
    listed = dropped(lake)
    quoted = name.replace('"', '""')
    (row,) = undrop(lake, f'sales."{quoted}"')
    back = found(lake, "sales", name)
    inserted(back, a=4)

    assert listed == [("sales", name)]
    assert (row["schema"], row["table"]) == ("sales", name)
    assert rows(back) == [*LISTED, {"a": 4}]
    assert rows(back, 1) == LISTED
    assert set(before) < set(ids(back))
    assert len(set(ids(back))) == 4
    assert dropped(lake) == []


def test_trash_says_what_is_in_it(lake: SparkCatalog, sales: SparkSchema) -> None:
    """Id, version, size and when it goes: all that one needs to know before bringing a table back."""
    table = made(sales, ROWS)
    identity = lake.engine.log(table.root).header().metadata.table_id
    size = sum(path.stat().st_size for path in Path(table.root).rglob("*") if path.is_file())
    sales.drop_table(Call(), "t", DropTableOptions())
    (row,) = calling.rows(lake, "dropped")

    assert (row["table_id"], row["version"], row["size_in_bytes"]) == (identity, 1, size)
    assert row["expires_at"] - row["dropped_at"] == timedelta(hours=24)
    assert abs(row["dropped_at"].timestamp() - time.time()) < 60


def test_last_dropped_table_of_a_name_comes_first(lake: SparkCatalog, sales: SparkSchema) -> None:
    """A name that is taken is an error; once it is free, an older table can be brought back too."""
    made(sales, ROWS)
    sales.drop_table(Call(), "t", DropTableOptions())
    made(sales, OTHER)
    with pytest.raises(AlreadyExistsError, match=r"^table 'sales\.t' already exists$"):
        undrop(lake, "sales.T")
    sales.drop_table(Call(), "t", DropTableOptions())
    undrop(lake, "SALES.T")
    newer = rows(found(lake, "sales", "t"))
    found(lake, "sales", "t").alter(Call(), RenameTable("newer"))
    undrop(lake, "sales.t")

    assert newer == [{"b": "x"}]
    assert rows(found(lake, "sales", "t")) == LISTED
    assert rows(found(lake, "sales", "newer")) == [{"b": "x"}]
    with pytest.raises(NotFoundError, match=r"^dropped table 'sales\.t' not found$"):
        undrop(lake, "sales.t")


def test_table_comes_back_after_its_schema_was_dropped(lake: SparkCatalog, sales: SparkSchema) -> None:
    """CASCADE puts each table into the trash; the first that comes back brings the schema with it."""
    for name in ("a", "b"):
        made(sales, ROWS, name=name)
    lake.drop_schema(Call(), "sales", DropSchemaOptions(cascade=True))
    gone = lake.schema(Call(), "sales")
    undrop(lake, "sales.a")
    undrop(lake, "sales.b")

    assert gone is None
    assert rows(found(lake, "sales", "a")) == rows(found(lake, "sales", "b")) == LISTED
    assert lake.drop_schema(Call(), "sales", DropSchemaOptions(cascade=True)) == 2


def test_table_comes_back_on_another_server(lake: SparkCatalog, sales: SparkSchema) -> None:
    """The trash is the warehouse's: a restart changes nothing."""
    made(sales, ROWS)
    sales.drop_table(Call(), "t", DropTableOptions())
    engine = Engine(lake.engine.host, warehouse=lake.engine.warehouse.root)
    engine.trash.remove_orphans()
    restarted = SparkCatalog(engine, FunctionFlags())
    undrop(restarted, "sales.t")

    assert rows(found(restarted, "sales", "t")) == LISTED
    assert rows(found(lake, "sales", "t")) == LISTED
    engine.jobs.close()


def test_table_goes_back_where_it_was(lake: SparkCatalog, root: Path) -> None:
    """Others may read it by its path; where a table is now, it goes to the folder of its schema instead."""
    default = lake.schema(Call(), "default")
    assert isinstance(default, SparkSchema)
    for name in ("first", "second"):
        table = made(default, ROWS, name=name)
        (root / "shop").mkdir(exist_ok=True)
        Path(table.root).rename(root / "shop" / name)
    shop = lake.schema(Call(), "shop")
    assert isinstance(shop, SparkSchema)
    shop.drop_table(Call(), "first", DropTableOptions())
    undrop(lake, "shop.first")
    place = (root / "shop" / "first").is_dir()
    for name in ("first", "second"):
        shop.drop_table(Call(), name, DropTableOptions())
    made(default, ROWS, name="shop")
    undrop(lake, "shop.second")

    assert place
    assert (root / "shop.db" / "second").is_dir()
    assert rows(found(lake, "default", "shop")) == LISTED
    assert rows(found(lake, "shop", "second")) == LISTED


def test_replaced_table_is_not_in_the_trash(lake: SparkCatalog, sales: SparkSchema) -> None:
    """CREATE OR REPLACE goes on with the history of the table, and so nothing was dropped."""
    made(sales, ROWS)
    made(sales, OTHER, CreateTableOptions(OnConflict.REPLACE))

    assert dropped(lake) == []


def test_table_that_is_taken_back_is_not_in_the_trash(sales: SparkSchema, root: Path) -> None:
    """Nobody wants to bring back the empty table of a CREATE TABLE AS that failed."""
    table = sales.create_table(Call(), "t", ROWS.schema, CreateTableOptions())
    point = table.snapshot(Call(), None).time_point
    assert point is not None
    undone = sales.revert_create(Call(), "t", point)

    assert undone
    assert entries(root) == []


def test_table_that_another_program_writes_to_is_not_taken_back(
    lake: SparkCatalog, sales: SparkSchema, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may come until the folder is moved: then the table comes back with it."""
    table = sales.create_table(Call(), "t", ROWS.schema, CreateTableOptions())
    point = table.snapshot(Call(), None).time_point
    assert point is not None
    put = Trash.put

    def late(trash: Trash, folder: Path) -> Path:
        with lake.engine.host.use(Call()) as session:  # plain Spark, which does not know of our locks
            session.sql(f"INSERT INTO delta.`{table.root}` (a) VALUES (1), (2), (3)").collect()
        return put(trash, folder)

    monkeypatch.setattr(Trash, "put", late)

    assert not sales.revert_create(Call(), "t", point)
    assert rows(found(lake, "sales", "t")) == LISTED
    assert entries(root) == [] or dropped(lake) == []


def test_link_is_dropped_and_not_what_it_points_at(
    lake: SparkCatalog, sales: SparkSchema, root: Path, tmp_path: Path
) -> None:
    """A table may be a link to a folder elsewhere, which belongs to somebody else."""
    table = made(sales, ROWS)
    shutil.move(table.root, tmp_path / "elsewhere")
    Path(table.root).symlink_to("../../elsewhere")  # which means nothing in the trash
    lake.tables.forget(table.root)
    sales.drop_table(Call(), "t", DropTableOptions())
    listed = dropped(lake)
    undrop(lake, "sales.t")
    back = rows(found(lake, "sales", "t"))
    sales.drop_table(Call(), "t", DropTableOptions())
    Trash(str(root), 0, clock=lambda: time.time() + 3600).remove_orphans()

    assert listed == [("sales", "t")]
    assert back == LISTED
    assert entries(root) == []
    assert (tmp_path / "elsewhere" / "_delta_log").is_dir()
    assert len(LocalStorage().contents(str(tmp_path / "elsewhere"))) > 2


def test_table_with_another_inside_is_kept(lake: SparkCatalog, sales: SparkSchema) -> None:
    """A table in the folder of another is not listed, and would be lost with it."""
    outer, inner = made(sales, ROWS, name="outer"), made(sales, ROWS, name="inner")
    Path(inner.root).rename(Path(outer.root, "inner"))
    message = r"^the folder of this table contains another table, in 'inner'; move that one away first$"

    with pytest.raises(PreconditionError, match=message):
        sales.drop_table(Call(), "outer", DropTableOptions())
    with pytest.raises(PreconditionError, match=message):
        lake.drop_schema(Call(), "sales", DropSchemaOptions(cascade=True))
    with pytest.raises(PreconditionError, match=message):
        calling.rows(lake, "vacuum", "sales.outer", 200.0)
    assert rows(found(lake, "sales", "outer")) == LISTED


@pytest.mark.parametrize("left", ["crc", "tmp", "rowids", "data"])
def test_name_is_free_although_a_writer_came_late(
    lake: SparkCatalog, sales: SparkSchema, root: Path, left: str
) -> None:
    """What a writer leaves that was at work while the table was dropped keeps no table from being made."""
    table = made(sales, ROWS)
    data = next(Path(table.root).glob("*.parquet"))
    kept = data.name, data.read_bytes()
    sales.drop_table(Call(), "t", DropTableOptions())
    path = {
        "crc": f"_delta_log/{2:020}.crc",
        "tmp": f"_delta_log/.{2:020}.json.0b6f3f0e-7d3c-4a53-8a58-1f5a6c1b2d3e.tmp",
        "rowids": "_sparkport/rowids/1",
        "data": kept[0],
    }[left]
    late = Path(table.root, path)
    late.parent.mkdir(parents=True)
    late.write_bytes(kept[1])
    made(sales, OTHER)

    assert rows(found(lake, "sales", "t")) == [{"b": "x"}]
    assert not late.exists()
    assert len(entries(root)) == 2
    assert dropped(lake) == [("sales", "t")]


@pytest.mark.parametrize(
    "name", ["notes.csv", "_delta_log/.gitkeep", "part-0.parquet", "_SUCCESS", "in/", "_delta_log/x/"]
)
def test_folder_of_somebody_else_is_not_cleared(sales: SparkSchema, root: Path, name: str) -> None:
    """CREATE TABLE takes nobody's files away, and says what lies there."""
    path = root / "sales.db" / "t" / name
    path.parent.mkdir(parents=True)
    if name.endswith("/"):
        path.mkdir()
    else:
        path.write_text("x")
    with pytest.raises(PreconditionError, match=r"^the folder of table 'sales\.t' contains '"):
        made(sales, ROWS)
    assert path.exists()
    assert not (root / "_sparkport" / "trash").exists() or entries(root) == []


def test_data_of_another_program_is_not_cleared(sales: SparkSchema, root: Path) -> None:
    """A plain Parquet table has files of the same names; its columns tell it from a Delta table."""
    folder = root / "sales.db" / "t"
    folder.mkdir()
    file = folder / "part-00000-0b6f3f0e-7d3c-4a53-8a58-1f5a6c1b2d3e-c000.snappy.parquet"
    pq.write_table(ROWS, file)

    with pytest.raises(PreconditionError, match=r"^the folder of table 'sales\.t' contains 'part-00000-"):
        made(sales, OTHER)
    assert pq.read_table(file).equals(ROWS)
    assert list(folder.iterdir()) == [file]


def test_table_that_another_server_has_dropped_is_not_found(
    lake: SparkCatalog, sales: SparkSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two servers that drop one table, one is told that it is gone; CASCADE goes on with the others."""
    for name in ("a", "b", "c"):
        made(sales, ROWS, name=name)
    put = Trash.put
    faster: list[Path] = []

    def second(trash: Trash, folder: Path) -> Path:
        if not faster or faster == [folder.with_name("b")]:
            faster.append(folder)
            put(trash, folder)
        return put(trash, folder)

    monkeypatch.setattr(Trash, "put", second)
    with pytest.raises(NotFoundError, match=r"^table 'sales\.b' not found"):
        sales.drop_table(Call(), "b", DropTableOptions())
    count = lake.drop_schema(Call(), "sales", DropSchemaOptions(cascade=True))

    assert count == 2
    assert lake.schema(Call(), "sales") is None
    assert sorted(dropped(lake)) == [("sales", "a"), ("sales", "b"), ("sales", "c")]
