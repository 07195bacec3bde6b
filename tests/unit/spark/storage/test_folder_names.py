"""Names of schemas and tables as names of folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkport.errors import InvalidRequestError
from sparkport.spark.ddl.create import make_schema, move_folder, schema_details
from sparkport.spark.ddl.drop import drop_table, remove_remnant
from sparkport.spark.storage.folder_names import folder_of, name_of, table_label
from sparkport.spark.warehouse.listing import Warehouse
from sparkport.spark.warehouse.trash import Trash
from tests.hostile_names import random_names

ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255) | st.text(
    st.sampled_from("./\\%+=_ ~-`'\";\n\0aA数🦆"), min_size=1, max_size=255
)


def commit(root: Path) -> None:
    """Let a folder be a table."""
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("{}")


@settings(max_examples=300)
@given(ODD)
def test_every_name_has_a_folder_of_its_own_that_leads_back(name: str) -> None:
    """A folder's parts fit any file system, are not hidden, and tell the name."""
    parts = folder_of(name).split("/")
    joined = "%=" + "".join(part[2:] for part in parts) if parts[0][:2] in {"%+", "%="} else parts[0]

    assert all(0 < len(part) <= 202 and part.isascii() for part in parts)
    assert not any(part.startswith((".", "_")) or "/" in part or "\0" in part for part in parts)
    assert name_of(joined) == name


@settings(max_examples=300)
@given(ODD, ODD)
def test_errors_name_a_table_and_no_folder(schema: str, table: str) -> None:
    """A message has the names that clients know, whatever the folders are called."""
    root = Warehouse("/srv/lake").table_folder("x" + schema, table)

    assert table_label(root) == f"x{schema}.{table}"


def test_errors_leave_out_what_may_be_the_folder_of_the_warehouse() -> None:
    """Only the name of a schema's folder tells that it is one."""
    assert table_label("s3a://bucket/lake/the%20orders") == "the orders"
    assert table_label("") == ""


@settings(max_examples=40, deadline=None)
@given(st.lists(ODD, min_size=1, max_size=6, unique_by=lambda name: name.lower()))
def test_odd_names_are_listed_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, listed: list[str]
) -> None:
    """Tables and schemas of any names lie beside each other, within the warehouse."""
    root = tmp_path_factory.mktemp("names")
    warehouse = Warehouse(str(root))
    for name in listed:
        commit(Path(warehouse.table_folder("x" + listed[0], name)))
        commit(Path(warehouse.table_folder("default", name)))
    found = warehouse.listing().schemas

    assert set(found) == {"default", "x" + listed[0]}
    assert set(found["default"]) == set(found["x" + listed[0]]) == set(listed)


@pytest.mark.parametrize("name", ["x" * 300, "🦆" * 255])
def test_long_name_leaves_no_folders_behind(tmp_path: Path, name: str) -> None:
    """The folders of a long name go with the last thing that lies in them."""
    warehouse = Warehouse(str(tmp_path / "lake"))
    folder = Path(warehouse.table_folder("default", name))
    commit(folder)
    other = Path(warehouse.table_folder("default", name[:-1] + "y"))
    move_folder(folder, other)

    assert set(warehouse.listing().schemas["default"]) == {name[:-1] + "y"}
    drop_table(str(other), Trash(str(tmp_path / "lake"), 0))
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["_sparkport"]
    assert warehouse.listing().schemas == {"default": {}}


def test_endless_name_is_refused() -> None:
    """No path can be as long as somebody likes."""
    with pytest.raises(InvalidRequestError, match=r"^the name 'x{40}\.\.\.' is too long$"):
        folder_of("x" * 1021)


@pytest.mark.parametrize("folder", ["%=", "%=!", "%=AAAAAAAAAAAAAAA1", "%=74"])
def test_folder_of_somebody_else_keeps_its_name(folder: str) -> None:
    """What looks like a long name and is none is a name like any other."""
    assert name_of(folder) == folder


def test_moving_does_not_overwrite(tmp_path: Path) -> None:
    """A folder that is there stays."""
    commit(tmp_path / "a")
    commit(tmp_path / "b")

    with pytest.raises(FileExistsError):
        move_folder(tmp_path / "a", tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_schema_folder_appears_with_its_details(tmp_path: Path) -> None:
    """It is made out of sight and then moved, so that nobody sees half of it; a taken one stays as it is."""
    folder, hidden = tmp_path / "lake" / "s.db", tmp_path / "hidden"
    make_schema(str(folder), {"comment": "first"}, str(hidden))
    with pytest.raises(FileExistsError):
        make_schema(str(folder), {"comment": "second"}, str(hidden))

    assert schema_details(str(folder)) == {"comment": "first"}
    assert not hidden.exists()


@pytest.mark.parametrize("text", [b"", b'{"comment": "cut o', b"[1]", b"\xff\xfe"])
def test_damaged_details_of_a_schema_are_none(tmp_path: Path, text: bytes) -> None:
    """A file that somebody has spoilt takes no schema from the listing."""
    (tmp_path / "_sparkport.json").write_bytes(text)

    assert schema_details(str(tmp_path)) == {}


def test_only_what_never_was_a_table_is_cleared(tmp_path: Path) -> None:
    """A CREATE TABLE that was cut off leaves a log without commits; all else is somebody's."""
    cut, table, data, empty = (tmp_path / name for name in ("cut", "table", "data", "empty"))
    (cut / "_delta_log" / "_staged_commits").mkdir(parents=True)
    (cut / "_delta_log" / ".00000000000000000000.json.1f.tmp").touch()
    commit(table)
    (data / "_delta_log").mkdir(parents=True)
    (data / "part-0.parquet").touch()
    empty.mkdir()
    trash = Trash(str(tmp_path), 0)
    for folder in (cut, table, data, empty, tmp_path / "missing"):
        remove_remnant(str(folder), trash)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["_sparkport", "data", "empty", "table"]
    assert list((tmp_path / "_sparkport" / "trash").iterdir()) == []


def test_five_thousand_names_have_as_many_folders() -> None:
    """No two names share a folder, and none lies within that of another."""
    names = random_names(5000, seed=20261101)
    folders = [folder_of(name) for name in names]

    assert len(set(folders)) == 5000
    assert not any(f"{outer}/" == inner[: len(outer) + 1] for outer in folders[:60] for inner in folders)


def test_half_a_character_is_no_name() -> None:
    """JSON can spell what no file system can."""
    with pytest.raises(InvalidRequestError, match=r"^a name is not valid UTF-8$"):
        folder_of("x\ud800")
