"""Folders that a server makes for as long as it runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from sparkport.spark.storage import lock_files
from sparkport.spark.storage.temp_folders import discard, remove_orphans
from tests.unit.spark.processes import kill, running


def test_nothing_is_left_of_a_folder_that_is_written_to(tmp_path: Path) -> None:
    """A task that has not heard yet that nobody reads its rows cannot keep the folder."""
    for number in range(100):
        folder = tmp_path / str(number)
        folder.mkdir()
        begun = threading.Event()

        def write(folder: Path = folder, begun: threading.Event = begun) -> None:
            for file in range(100_000):
                try:
                    (folder / str(file)).touch()
                except FileNotFoundError:
                    return
                begun.set()

        writing = threading.Thread(target=write)
        writing.start()
        begun.wait()
        discard(folder)
        writing.join()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    """Whoever cleans up temporary folders may have been there before."""
    discard(tmp_path / "gone")

    assert list(tmp_path.iterdir()) == []


MAKE = """
import os, tempfile
from sparkport.spark.storage.temp_folders import owned
said = tempfile.mkdtemp(prefix=owned(sys.argv[1], "x-"), dir=sys.argv[1])
open(said + "/rows", "w").close()
"""


def test_folders_of_the_living_stay_and_those_of_the_dead_go(tmp_path: Path, wrapper: Sequence[str]) -> None:
    """The kernel knows who lives, whatever number a process has in its container, and however it ended."""
    with running(MAKE, str(tmp_path), wrapper=wrapper) as (process, folder):
        remove_orphans(str(tmp_path), "x-")
        living = Path(folder, "rows").exists()
        kill(process, tmp_path)
    remove_orphans(str(tmp_path), "y-")
    other_kind = Path(folder).exists()
    remove_orphans(str(tmp_path), "x-")

    assert living
    assert other_kind
    assert not Path(folder).exists()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_servers_is_not_swept(tmp_path: Path) -> None:
    """A name that only looks like one is somebody else's, whatever its age."""
    dead = f"{lock_files.KERNEL}-{'0' * 16}"
    names = ["x-notes", "x-1234-1", f"x-{dead}", f"x-{dead}more-1", f"y-{dead}-1", "0.lock", "x-lock"]
    for name in names:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1_000_000_000, 1_000_000_000))
    remove_orphans(str(tmp_path), "x-")
    remove_orphans(str(tmp_path / "missing"), "x-")

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_folder_of_another_machine_is_swept_after_a_day(tmp_path: Path) -> None:
    """Its locks cannot be seen here: only files that nobody has touched for a day are those of the dead."""
    there = "0123456789abcdef"
    old, busy, renewed, fresh = (f"{there}-{number:016x}" for number in range(4))
    for owner in (old, busy, renewed, fresh):
        folder = tmp_path / f"x-{owner}-1"
        folder.mkdir()
        (folder / "rows.parquet").touch()
        (tmp_path / f"{owner}.lock").touch()
    long_ago = (1_000_000_000, 1_000_000_000)
    for owner in (old, busy, renewed):
        os.utime(tmp_path / f"x-{owner}-1", long_ago)
        if owner != busy:
            os.utime(tmp_path / f"x-{owner}-1" / "rows.parquet", long_ago)
        if owner != renewed:
            os.utime(tmp_path / f"{owner}.lock", long_ago)
    remove_orphans(str(tmp_path), "x-")

    kept = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert kept == sorted(f"x-{owner}-1" for owner in (busy, renewed, fresh))


def test_folder_without_a_lock_is_not_taken_for_that_of_the_dead(tmp_path: Path) -> None:
    """Somebody may have removed the lock file: then time decides."""
    with running(MAKE, str(tmp_path)) as (_, folder):
        for lock in tmp_path.glob("*.lock"):
            lock.unlink()
        remove_orphans(str(tmp_path), "x-")

        assert Path(folder).is_dir()


def test_lock_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """Whoever cleans up temporary files takes no folder that is in use with it."""
    path = lock_files.hold(tmp_path)
    path.unlink()
    again = lock_files.hold(tmp_path)
    held = lock_files.is_held(again)
    lock_files.release(tmp_path)

    assert again == path
    assert held
    assert list(tmp_path.iterdir()) == []
