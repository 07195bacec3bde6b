"""Finding the tables of a warehouse."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkport.errors import PreconditionError
from sparkport.spark.warehouse.listing import Warehouse
from tests.logs import captured_logs


def commit(root: Path, version: int = 0) -> None:
    """Add a commit to a table's log; listing looks at its name only."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("{}")


def names(warehouse: Warehouse) -> dict[str, dict[str, int]]:
    """Return the newest version of every table by schema."""
    schemas = warehouse.listing().schemas
    return {
        schema: {name: entry.version for name, entry in tables.items()} for schema, tables in schemas.items()
    }


def age(folder: Path) -> None:
    """Let a folder be as it is for a while already."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time.time() - 60, time.time() - 60))


def test_empty_warehouse_has_the_default_schema(tmp_path: Path) -> None:
    """So it is in Spark; the folder need not be there yet."""
    assert names(Warehouse(str(tmp_path / "new"))) == {"default": {}}


def test_folders_are_schemas_and_tables_as_spark_lays_them_out(tmp_path: Path) -> None:
    """Tables lie in `<schema>.db`, in a plain folder, or at the top for the schema `default`."""
    commit(tmp_path / "sales.db" / "orders", 3)
    commit(tmp_path / "sales" / "extra")
    commit(tmp_path / "plain" / "t")
    commit(tmp_path / "top")
    (tmp_path / "empty.db").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.txt").write_text("")
    commit(tmp_path / "_hidden" / "t")
    commit(tmp_path / "sales.db" / ".staging")

    assert names(Warehouse(str(tmp_path))) == {
        "default": {"top": 0},
        "empty": {},
        "plain": {"t": 0},
        "sales": {"orders": 3, "extra": 0},
    }


def test_one_schema_has_the_tables_that_the_listing_says(tmp_path: Path) -> None:
    """Looking at a schema alone finds the same, in both of its folders."""
    for root in ("sales.db/orders", "sales/extra", "plain/t", "top", "default.db/inner", "both", "both.db/t"):
        commit(tmp_path / root)
    (tmp_path / "empty.db").mkdir()
    warehouse = Warehouse(str(tmp_path))
    listed = warehouse.listing().schemas

    assert {schema: set(tables) for schema, tables in listed.items()} == {
        "default": {"top", "inner", "both"},
        "sales": {"orders", "extra"},
        "plain": {"t"},
        "both": {"t"},
        "empty": set(),
    }
    assert {schema: warehouse.tables(schema) for schema in listed} == listed
    assert warehouse.tables("nowhere") == {}


@pytest.mark.parametrize("name", ["a b", "ä/ö", "..", ".x", "_y", "50%", "q'\"`;", "a.b", "数", "x.db"])
def test_odd_names_come_back_from_their_folders(tmp_path: Path, name: str) -> None:
    """No name leads out of the warehouse or is taken for something else."""
    warehouse = Warehouse(str(tmp_path))
    root = Path(warehouse.table_folder(name, name))
    commit(root)

    assert root.resolve().parent.parent == tmp_path.resolve()
    assert names(warehouse)[name] == {name: 0}


def test_every_commit_of_anyone_is_seen_at_once(tmp_path: Path) -> None:
    """Commits within one tick of the file system's clock are no exception."""
    warehouse = Warehouse(str(tmp_path))
    for version in range(50):
        commit(tmp_path / "s.db" / "t", version)

        assert names(warehouse)["s"] == {"t": version}


def test_change_is_seen_after_a_long_rest(tmp_path: Path) -> None:
    """What is remembered of a folder holds only until the folder changes."""
    commit(tmp_path / "s.db" / "t")
    age(tmp_path)
    warehouse = Warehouse(str(tmp_path))
    assert names(warehouse)["s"] == {"t": 0}
    assert names(warehouse)["s"] == {"t": 0}
    commit(tmp_path / "s.db" / "t", 1)
    commit(tmp_path / "s.db" / "u")
    commit(tmp_path / "r.db" / "v")

    assert names(warehouse) == {"default": {}, "r": {"v": 0}, "s": {"t": 1, "u": 0}}


def test_dropped_tables_and_schemas_go(tmp_path: Path) -> None:
    """A table is gone with its folder."""
    commit(tmp_path / "s.db" / "t")
    commit(tmp_path / "s.db" / "u")
    commit(tmp_path / "r.db" / "v")
    warehouse = Warehouse(str(tmp_path))
    assert set(names(warehouse)) == {"default", "r", "s"}
    shutil.rmtree(tmp_path / "s.db" / "t")
    shutil.rmtree(tmp_path / "r.db")

    assert names(warehouse) == {"default": {}, "s": {"u": 0}}


def test_version_of_the_listing_rises_with_changes_only(tmp_path: Path) -> None:
    """Clients keep what they know for as long as the number stays."""
    commit(tmp_path / "s.db" / "t")
    warehouse = Warehouse(str(tmp_path))
    first = warehouse.listing().version
    again = warehouse.listing().version
    commit(tmp_path / "s.db" / "t", 1)
    changed = warehouse.listing().version

    assert first == again
    assert changed > first


def test_version_is_higher_after_a_restart(tmp_path: Path) -> None:
    """A client that stays must not take the new server's state for one that it knows."""
    commit(tmp_path / "s.db" / "t")
    moment = 1_000_000.0
    before = Warehouse(str(tmp_path), clock=lambda: moment)
    last = before.listing().version
    after = Warehouse(str(tmp_path), clock=lambda: moment + 1)

    assert after.listing().version > last


def test_relative_folder_is_taken_from_where_the_server_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark takes a path that does not begin at the root for the name of a table."""
    monkeypatch.chdir(tmp_path)
    warehouse = Warehouse("./lakehouse/")

    assert warehouse.root == str(tmp_path / "lakehouse")
    assert warehouse.table_folder("s", "t") == str(tmp_path / "lakehouse" / "s.db" / "t")


def test_a_table_made_anew_is_another(tmp_path: Path) -> None:
    """Whoever drops a table and makes one of the same name and version changes the listing."""
    commit(tmp_path / "t")
    age(tmp_path)
    warehouse = Warehouse(str(tmp_path))
    first, again = warehouse.listing(), warehouse.listing()
    shutil.rmtree(tmp_path / "t")
    commit(tmp_path / "t")
    second = warehouse.listing()

    assert again is first
    assert second.version > first.version
    assert names(warehouse) == {"default": {"t": 0}}


def test_what_cannot_be_looked_into_is_left_out(tmp_path: Path) -> None:
    """Links in a circle, as folders of others would be: the rest is served, and the log says so once."""
    commit(tmp_path / "s.db" / "t")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "s.db" / "log").mkdir()
    (tmp_path / "s.db" / "log" / "_delta_log").symlink_to(tmp_path / "circle")
    with captured_logs() as logs:
        warehouse = Warehouse(str(tmp_path))
        found = [names(warehouse) for _ in range(2)]

    assert found == [{"default": {}, "s": {"t": 0}}] * 2
    assert {entry["event"] for entry in logs} == {"folder left out of the listing"}
    assert len(logs) == len({entry["folder"] for entry in logs})
    assert {entry["reason"] for entry in logs} == {"Too many levels of symbolic links"}


def test_a_warehouse_that_cannot_be_looked_into_is_not_empty(tmp_path: Path) -> None:
    """A disk that fails has not dropped all tables."""
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    with pytest.raises(
        PreconditionError, match=r"^the server cannot read the folder of its warehouse: Too many"
    ):
        Warehouse(str(circle)).listing()


def test_a_table_is_found_again_without_looking_at_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding a table costs the same whether there are two tables or two thousand."""
    for number in range(30):
        commit(tmp_path / "sales.db" / f"t{number}")
    age(tmp_path)
    warehouse = Warehouse(str(tmp_path))
    warehouse.table("sales", "t7")
    asked: list[str] = []
    stat = os.stat

    def counted(path: str, **options: Any) -> os.stat_result:
        asked.append(str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", counted)

    entry = warehouse.table("sales", "t7")

    assert entry is not None
    assert (entry.root, entry.version) == (str(tmp_path / "sales.db" / "t7"), 0)
    assert warehouse.has_schema("sales")
    assert len(asked) <= 6
    assert not any("t8" in path for path in asked)


def _changes(root: Path) -> list[Callable[[], None]]:
    """Return what others may do to a warehouse at any time."""
    folders = [root / schema for schema in ("a.db", "a", "b.db", "b", "default.db", "c.db")]
    tables = [*(folder / name for folder in folders for name in ("t", "u")), root / "t", root / "b"]
    return [
        *(lambda table=table: commit(table) for table in tables),
        *(lambda table=table: commit(table, 5) for table in tables),
        *(lambda table=table: shutil.rmtree(table / "_delta_log", ignore_errors=True) for table in tables),
        *(lambda folder=folder: shutil.rmtree(folder, ignore_errors=True) for folder in (*folders, *tables)),
        *(lambda folder=folder: folder.mkdir(parents=True, exist_ok=True) for folder in folders),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_of_tables_is_what_a_new_listing_says(tmp_path: Path, seed: int) -> None:
    """Whatever others do to the folders, and whether that was long ago or just now."""
    chance = random.Random(seed)
    root = tmp_path / "warehouse"
    root.mkdir()
    warehouse = Warehouse(str(root))
    changes = _changes(root)
    for _ in range(80):
        chance.choice(changes)()
        if chance.random() < 0.5:
            age(root)
        expected = Warehouse(str(root)).listing().schemas
        for schema in ("a", "b", "c", "default"):
            assert warehouse.has_schema(schema) == (schema in expected)
            for name in ("t", "u", "b"):
                entry, listed = warehouse.table(schema, name), expected.get(schema, {}).get(name)
                assert (entry and (entry.root, entry.version)) == (listed and (listed.root, listed.version))
