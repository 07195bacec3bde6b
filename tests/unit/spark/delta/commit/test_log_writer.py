"""Commits that the server writes to a log itself: each version once, after what others have committed."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sparkport.errors import ConflictError
from sparkport.spark.delta.commit.log_lock import server_commits, spark_commits
from sparkport.spark.delta.commit.log_writer import NewCommit, can_commit, write_commit
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta.log.reader import DeltaLog
from tests.spark.delta.handwritten import HandwrittenTable, add, metadata, protocol, remove

_FEATURES = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants"]}
_FORMAT = {"provider": "parquet", "options": {}}
_COMMITS = 40
_PROCESSES = 3


@pytest.fixture
def table(tmp_path: Path) -> HandwrittenTable:
    """Return a table with one file, at version 0."""
    made = HandwrittenTable(tmp_path / "t")
    made.commit(0, protocol(**_FEATURES), metadata(format=_FORMAT), add("old", 1))
    return made


def new_commit(table: HandwrittenTable, *actions: dict[str, Any], **changes: Any) -> NewCommit:
    """Return a commit of actions on the newest version."""
    base = DeltaLog(str(table.root)).header()
    texts = [json.dumps(action) for action in actions]
    return NewCommit("t", str(table.root), base, "WRITE", {"mode": "Append"}, texts, **changes)


def names(table: HandwrittenTable) -> list[str]:
    """Return what is in the folder of the log."""
    return sorted(path.name for path in table.log.iterdir())


def test_commit_is_the_next_version(table: HandwrittenTable) -> None:
    """It has what it was given, and nothing else is left in the log."""
    keys, metrics = {"app": 7}, {"numFiles": 1}

    assert write_commit(new_commit(table, add("new", 2), keys=keys, metrics=metrics)) == 1
    assert names(table) == [f"{version:020d}.json" for version in range(2)]
    snapshot = DeltaLog(str(table.root)).snapshot()
    assert [Path(file.path).name for file in snapshot.files] == ["new", "old"]
    assert snapshot.transactions == {"app": 7}
    (last,) = DeltaTable(table.root).history(1)
    assert (last["operation"], last["operationMetrics"], last["isBlindAppend"]) == (
        "WRITE",
        {"numFiles": "1"},
        True,
    )


def test_commit_goes_after_those_that_do_no_harm(table: HandwrittenTable) -> None:
    """Files and keys of others are none of its business."""
    commit = new_commit(table, remove("old"), add("new", 2), keys={"app": 7})
    table.commit(1, add("other", 1), {"txn": {"appId": "else", "version": 1}})
    table.commit(2, remove("other"))

    assert write_commit(commit) == 3
    assert [Path(file.path).name for file in DeltaLog(str(table.root)).snapshot().files] == ["new"]


@pytest.mark.parametrize(
    "winner",
    [metadata(), protocol(**_FEATURES), {"txn": {"appId": "app", "version": 1}}, remove("old")],
    ids=["columns", "protocol", "key", "file"],
)
def test_commit_that_lost_its_ground_is_a_conflict(table: HandwrittenTable, winner: dict[str, Any]) -> None:
    """Nothing of it is left."""
    commit = new_commit(table, remove("old"), keys={"app": 7})
    table.commit(1, winner)
    with pytest.raises(ConflictError):
        write_commit(commit)

    assert names(table) == [f"{version:020d}.json" for version in range(2)]


def test_times_in_commits_never_go_back(table: HandwrittenTable) -> None:
    """Where commits carry their time it is later than that of the version before, whatever the clock says."""
    future = 9_000_000_000_000
    on = {"delta.enableInCommitTimestamps": "true"}
    features = {**_FEATURES, "writerFeatures": ["inCommitTimestamp"]}
    first = {"commitInfo": {"inCommitTimestamp": future}}
    table.commit(1, first, protocol(**features), metadata(configuration=on))
    commit = new_commit(table, add("new", 2))
    table.commit(2, {"commitInfo": {"inCommitTimestamp": future + 50}}, add("other", 1))

    assert write_commit(commit) == 3
    assert DeltaLog(str(table.root)).header().timestamp_ms == future + 51


@pytest.mark.parametrize(
    ("changes", "configuration", "expected"),
    [
        ({}, {}, True),
        ({}, {"delta.checkpointInterval": "20", "made.by": "me", "delta.appendOnly": "false"}, True),
        ({}, {"delta.appendOnly": "true"}, False),
        ({}, {"delta.enableChangeDataFeed": "true"}, False),
        ({}, {"delta.universalFormat.enabledFormats": "iceberg"}, False),
        ({}, {"delta.not.known.yet": "1"}, False),
        ({"minReaderVersion": 1, "minWriterVersion": 2, "writerFeatures": []}, {}, True),
        ({"minReaderVersion": 2, "minWriterVersion": 6, "writerFeatures": []}, {}, True),
        ({"minWriterVersion": 3, "writerFeatures": []}, {"delta.constraints.c": "n > 0"}, False),
        ({"minWriterVersion": 8}, {}, False),
        ({"minReaderVersion": 4}, {}, False),
        ({"writerFeatures": ["catalogManaged"]}, {}, False),
        ({"writerFeatures": ["coordinatedCommits-preview"]}, {}, False),
        ({"writerFeatures": ["rowTracking"]}, {}, False),
        ({"writerFeatures": ["checkConstraints"]}, {}, False),
    ],
)
def test_tables_that_ask_for_more_are_left_to_spark(
    tmp_path: Path, changes: dict[str, Any], configuration: dict[str, str], expected: bool
) -> None:
    """Features and properties that Delta would have to act on, and all that is not known."""
    table = HandwrittenTable(tmp_path / "t")
    table.commit(0, protocol(**{**_FEATURES, **changes}), metadata(configuration=configuration))
    header = DeltaLog(str(table.root)).header()

    assert can_commit(str(table.root), header.protocol, header.metadata) is expected
    assert not can_commit("s3://bucket/t", header.protocol, header.metadata)


def test_server_waits_for_no_commit_of_sparks(table: HandwrittenTable) -> None:
    """While Spark may commit the server leaves it to Spark, and Spark's commits share the lock."""
    commit = new_commit(table, add("new", 2))
    with spark_commits(str(table.root)), spark_commits(str(table.root)):
        with pytest.raises(SparkRequiredError, match="Spark is writing"):
            write_commit(commit)
        assert names(table) == [f"{0:020d}.json"]

    assert write_commit(commit) == 1


def _fails(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("function", "number", "expected"),
    [
        ("os.link", errno.EPERM, SparkRequiredError),
        ("fcntl.flock", errno.ENOLCK, SparkRequiredError),
        ("os.link", errno.ENOSPC, OSError),
        ("os.fsync", errno.EIO, OSError),
    ],
)
def test_failure_leaves_nothing(
    table: HandwrittenTable,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    number: int,
    expected: type[Exception],
) -> None:
    """A file system without links or locks is Spark's; a full or broken disk is told."""
    monkeypatch.setattr(function, _fails(number))
    with pytest.raises(expected):
        write_commit(new_commit(table, add("new", 2)))

    assert names(table) == [f"{0:020d}.json"]


def test_log_that_was_replaced_is_not_continued(table: HandwrittenTable) -> None:
    """A commit after versions that are no longer there would be a log that begins in the middle."""
    for version in (1, 2):
        table.commit(version, add(str(version), 1))
    commit = new_commit(table, add("new", 2))
    for version in (1, 2):
        (table.log / f"{version:020d}.json").unlink()
    with pytest.raises(SparkRequiredError):
        write_commit(commit)

    assert names(table) == [f"{0:020d}.json"]


def test_commit_is_on_the_disk_before_it_has_its_name(
    table: HandwrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure leaves no version without its content, and no content without its files."""
    (table.root / "new").touch()
    events: list[tuple[str, int]] = []
    write_through, link = os.fsync, os.link

    def sync(file: int) -> None:
        write_through(file)
        events.append(("sync", os.fstat(file).st_ino))

    def name(path: str, target: str) -> None:
        link(path, target)
        events.append(("name", Path(target).stat().st_ino))

    monkeypatch.setattr("os.fsync", sync)
    monkeypatch.setattr("os.link", name)
    write_commit(new_commit(table, add("new", 2)))
    commit = (table.log / f"{1:020d}.json").stat().st_ino

    assert events[-1] == ("name", commit)
    assert {("sync", commit), ("sync", (table.root / "new").stat().st_ino)} <= set(events)


def _append(root: Path, number: int) -> None:
    table = HandwrittenTable(root)
    for count in range(_COMMITS):
        name = f"{number}-{count}"
        while True:
            try:
                write_commit(new_commit(table, add(name, 1), keys={name: 1}))
            except SparkRequiredError:
                continue  # others hold the lock all the time
            break


def test_writers_never_share_a_version(tmp_path: Path) -> None:
    """Processes of ours and delta-rs commit to one log, and every commit is there."""
    root = tmp_path / "t"
    HandwrittenTable(root).commit(0, protocol(**_FEATURES), metadata(format=_FORMAT))
    fork = multiprocessing.get_context("spawn")
    processes = [fork.Process(target=_append, args=(root, number)) for number in range(_PROCESSES)]
    for process in processes:
        process.start()
    for _ in range(_COMMITS // 4):
        write_deltalake(str(root), pa.table({"id": pa.array([1], pa.int64())}), mode="append")
    for process in processes:
        process.join(60)
    snapshot = DeltaLog(str(root)).snapshot()

    assert [process.exitcode for process in processes] == [0] * _PROCESSES
    assert snapshot.version == _PROCESSES * _COMMITS + _COMMITS // 4
    assert len(snapshot.files) == snapshot.version
    assert len(snapshot.transactions) == _PROCESSES * _COMMITS


def test_lock_of_the_server_ends(table: HandwrittenTable) -> None:
    """Spark waits for a commit of the server's, and goes on after it."""
    with server_commits(str(table.root)):
        pass
    with spark_commits(str(table.root)):
        pass
    with pytest.raises(SparkRequiredError), server_commits(str(table.root / "gone")):
        pass


@pytest.mark.parametrize("error", [FileExistsError(errno.EEXIST, "exists"), OSError(errno.EIO, "lost")])
def test_link_whose_answer_was_lost_is_a_commit(
    table: HandwrittenTable, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """Else its files would be removed, or its rows committed twice."""
    link = os.link

    def lost(source: str, target: str) -> None:
        link(source, target)
        raise error

    monkeypatch.setattr(os, "link", lost)

    assert write_commit(new_commit(table, remove("old"), add("new", 2))) == 1
    assert not (table.root / "_delta_log" / f"{2:020d}.json").exists()


def test_exact_commit_conflicts_with_rows_that_others_added(table: HandwrittenTable) -> None:
    """What was compared with all rows of a version is not committed after another one that adds some."""
    exact = new_commit(table, add("mine", 1), is_exact=True)
    table.commit(1, add("theirs", 1))

    with pytest.raises(ConflictError, match="another writer added rows"):
        write_commit(exact)
    assert write_commit(new_commit(table, add("mine", 1), is_exact=True)) == 2
