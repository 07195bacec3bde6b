"""The trash of a warehouse: what comes into it, how long it stays, and what is never touched."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from sparkport.errors import PreconditionError
from sparkport.spark.ddl.create import move_folder
from sparkport.spark.ddl.drop import drop_table, remove_remnant
from sparkport.spark.warehouse.trash import Trash
from tests.requirements import missing

HOUR = 3600.0
Usage = namedtuple("Usage", "total used free")  # noqa: PYI024  (what `shutil.disk_usage` returns)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


def table(root: Path) -> Path:
    """Make a folder that is a table."""
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020}.json").write_text("{}")
    (root / "part-0.parquet").write_bytes(b"x" * 1000)
    return root


def entries(lake: Path) -> list[str]:
    """Return what is in the trash."""
    return sorted(path.name for path in (lake / "_sparkport" / "trash").iterdir())


def test_tables_stay_for_their_hours(tmp_path: Path, clock: Clock) -> None:
    """A server that starts or sweeps removes what is too old, and nothing younger."""
    trash = Trash(str(tmp_path), 1.5, clock=clock)
    drop_table(str(table(tmp_path / "s.db" / "old")), trash)
    clock.now += HOUR
    drop_table(str(table(tmp_path / "new")), trash)
    trash.remove_orphans()
    before = [(one.schema, one.name) for one in trash.tables()]
    clock.now += HOUR / 2
    trash.remove_orphans()

    assert before == [("default", "new"), ("s", "old")]
    assert [one.name for one in trash.tables()] == ["new"]
    assert len(entries(tmp_path)) == 1


def test_without_hours_nothing_stays(tmp_path: Path) -> None:
    """Zero hours delete a table with the statement that drops it."""
    drop_table(str(table(tmp_path / "t")), Trash(str(tmp_path), 0))

    assert not (tmp_path / "t").exists()
    assert entries(tmp_path) == []


def test_only_entries_of_the_trash_are_removed(tmp_path: Path, clock: Clock) -> None:
    """What somebody else has put there stays, whatever its age and the room on the disk."""
    folder = tmp_path / "_sparkport" / "trash"
    names = ["keep.txt", "0123456789abcdef0123456789abcdef", "1700000000000-notes", "a-gone"]
    for name in names:
        (folder / name).mkdir(parents=True)
    trash = Trash(str(tmp_path), 0, clock=clock)
    trash.remove_orphans()
    trash.make_room()

    assert entries(tmp_path) == sorted(names)
    assert trash.tables() == []


def test_oldest_go_first_when_the_disk_is_full(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only as many are removed as it takes."""
    trash = Trash(str(tmp_path), 24, clock=clock)
    for name in ("first", "second", "third"):
        drop_table(str(table(tmp_path / name)), trash)
        clock.now += 1
    total, limit = 10_000, 500

    def usage(_: object) -> Usage:
        used = 9_950 - 1000 * (3 - len(entries(tmp_path)))
        return Usage(total, used, total - used - 400 * (len(entries(tmp_path)) == 2))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    trash.make_room()

    assert usage(tmp_path).free >= limit
    assert [one.name for one in trash.tables()] == ["third", "second"]


def test_entry_of_a_server_that_died_is_finished_by_the_next(tmp_path: Path, clock: Clock) -> None:
    """An entry that was about to be removed is; one that nothing came to goes with its time."""
    folder = tmp_path / "_sparkport" / "trash"
    (folder / f"{1_800_000_000_000}-{'a' * 32}-gone" / "t").mkdir(parents=True)
    (folder / f"{1_800_000_000_000}-{'b' * 32}").mkdir(parents=True)
    trash = Trash(str(tmp_path), 0, clock=clock)
    trash.remove_orphans()
    first = entries(tmp_path)
    clock.now += 61
    trash.remove_orphans()

    assert first == [f"{1_800_000_000_000}-{'b' * 32}"]
    assert entries(tmp_path) == []


def test_table_is_dropped_although_another_server_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that is taken away before the table is in it is made again."""
    rename = Path.rename
    taken: list[Path] = []

    def slow(path: Path, target: Path) -> Path:
        if not taken:
            taken.append(target)
            shutil.rmtree(tmp_path / "_sparkport" / "trash")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", slow)
    trash = Trash(str(tmp_path), 24)
    drop_table(str(table(tmp_path / "t")), trash)

    assert [one.name for one in trash.tables()] == ["t"]


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EBUSY])
def test_table_on_another_disk_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """What cannot be moved is not copied and deleted instead, and leaves no entry."""

    def refused(*_: object) -> Path:
        raise OSError(code, os.strerror(code))

    root = table(tmp_path / "t")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        with pytest.raises(PreconditionError, match=r"^cannot move 't' to the trash: it is a mount point"):
            drop_table(str(root), Trash(str(tmp_path), 24))

    assert (root / "_delta_log").is_dir()
    assert entries(tmp_path) == []


def test_table_of_a_server_that_was_faster_is_not_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may come between the look at a folder and its move: then it is moved back."""
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    put = Trash.put

    def late(trash: Trash, folder: Path) -> Path:
        (log / f"{0:020}.json").write_text("{}")
        return put(trash, folder)

    monkeypatch.setattr(Trash, "put", late)
    remove_remnant(str(tmp_path / "t"), Trash(str(tmp_path), 24))

    assert (log / f"{0:020}.json").read_text() == "{}"


def test_nothing_is_half_there_when_servers_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one server drops, another brings back and a third makes room, a table is whole or gone."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10_000, 10_000, 0))
    tables = [table(tmp_path / "s.db" / f"t{number}") for number in range(25)]
    for root in tables:
        for number in range(20):
            (root / f"part-{number}.parquet").touch()
    over = threading.Event()
    returned: list[str] = []

    def bring_back() -> None:
        trash = Trash(str(tmp_path))
        while not over.is_set():
            for found in trash.tables()[:1]:
                with contextlib.suppress(FileNotFoundError):
                    move_folder(found.folder, found.original)
                    returned.append(found.name)

    def make_room() -> None:
        while not over.is_set():
            Trash(str(tmp_path)).make_room()

    threads = [threading.Thread(target=work) for work in (bring_back, make_room)]
    for thread in threads:
        thread.start()
    try:
        for root in tables:
            drop_table(str(root), Trash(str(tmp_path)))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    left = [root for root in tables if root.exists()]

    assert len(left) == len(returned)
    assert {len(list(root.iterdir())) for root in left} <= {21}
    assert all(found.original not in left for found in Trash(str(tmp_path)).tables())


FULL = """
import os, sys
from pathlib import Path
from sparkport.spark.ddl.drop import drop_table
from sparkport.spark.warehouse.trash import Trash

lake = Path(sys.argv[1])
trash = Trash(str(lake))
trash.prepare()
(lake / "s.db" / "t" / "_delta_log").mkdir(parents=True)
(lake / "s.db" / "t" / "_delta_log" / f"{0:020}.json").touch()
try:
    for number in range(1000):
        (lake / str(number)).touch()
except OSError as error:
    print(error.strerror)
drop_table(str(lake / "s.db" / "t"), trash)
print((lake / "s.db" / "t").exists(), os.listdir(lake / "_sparkport" / "trash"))
"""


def test_table_is_dropped_on_a_disk_without_room_for_a_folder(tmp_path: Path) -> None:
    """Dropping tables is the way to make room, so it must not need any."""
    mount = f'mount -t tmpfs -o nr_inodes=40 tmpfs "{tmp_path}" && exec "$@"'
    own_mounts = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*own_mounts, mount, "sh", "true"], capture_output=True, check=False).returncode:
        missing("namespaces", "this machine lets nobody mount in a namespace of their own")
    command = [*own_mounts, mount, "sh", sys.executable, "-c", FULL, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)

    assert run.stdout.splitlines()[0] == "No space left on device"
    assert run.stdout.splitlines()[-1] == "False []"
