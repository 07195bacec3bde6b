"""A transaction that another program comes in between of is undone, whoever dies meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
from deltalake import DeltaTable

from sparkport.catalog import Call
from sparkport.errors import ConflictError, UnavailableError
from sparkport.spark.commit import journal as journals
from sparkport.spark.commit import undo as undoing
from sparkport.spark.commit.journal import Journal
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.commit.log_lock import holding_logs
from sparkport.spark.delta.commit.log_writer import write_commit
from sparkport.spark.delta.files.file_actions import removal
from sparkport.spark.delta.log.reader import DeltaLog

from .test_journal import commits, counts, killed_at, publish, records

__all__ = ["commits"]

KEY = "sparkport:k"
# Publishes the commits of a file, and kills itself at the step of that number: whenever it names, writes
# or removes something of the record or of a commit.
_KILLED = """
import json, os, signal, sys
from pathlib import Path
from sparkport.catalog import Call
from sparkport.spark.commit import journal as journals, undo as undoing
from sparkport.spark.commit.transaction_commit import TableCommit
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta.commit.log_lock import holding_logs
from sparkport.spark.delta.commit.log_writer import write_commit

folder, number = sys.argv[1], int(sys.argv[2])
steps = []

def counted(work):
    def run(*given, **named):
        if len(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        steps.append(work)
        return work(*given, **named)
    return run

commits = [TableCommit(**one) for one in json.loads(sys.stdin.read())]
journals.write_commit = counted(journals.write_commit)
undoing.write_commit = counted(undoing.write_commit)
Path.rename, Path.unlink = counted(Path.rename), counted(Path.unlink)
try:
    with holding_logs([one.root for one in commits], lambda: None):
        journals.Journal(folder, DeltaLog).publish(Call(), commits)
finally:
    print(len(steps))
"""


@pytest.fixture
def colliding(commits: list[TableCommit]) -> list[TableCommit]:
    """Return commits to three tables; the last one removes a file that is already gone."""
    first = DeltaLog(commits[0].root).snapshot().files
    last = DeltaLog(commits[2].root).snapshot().files
    DeltaTable(commits[2].root).delete()
    replacing = replace(commits[0], actions=[*commits[0].actions, *map(removal, first)], keys={KEY: 7})
    return [replacing, commits[1], replace(commits[2], actions=[*commits[2].actions, *map(removal, last)])]


def numbers(root: str, version: int | None = None) -> list[int]:
    """Return the numbers that another program finds in a version."""
    found: list[int] = DeltaTable(root, version=version).to_pyarrow_table()["n"].to_pylist()
    return sorted(found)


def recover(folder: Path) -> None:
    """Do what the next server does before it begins a transaction."""
    with Journal(str(folder), DeltaLog).reading(Call(timeout=5)):
        return


def test_commits_before_the_conflict_are_taken_back(tmp_path: Path, colliding: list[TableCommit]) -> None:
    """All tables are as before, one line of the log says so, and the client may run it again."""
    with (
        structlog.testing.capture_logs() as lines,
        pytest.raises(ConflictError, match=r"table 's.c'.*the transaction was undone; run") as raised,
    ):
        publish(tmp_path, colliding)

    assert raised.value.table == "s.c"
    assert counts(tmp_path) == [1, 1, 0]
    assert records(tmp_path) == []
    assert numbers(colliding[0].root) == [1]
    assert numbers(colliding[0].root, 1) == [2]
    history = [DeltaTable(colliding[0].root).history()[0], DeltaTable(colliding[1].root).history()[0]]
    assert [entry["operation"] for entry in history] == ["RESTORE"] * 2
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert (line["undone"], line["not_undone"], line["not_committed"]) == (["s.a", "s.b"], [], ["s.c"])
    assert not Path(colliding[2].root, "part-c.parquet").exists()
    assert DeltaLog(colliding[0].root).snapshot().files[0].row_count == 1
    assert KEY not in DeltaLog(colliding[0].root).transactions()


def test_what_others_have_changed_since_is_left(
    tmp_path: Path, colliding: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that another program has changed after the first commit stay; the others are taken back."""

    def changed_at_once(*given: object, **named: object) -> int:
        made = write_commit(*given, **named)  # type: ignore[arg-type]
        if given[0].table == "s.a":  # type: ignore[attr-defined]
            DeltaTable(colliding[0].root).update({"n": "n + 40"})
        return made

    monkeypatch.setattr(journals, "write_commit", changed_at_once)
    with (
        structlog.testing.capture_logs() as lines,
        pytest.raises(
            ConflictError, match=r"undone, but for tables s\.a, which that program has changed too"
        ),
    ):
        publish(tmp_path, colliding)

    assert numbers(colliding[0].root) == [42]
    assert counts(tmp_path) == [1, 1, 0]
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert (line["undone"], line["not_undone"], line["not_committed"]) == (["s.b"], ["s.a"], ["s.c"])
    assert records(tmp_path) == []


def test_undo_survives_a_kill_at_every_step(tmp_path: Path, colliding: list[TableCommit]) -> None:
    """Wherever the server dies, the next one leaves either all tables undone, once, and no record."""
    data = json.dumps([asdict(one) for one in colliding])
    number, codes = -1, set[int]()
    while not codes or -signal.SIGKILL in codes:
        number += 1
        codes = {_killed(tmp_path, data, number)}
        recover(tmp_path)
        recover(tmp_path)
        assert counts(tmp_path) == [1, 1, 0], number
        assert records(tmp_path) == [], number
        made = DeltaTable(colliding[0].root).history()
        assert [entry["operation"] for entry in made].count("RESTORE") in {0, 1}, number
        _restore(tmp_path, colliding)

    assert number > len(colliding) * 3


def _killed(folder: Path, data: str, number: int) -> int:
    command = [sys.executable, "-c", _KILLED, str(folder), str(number)]
    return subprocess.run(command, input=data, text=True, check=False, capture_output=True).returncode


def _restore(folder: Path, colliding: list[TableCommit]) -> None:
    """Make tables and staged files as they were before: the two first commits are forgotten."""
    for commit in colliding:
        root = Path(commit.root)
        kept = {f"{version:020}.json" for version in range(1 if commit.table != "s.c" else 2)}
        for path in (root / "_delta_log").iterdir():
            if path.is_file() and path.name not in kept:
                path.unlink()
        for name in commit.files:
            (root / name).unlink(missing_ok=True)
            pq.write_table(pa.table({"n": [2]}), Path(commit.folder) / name)
    for path in (folder / "_sparkport" / "transactions").iterdir():
        path.unlink()


def test_undo_waits_for_room_on_the_disk(
    tmp_path: Path, colliding: list[TableCommit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk does not take the undo the client is told, and nobody begins; then it goes on."""

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(undoing, "write_commit", full)
        with pytest.raises(UnavailableError, match="could not undo it all now"):
            publish(tmp_path, colliding)
        assert counts(tmp_path) == [1, 2, 0]
        with pytest.raises(UnavailableError), Journal(str(tmp_path), DeltaLog).reading(Call(timeout=0.1)):
            pass
    with Journal(str(tmp_path), DeltaLog).reading(Call(timeout=5)):
        assert counts(tmp_path) == [1, 1, 0]
    assert numbers(colliding[0].root) == [1]


def test_nothing_is_undone_where_nothing_was_made(tmp_path: Path, colliding: list[TableCommit]) -> None:
    """A conflict at the first commit is a conflict like any other."""
    with (
        structlog.testing.capture_logs() as lines,
        pytest.raises(ConflictError, match="another writer changed the same files"),
        holding_logs([one.root for one in colliding], lambda: None),
    ):
        Journal(str(tmp_path), DeltaLog).publish(Call(), [colliding[2], *colliding[:2]])

    assert counts(tmp_path) == [1, 1, 0]
    assert [line for line in lines if line["log_level"] == "error"] == []


@pytest.mark.parametrize("made", [0, 1])
def test_lost_files_undo_what_was_made(tmp_path: Path, commits: list[TableCommit], made: int) -> None:
    """Where staged files are gone, with the server that has decided, no record stays that blocks others."""
    killed_at(tmp_path, commits, made)
    for commit in commits:
        for name in commit.files:
            (Path(commit.folder) / name).unlink(missing_ok=True)
    with structlog.testing.capture_logs() as lines:
        recover(tmp_path)

    assert counts(tmp_path) == [1, 1, 1]
    assert records(tmp_path) == []
    assert len([line for line in lines if line["log_level"] == "error"]) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_lost_files_are_a_conflict(tmp_path: Path, commits: list[TableCommit], count: int) -> None:
    """A commit whose staged files were removed commits nothing, and says so."""
    (Path(commits[count - 1].folder) / commits[count - 1].files[0]).unlink()
    with pytest.raises(ConflictError, match="what was staged for it"):
        publish(tmp_path, commits[:count])

    assert counts(tmp_path) == [1, 1, 1]


def test_damaged_record_is_told(tmp_path: Path, commits: list[TableCommit]) -> None:
    """Nobody can know what it meant: transactions are refused until somebody has looked."""
    killed_at(tmp_path, commits, 1)
    (record,) = records(tmp_path)
    record.write_text("{")
    with (
        pytest.raises(UnavailableError, match="could not be completed yet"),
        Journal(str(tmp_path), DeltaLog).reading(Call(timeout=0.1)),
    ):
        pass

    assert records(tmp_path) == [record]
