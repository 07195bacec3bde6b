"""Rows that are not yet in a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from sparkport.spark.leftovers import owned, sweep
from sparkport.spark.staging import Stage, sweep_stages


def test_staged_rows_can_be_read_once_closed(tmp_path: Path) -> None:
    """Batches are kept in their order, and counted."""
    stage = Stage(tmp_path)
    stage.add(pa.record_batch({"n": [1, 2]}))
    stage.add(pa.record_batch({"n": [3]}))
    stage.close()

    assert stage.rows == 3
    assert stage.read()["n"].to_pylist() == [1, 2, 3]


def test_stage_without_rows_leaves_no_trace(tmp_path: Path) -> None:
    """A statement without rows makes no folder."""
    stage = Stage(tmp_path / "staging")
    stage.close()
    stage.remove()

    assert not (tmp_path / "staging").exists()


def test_removed_stage_is_gone(tmp_path: Path) -> None:
    """Removing works at any time, also twice."""
    stage = Stage(tmp_path)
    stage.add(pa.record_batch({"n": [1]}))
    stage.remove()
    stage.remove()

    assert list(tmp_path.iterdir()) == []


def test_replaced_rows_take_the_place_of_the_others(tmp_path: Path) -> None:
    """Only the new folder is left."""
    stage = Stage(tmp_path)
    stage.add(pa.record_batch({"n": [1, 1]}))
    stage.close()
    other = stage.replaced(pa.table({"n": [1]}))

    assert list(tmp_path.iterdir()) == [other.folder]
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
    sweep(tmp_path, "x-")

    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


def test_own_stage_survives_a_sweep(tmp_path: Path) -> None:
    """A second server that starts on the same warehouse harms no statement."""
    stage = Stage(tmp_path)
    stage.add(pa.record_batch({"n": [1]}))
    sweep_stages(tmp_path)
    stage.close()

    assert stage.read().num_rows == 1
