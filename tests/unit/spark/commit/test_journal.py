"""The journal of transactions over several tables: what was decided is done, once, whoever dies meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sparkport.catalog import Call
from sparkport.errors import ConflictError, DeadlineExceededError
from sparkport.spark.commit import journal as journals
from sparkport.spark.commit.journal import Journal, UnfinishedTransactionError
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.commit.log_lock import holding_logs
from sparkport.spark.delta.commit.log_writer import NewCommit, write_commit
from sparkport.spark.delta.log.reader import DeltaLog

NAMES = ("a", "b", "c")
SEVERAL = 3

# Publishes the commits of a file, and kills itself before the commit of that number, or at the end.
_KILLED = """
import json, os, signal, sys
from sparkport.catalog import Call
from sparkport.spark.commit import journal as journals
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.commit.log_lock import holding_logs

folder, number = sys.argv[1], int(sys.argv[2])
commits = [TableCommit(**one) for one in json.loads(sys.stdin.read())]
made, write = [], journals.write_commit

def counted(commit, **options):
    if len(made) == number:
        os.kill(os.getpid(), signal.SIGKILL)
    made.append(write(commit, **options))

journals.write_commit = counted
journals.Path.unlink = lambda path: os.kill(os.getpid(), signal.SIGKILL)
with holding_logs([one.root for one in commits], lambda: None):
    journals.Journal(folder, DeltaLog).publish(Call(), commits)
"""


@pytest.fixture
def commits(tmp_path: Path) -> list[TableCommit]:
    """Return a commit of one row to each of three tables of one row."""
    staging = tmp_path / "_sparkport" / "staging"
    staging.mkdir(parents=True)
    made = []
    for name in NAMES:
        root = tmp_path / name
        write_deltalake(str(root), pa.table({"n": [1]}))
        file = f"part-{name}.parquet"
        pq.write_table(pa.table({"n": [2]}), staging / file)
        size = (staging / file).stat().st_size
        add = {"path": file, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        table_id = DeltaLog(str(root)).header().metadata.table_id
        actions = [json.dumps({"add": add})]
        made.append(
            TableCommit(
                f"s.{name}", str(root), table_id, 0, "WRITE", {}, actions, {}, {}, str(staging), [file]
            )
        )
    return made


def counts(folder: Path) -> list[int]:
    """Return how many rows another program finds in each table."""
    return [len(DeltaTable(str(folder / name)).to_pyarrow_table()) for name in NAMES]


def records(folder: Path) -> list[Path]:
    """Return what is in the journal."""
    return list((folder / "_sparkport" / "transactions").iterdir())


def publish(folder: Path, commits: list[TableCommit]) -> None:
    """Publish commits as a transaction does."""
    with holding_logs([one.root for one in commits], lambda: None):
        Journal(str(folder), DeltaLog).publish(Call(), commits)


def killed_at(folder: Path, commits: list[TableCommit], number: int) -> None:
    """Let another process publish commits, and be killed before one of them."""
    data = json.dumps([asdict(one) for one in commits])
    command = [sys.executable, "-c", _KILLED, str(folder), str(number)]
    done = subprocess.run(command, input=data, text=True, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_all_tables_are_committed_and_nothing_stays(tmp_path: Path, commits: list[TableCommit]) -> None:
    """A transaction over three tables makes one commit in each, and its record is gone."""
    publish(tmp_path, commits)

    assert counts(tmp_path) == [2, 2, 2]
    assert records(tmp_path) == []
    assert [DeltaTable(str(tmp_path / name)).version() for name in NAMES] == [1, 1, 1]


@pytest.mark.parametrize("number", range(SEVERAL + 1))
def test_what_a_killed_server_has_decided_is_completed(
    tmp_path: Path, commits: list[TableCommit], number: int
) -> None:
    """However many commits were made before the kill, all are there after the recovery, each once."""
    killed_at(tmp_path, commits, number)
    assert sorted(counts(tmp_path)) == sorted([2] * number + [1] * (SEVERAL - number))
    journal = Journal(str(tmp_path), DeltaLog)
    journal.recover()
    journal.recover()

    assert counts(tmp_path) == [2, 2, 2]
    assert [DeltaTable(str(tmp_path / name)).version() for name in NAMES] == [1, 1, 1]
    assert records(tmp_path) == []


def test_readers_wait_between_two_commits(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a transaction is published, its tables are read after its last commit, and others at once."""
    journal = Journal(str(tmp_path), DeltaLog)
    first_made, go_on = threading.Event(), threading.Event()

    def halting(commit: NewCommit, *, is_locked: bool) -> int:
        written = write_commit(commit, is_locked=is_locked)
        first_made.set()
        assert go_on.wait(30)
        return written

    def read(name: str) -> list[int]:
        journal.await_published(Call(timeout=30), str(tmp_path / name))
        return counts(tmp_path)

    monkeypatch.setattr(journals, "write_commit", halting)
    with ThreadPoolExecutor() as pool, holding_logs([one.root for one in commits], lambda: None):
        publishing = pool.submit(journal.publish, Call(), commits)
        assert first_made.wait(30)
        readers = [pool.submit(read, name) for name in NAMES]
        journal.await_published(Call(), str(tmp_path / "other"))
        with pytest.raises(DeadlineExceededError):
            journal.await_published(Call(timeout=0.1), str(tmp_path / "a"))
        go_on.set()
        publishing.result()

    assert [reader.result() for reader in readers] == [[2, 2, 2]] * 3


def test_files_of_a_commit_stay_though_the_disk_fails_after_it(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the log names files they are never removed, also if the folder of the log cannot be flushed."""

    def failing(*paths: Path) -> None:
        if any(path.name == "_delta_log" for path in paths):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(journals, "write_through", failing)
    with pytest.raises(UnfinishedTransactionError):
        publish(tmp_path, commits[:1])

    assert counts(tmp_path) == [2, 1, 1]


def test_others_commit_before_the_recovery(tmp_path: Path, commits: list[TableCommit]) -> None:
    """A commit that another server has made since does not keep the rest of a transaction out."""
    killed_at(tmp_path, commits, 1)
    write_deltalake(str(tmp_path / "c"), pa.table({"n": [3]}), mode="append")
    Journal(str(tmp_path), DeltaLog).recover()

    assert counts(tmp_path) == [2, 2, 3]


def test_record_is_awaited_by_its_own_tables_alone(tmp_path: Path, commits: list[TableCommit]) -> None:
    """What a dead server has left keeps other commits to the same tables waiting, and no others."""
    killed_at(tmp_path, commits[:2], 1)
    journal = Journal(str(tmp_path), DeltaLog)

    assert journal.awaits([commits[1].root])
    assert not journal.awaits([commits[2].root])
    journal.recover()
    assert not journal.awaits([commits[1].root])


def test_table_that_was_dropped_since_is_left_out(tmp_path: Path, commits: list[TableCommit]) -> None:
    """The recovery commits to the tables that are still there, and never to one that took a place."""
    killed_at(tmp_path, commits, 0)
    (tmp_path / "b").rename(tmp_path / "gone")
    write_deltalake(str(tmp_path / "b"), pa.table({"n": [1]}))
    Journal(str(tmp_path), DeltaLog).recover()

    assert counts(tmp_path) == [2, 1, 2]


def test_record_of_a_living_server_is_left_alone(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its server publishes a transaction nobody else does."""
    seen: list[list[int]] = []

    def look(commit: NewCommit, *, is_locked: bool) -> int:
        Journal(str(tmp_path), DeltaLog).recover()
        seen.append(counts(tmp_path))
        return write_commit(commit, is_locked=is_locked)

    monkeypatch.setattr(journals, "write_commit", look)
    publish(tmp_path, commits)

    assert seen == [[1, 1, 1], [2, 1, 1], [2, 2, 1]]


def test_disk_that_is_full_at_the_first_commit_decides_nothing(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of which nothing could be written leaves neither record nor files in the tables."""

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journals, "write_commit", full)
    with pytest.raises(OSError, match="No space"):
        publish(tmp_path, commits)

    assert records(tmp_path) == []
    assert [list((tmp_path / name).glob("part-?.parquet")) for name in NAMES] == [[], [], []]


def test_disk_that_is_full_between_commits_is_waited_for(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is half written is said to be decided, and is completed when the disk has room."""
    made: list[int] = []

    def full(commit: NewCommit, *, is_locked: bool) -> int:
        if made:
            raise OSError(28, "No space left on device")
        made.append(write_commit(commit, is_locked=is_locked))
        return made[0]

    with monkeypatch.context() as patch:
        patch.setattr(journals, "write_commit", full)
        with pytest.raises(UnfinishedTransactionError, match="is committed"):
            publish(tmp_path, commits)
    assert counts(tmp_path) == [2, 1, 1]
    Journal(str(tmp_path), DeltaLog).recover()

    assert counts(tmp_path) == [2, 2, 2]


def test_conflict_with_a_program_without_locks_ends_the_transaction(
    tmp_path: Path, commits: list[TableCommit]
) -> None:
    """If another program has removed the same file nothing of the transaction is committed."""
    root = tmp_path / "a"
    (old,) = (file.logged_path for file in DeltaLog(str(root)).snapshot().files)
    remove = json.dumps({"remove": {"path": old, "dataChange": True, "deletionTimestamp": 1}})
    DeltaTable(str(root)).delete()
    both = [replace(commits[0], actions=[*commits[0].actions, remove]), *commits[1:]]
    with pytest.raises(ConflictError, match="changed the same files"):
        publish(tmp_path, both)

    assert counts(tmp_path) == [0, 1, 1]
    assert records(tmp_path) == []


def test_transaction_does_not_begin_while_another_is_published(
    tmp_path: Path, commits: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes a moment of all tables waits until the last commit is in."""
    waits: list[bool] = []

    def look(commit: NewCommit, *, is_locked: bool) -> int:
        try:
            with Journal(str(tmp_path), DeltaLog).reading(Call(timeout=0.05)):
                waits.append(False)
        except Exception:  # noqa: BLE001  (the deadline)
            waits.append(True)
        return write_commit(commit, is_locked=is_locked)

    monkeypatch.setattr(journals, "write_commit", look)
    publish(tmp_path, commits)
    with Journal(str(tmp_path), DeltaLog).reading(Call(timeout=5)):
        assert counts(tmp_path) == [2, 2, 2]

    assert waits == [True, True, True]
