"""Rows that are not yet in a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from sparkport.spark.commit.staging import Stage, remove_orphaned_stages

TOO_LARGE = """
import resource, signal, sys
import pyarrow as pa
from sparkport.errors import LimitExceededError
from sparkport.spark.commit.staging import Stage

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


def folders(staging: Path) -> list[Path]:
    """Return what is staged."""
    return [path for path in staging.iterdir() if path.is_dir()]


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

    assert [Path(other.on_disk())] == folders(tmp_path)
    assert other.read()["n"].to_pylist() == [1]
    assert other.rows == 1


def test_own_stage_survives_a_sweep(tmp_path: Path) -> None:
    """A second server that starts on the same warehouse harms no statement."""
    stage = Stage(str(tmp_path))
    stage.add(pa.record_batch({"n": [1]}))
    stage.on_disk()
    remove_orphaned_stages(str(tmp_path))

    assert stage.read().num_rows == 1


def test_full_disk_is_reported_and_rows_are_removed(tmp_path: Path) -> None:
    """A write that the system refuses is no internal error, and leaves no folder."""
    run = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert run.stdout == "the server's storage is full\n"
    assert list(tmp_path.iterdir()) == []
