"""DROP SCHEMA removes the schema and nothing that lies beside it or that it does not know."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkport.catalog import Call, CreateSchemaOptions, DropSchemaOptions
from sparkport.errors import NotFoundError, PreconditionError, SchemaNotEmptyError
from sparkport.spark.catalog.catalog import SparkCatalog
from sparkport.spark.catalog.schema import SparkSchema
from tests.spark.ddl.tables import made, rows

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
LISTED = [{"a": 1}, {"a": 2}, {"a": 3}]
CASCADE = DropSchemaOptions(cascade=True)


def created(lake: SparkCatalog, name: str) -> SparkSchema:
    """Return a new schema."""
    return lake.create_schema(Call(), name, CreateSchemaOptions())


def files(folder: Path) -> set[str]:
    """Return all that is in a folder, but for what the server keeps for itself."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {path for path in found if not path.startswith("_sparkport/") and path != "_sparkport"}


def refused(lake: SparkCatalog, name: str, options: DropSchemaOptions | None = None) -> str:
    """Return why a schema is not dropped."""
    with pytest.raises(SchemaNotEmptyError) as caught:
        lake.drop_schema(Call(), name, options or DropSchemaOptions())
    return str(caught.value)


@pytest.mark.parametrize("name", ["sales", "the orders", "%s", "ü" * 255])
def test_table_of_the_same_name_stays(lake: SparkCatalog, name: str) -> None:
    """A table in `default` has the schema's name as its folder, and is no part of the schema."""
    created(lake, name)
    default = lake.schema(Call(), "default")
    assert isinstance(default, SparkSchema)
    made(default, ROWS, name=name)
    lake.drop_schema(Call(), name, DropSchemaOptions())
    table = default.delta_table(Call(), name)

    assert table is not None
    assert rows(table) == LISTED
    assert lake.schema(Call(), name) is None


def test_folder_of_the_same_name_stays(lake: SparkCatalog, root: Path) -> None:
    """A folder without tables that has no suffix is not of the schema, whatever is in it."""
    created(lake, "raw")
    (root / "raw").mkdir()
    (root / "raw" / "1.csv").write_text("a,b")
    created(lake, "bare")
    (root / "bare").mkdir()
    lake.drop_schema(Call(), "raw", CASCADE)
    lake.drop_schema(Call(), "bare", DropSchemaOptions())

    assert files(root) == {"raw", "raw/1.csv", "bare"}


@pytest.mark.parametrize("cascade", [False, True])
def test_table_that_is_not_deltas_holds_its_schema(lake: SparkCatalog, root: Path, *, cascade: bool) -> None:
    """A plain Parquet table in the schema's folder is named, and nothing changes."""
    schema = created(lake, "lake")
    (root / "lake.db" / "events").mkdir()
    pq.write_table(ROWS, root / "lake.db" / "events" / "part-0.parquet")
    if cascade:
        made(schema, ROWS, name="orders")
    before = files(root)
    message = refused(lake, "lake", DropSchemaOptions(cascade=cascade))

    assert message == (
        "schema 'lake' is not empty: its folder holds 'events', which is no table of this server; "
        "move it away first"
    )
    assert files(root) == before
    assert lake.schema(Call(), "lake") is not None


@pytest.mark.parametrize(
    "name", ["notes.csv", ".hidden", "_temporary", "empty/", "%+ABC/file", "%+ABC/empty/", "link"]
)
@pytest.mark.parametrize("cascade", [False, True])
def test_whatever_is_not_known_holds_its_schema(
    lake: SparkCatalog, root: Path, name: str, *, cascade: bool
) -> None:
    """Files, hidden ones, folders without anything in them, links: none of it is ours to remove."""
    created(lake, "lake")
    path = root / "lake.db" / name
    if name.endswith("/"):
        path.mkdir(parents=True)
    elif name == "link":
        log = root / "elsewhere" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{1:020}.crc").touch()
        path.symlink_to(root / "elsewhere")
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    before = files(root)

    assert "schema 'lake' is not empty: its folder holds " in refused(
        lake, "lake", DropSchemaOptions(cascade=cascade)
    )
    assert files(root) == before


def test_tables_are_named_in_the_refusal(lake: SparkCatalog, root: Path) -> None:
    """Without cascade the message says which tables there are, and what else."""
    schema = created(lake, "lake")
    for name in ("b", "a"):
        made(schema, ROWS, name=name)
    first = refused(lake, "lake")
    (root / "lake.db" / "x.csv").touch()

    assert first == "schema 'lake' contains tables (2 tables: 'a', 'b'); drop them first or use cascade"
    assert refused(lake, "lake") == (
        "schema 'lake' contains tables (2 tables: 'a', 'b'); drop them first or use cascade; "
        "its folder also holds 'x.csv', which is no table of this server"
    )


def test_cascade_takes_tables_of_every_folder_of_the_schema(lake: SparkCatalog, root: Path) -> None:
    """Others may have made folders without the suffix, or without percent signs: both are the schema's."""
    schema = created(lake, "the lake")
    for name, folder in (("a", "the lake"), ("b", "the lake.db"), ("c", "the%20lake.db")):
        table = made(schema, ROWS, name=name)
        (root / folder).mkdir(exist_ok=True)
        Path(table.root).rename(root / folder / name)
    long = made(schema, ROWS, name="ü" * 255)

    assert Path(long.root).exists()
    assert lake.drop_schema(Call(), "THE LAKE", CASCADE) == 4
    assert files(root) == set()
    assert lake.schema(Call(), "the lake") is None


def test_schema_that_differs_in_letter_case_stays(lake: SparkCatalog, root: Path) -> None:
    """A name as it is written counts before one that differs in letter case."""
    created(lake, "lake")
    (root / "LAKE.db").mkdir()
    lake.drop_schema(Call(), "lake", DropSchemaOptions())

    assert files(root) == {"LAKE.db"}


@pytest.mark.parametrize("cascade", [False, True])
def test_schema_that_is_a_link_stays(
    lake: SparkCatalog, root: Path, tmp_path: Path, *, cascade: bool
) -> None:
    """Nothing is removed through a symbolic link, nor the link itself."""
    other = tmp_path / "elsewhere"
    made(created(lake, "kept"), ROWS)
    (root / "kept.db").rename(other)
    (root / "kept.db").symlink_to(other)
    schema = lake.schema(Call(), "kept")
    assert isinstance(schema, SparkSchema)
    if not cascade:
        (other / "t").rename(tmp_path / "t")
    before = files(other)

    with pytest.raises(
        PreconditionError, match=r"^cannot drop schema 'kept': its folder is a symbolic link; remove"
    ):
        lake.drop_schema(Call(), "kept", DropSchemaOptions(cascade=cascade))
    assert files(other) == before
    assert (root / "kept.db").is_symlink()


def test_leftovers_of_a_create_do_not_hold_their_schema(lake: SparkCatalog, root: Path) -> None:
    """A log without a commit is what a CREATE TABLE that was cut off leaves, or a writer that came late."""
    created(lake, "lake")
    log = root / "lake.db" / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / f".{0:020}.json.1f.tmp").touch()
    (log / f"{7:020}.crc").touch()
    lake.drop_schema(Call(), "lake", DropSchemaOptions())

    assert files(root) == set()


def test_file_that_comes_at_the_last_moment_stays(
    lake: SparkCatalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is removed as an empty one, so that whatever came meanwhile keeps it."""
    lake.create_schema(Call(), "lake", CreateSchemaOptions(comment="mine"))
    remove = os.rmdir

    def late(path: str) -> None:
        if str(path).endswith("lake.db"):
            (root / "lake.db" / "late.csv").mkdir()
        remove(path)

    monkeypatch.setattr(os, "rmdir", late)
    message = refused(lake, "lake")
    schema = lake.schema(Call(), "lake")

    assert "its folder holds 'late.csv'" in message
    assert schema is not None
    assert schema.comment == "mine"


def test_table_and_schema_of_one_name_do_not_mix(lake: SparkCatalog, root: Path) -> None:
    """A table whose folder ends as those of schemas do is no schema."""
    default = lake.schema(Call(), "default")
    assert isinstance(default, SparkSchema)
    made(default, ROWS, name="odd.db")

    with pytest.raises(NotFoundError):
        lake.drop_schema(Call(), "odd", CASCADE)
    assert (root / "odd.db" / "_delta_log").is_dir()
