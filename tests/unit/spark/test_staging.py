"""Rows that are not yet in a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from sparkport.spark.leftovers import owned, sweep, sweep_all
from sparkport.spark.staging import Stage, sweep_stages

TOO_LARGE = """
import resource, signal, sys
import pyarrow as pa
from sparkport.errors import LimitExceededError
from sparkport.spark.staging import Stage

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
stage = Stage(sys.argv[1])
try:
    stage.add(pa.record_batch({"n": list(range(100_000))}))
    stage.close()
except LimitExceededError as error:
    print(error)
stage.remove()
"""


def test_staged_rows_can_be_read_once_closed(tmp_path: Path) -> None:
    """Batches are kept in their order, and counted."""
    stage = Stage(str(tmp_path))
    stage.add(pa.record_batch({"n": [1, 2]}))
    stage.add(pa.record_batch({"n": [3]}))
    stage.close()

    assert stage.rows == 3
    assert stage.read()["n"].to_pylist() == [1, 2, 3]


def test_stage_without_rows_leaves_no_trace(tmp_path: Path) -> None:
    """A statement without rows makes no folder."""
    stage = Stage(str(tmp_path / "staging"))
    stage.close()
    stage.remove()

    assert not (tmp_path / "staging").exists()


def test_removed_stage_is_gone(tmp_path: Path) -> None:
    """Removing works at any time, also twice."""
    stage = Stage(str(tmp_path))
    stage.add(pa.record_batch({"n": [1]}))
    stage.remove()
    stage.remove()

    assert list(tmp_path.iterdir()) == []


def test_replaced_rows_take_the_place_of_the_others(tmp_path: Path) -> None:
    """Only the new folder is left."""
    stage = Stage(str(tmp_path))
    stage.add(pa.record_batch({"n": [1, 1]}))
    stage.close()
    stage.on_disk()
    other = stage.replaced(pa.table({"n": [1]}))

    assert [Path(other.on_disk())] == list(tmp_path.iterdir())
    assert other.read()["n"].to_pylist() == [1]
    assert other.rows == 1


def test_what_dead_servers_left_is_swept(tmp_path: Path) -> None:
    """Folders of servers that still run stay, as do folders of another kind."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone = tmp_path / f"x-{ended.pid}-1"
    mine = tmp_path / f"{owned('x-')}1"
    other = tmp_path / "y-notes"
    for folder in (gone, mine, other):
        folder.mkdir()
    sweep(str(tmp_path), "x-")

    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


def test_own_stage_survives_a_sweep(tmp_path: Path) -> None:
    """A second server that starts on the same warehouse harms no statement."""
    stage = Stage(str(tmp_path))
    stage.add(pa.record_batch({"n": [1]}))
    sweep_stages(str(tmp_path))
    stage.close()

    assert stage.read().num_rows == 1


def test_server_with_the_number_of_a_dead_one_sweeps_its_folders(tmp_path: Path) -> None:
    """In a container every server has the same process number: it alone does not tell whose a folder is."""
    before = tmp_path / f"x-{os.getpid()}-0a0b0c0d-1"
    mine = tmp_path / f"{owned('x-')}1"
    for folder in (before, mine):
        folder.mkdir()
    sweep(str(tmp_path), "x-")

    assert list(tmp_path.iterdir()) == [mine]


def test_stage_of_another_machine_is_swept_after_a_day(tmp_path: Path) -> None:
    """Whether its server runs cannot be told, but rows that came lately are of one that does."""
    old, busy, fresh = (tmp_path / f"0123456789ab-{number}-t-x" for number in (1, 2, 3))
    for folder in (old, busy, fresh):
        folder.mkdir()
        (folder / "rows.parquet").touch()
    for path in (old / "rows.parquet", old, busy):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    sweep_stages(str(tmp_path))

    assert sorted(tmp_path.iterdir()) == [busy, fresh]


def test_trash_is_swept_whoever_left_it(tmp_path: Path) -> None:
    """What was dropped is needed by nobody; a folder that is not there is no error."""
    (tmp_path / "dropped" / "inner").mkdir(parents=True)
    sweep_all(str(tmp_path))
    sweep_all(str(tmp_path / "missing"))

    assert list(tmp_path.iterdir()) == []


def test_rows_that_do_not_fit_are_told_and_removed(tmp_path: Path) -> None:
    """A write that the system refuses is no internal error, and leaves no folder."""
    run = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert run.stdout == "the server's storage is full\n"
    assert list(tmp_path.iterdir()) == []
