"""The disk is full, or fails, at each step of a commit over three tables: all of it, or nothing."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkport.catalog import Call
from sparkport.spark.commit.journal import Journal, UnfinishedTransactionError
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.log.reader import DeltaLog

from .test_journal import commits, counts, publish, records

__all__ = ["commits"]

WRITES: dict[str, Callable[..., Any]] = {"fsync": os.fsync, "link": os.link, "rename": os.rename}


class FailingDisk:
    """Counts what is done to the disk, and fails from one step on."""

    def __init__(self, step: int, *, recovers: bool) -> None:
        self.step = step
        self.recovers = recovers
        self.done: list[str] = []

    def count(self, name: str) -> None:
        """Note a step, or fail."""
        self.done.append(name)
        if len(self.done) == self.step or (len(self.done) > self.step and not self.recovers):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def counted(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return work that is a step."""

        def run(*given: Any, **named: Any) -> Any:
            self.count(name)
            return work(*given, **named)

        return run

    def opened(self, file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        """Open a file; to write is a step."""
        if set(mode) & set("wxa"):
            self.count("open")
        return builtins_open(file, mode, *given, **named)


builtins_open = builtins.open


@contextmanager
def failing(disk: FailingDisk) -> Iterator[None]:
    """Let a disk fail in a block."""
    with pytest.MonkeyPatch.context() as patch:
        for name, work in WRITES.items():
            patch.setattr(os, name, disk.counted(name, work))
        patch.setattr(Path, "rename", disk.counted("rename", Path.rename))
        patch.setattr(builtins, "open", disk.opened)
        yield


def begin_again(folder: Path, commits: list[TableCommit]) -> None:
    """Make tables and staged files as they were before."""
    for commit in commits:
        for path in (Path(commit.root) / "_delta_log").iterdir():
            if path.is_file() and path.name != f"{0:020}.json":
                path.unlink()
        for name in commit.files:
            (Path(commit.root) / name).unlink(missing_ok=True)
            pq.write_table(pa.table({"n": [2]}), Path(commit.folder) / name)
    journal = folder / "_sparkport" / "transactions"
    assert not journal.exists() or records(folder) == []


def left(commits: list[TableCommit]) -> list[str]:
    """Return what there is in the tables' folders beside what belongs there."""
    files = [path for commit in commits for path in Path(commit.root).rglob("*") if path.is_file()]
    own = {name for commit in commits for name in commit.files}
    return [path.name for path in files if path.suffix == ".tmp" or path.name in own]


@pytest.mark.parametrize("recovers", [False, True], ids=["full", "fails once"])
def test_commit_is_whole_or_not_at_all(tmp_path: Path, commits: list[TableCommit], *, recovers: bool) -> None:
    """Where it fails before it is decided nothing is left; after that all is there once there is room."""
    outcomes, step, disk = [], 0, FailingDisk(0, recovers=True)
    while step <= len(disk.done):
        step += 1
        disk = FailingDisk(step, recovers=recovers)
        try:
            with failing(disk):
                publish(tmp_path, commits)
            outcomes.append("done")
        except UnfinishedTransactionError:
            outcomes.append("decided")
        except OSError:
            outcomes.append("nothing")
            assert counts(tmp_path) == [1, 1, 1], step
            assert left(commits) == [], step
            assert records(tmp_path) == [], step
        with Journal(str(tmp_path), DeltaLog).reading(Call(timeout=5)):
            assert counts(tmp_path) == ([1, 1, 1] if outcomes[-1] == "nothing" else [2, 2, 2]), step
        assert not [name for name in left(commits) if name.endswith(".tmp")], step
        begin_again(tmp_path, commits)

    assert outcomes[-1] == "done"
    assert {"nothing", "decided"} <= set(outcomes)
    assert outcomes.count("decided") >= len(commits)
    assert {"open", "fsync", "link", "rename"} <= set(disk.done)


def test_commit_to_one_table_is_whole_or_not_at_all(tmp_path: Path, commits: list[TableCommit]) -> None:
    """It needs no record; a failure after its name is in the log does not take its files away."""
    outcomes, step, disk = [], 0, FailingDisk(0, recovers=True)
    while step <= len(disk.done):
        step += 1
        disk = FailingDisk(step, recovers=False)
        try:
            with failing(disk):
                publish(tmp_path, commits[:1])
            outcomes.append("done")
        except UnfinishedTransactionError:
            outcomes.append("decided")
        except OSError:
            outcomes.append("nothing")
            assert left(commits) == []
        assert counts(tmp_path) == ([1, 1, 1] if outcomes[-1] == "nothing" else [2, 1, 1]), step
        begin_again(tmp_path, commits[:1])

    assert set(outcomes) == {"nothing", "decided", "done"}
