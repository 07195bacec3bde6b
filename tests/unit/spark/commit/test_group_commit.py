"""Who commits together, and what becomes of them when that fails."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.catalog.measures import MEASURES
from sparkport.errors import InvalidRequestError, SparkportError, UnavailableError
from sparkport.spark.commit.group_commit import CommitQueue, _Append
from sparkport.spark.commit.staging import Stage
from sparkport.spark.delta.log.reader import DeltaLog
from sparkport.spark.delta_jvm.transaction import CommitResult
from sparkport.spark.session.jobs import Jobs
from sparkport.toolkit.repeats import StatementKey


class Spark:
    """Stands for Spark: records what it is asked to append, and fails as configured."""

    def __init__(self) -> None:
        self.appended: list[int] = []
        self.failures: dict[int, SparkportError] = {}
        self.gathered = threading.Event()

    def run_to_end(self, call: Call, table: str, work: Any) -> CommitResult:
        """Take down of how many statements an append is; the first waits for the others to gather."""
        del call, table
        if not self.appended:
            self.gathered.wait(10)
        *_, append = work.args  # which holds the lock of the folder meanwhile
        size = len(append.args[1].stages)
        self.appended.append(size)
        if size in self.failures:
            raise self.failures[size]
        return CommitResult(len(self.appended))


def outcomes(spark: Spark, folder: Path) -> list[str]:
    """Append by one statement, and by two more that wait for it; return the result of each."""
    commits = CommitQueue(cast("Jobs", spark), "t", "id", DeltaLog(str(folder)))
    results = [""] * 3
    threads = [
        threading.Thread(target=append, args=(commits, folder, results, number)) for number in range(3)
    ]
    threads[0].start()
    while not commits._is_draining or commits._waiting:
        threading.Event().wait(0.01)
    for thread in threads[1:]:
        thread.start()
    while len(commits._waiting) < 2:
        threading.Event().wait(0.01)
    spark.gathered.set()
    for thread in threads:
        thread.join(10)
    return results


def append(
    commits: CommitQueue, folder: Path, results: list[str], number: int, call: Call | None = None
) -> None:
    """Append a row by one statement, and store its result."""
    stage = Stage(str(folder))
    stage.add(pa.record_batch({"n": [number]}))
    stage.close()
    try:
        commits.append(call or Call(), None, stage, [])
        results[number] = "done"
    except SparkportError as error:
        results[number] = type(error).__name__


def test_those_who_wait_share_a_commit(tmp_path: Path) -> None:
    """While one append is under way others gather, and the next commit takes them all."""
    spark = Spark()
    before = [MEASURES.value(name) for name in ("commit_groups", "grouped_statements")]

    assert outcomes(spark, tmp_path) == ["done", "done", "done"]
    assert spark.appended == [1, 2]
    assert MEASURES.value("commit_groups") == before[0] + 2
    assert MEASURES.value("grouped_statements") == before[1] + 3


def test_refused_joint_commit_is_tried_one_by_one(tmp_path: Path) -> None:
    """Only the statement that is to blame gets the error."""
    spark = Spark()
    spark.failures[2] = InvalidRequestError("no")

    assert outcomes(spark, tmp_path) == ["done", "done", "done"]
    assert spark.appended == [1, 2, 1, 1]


@pytest.mark.parametrize("error", [UnavailableError("gone"), SparkportError("who knows")])
def test_joint_commit_of_unknown_outcome_is_not_tried_again(tmp_path: Path, error: SparkportError) -> None:
    """It may have landed before Spark was lost: again would be the rows twice."""
    spark = Spark()
    spark.failures[2] = error

    assert outcomes(spark, tmp_path) == ["done", type(error).__name__, type(error).__name__]
    assert spark.appended == [1, 2]


def test_key_that_another_server_has_noted_tells_nothing_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Spark is lost, only the statement whose own key is in the log is known to be done."""
    spark = Spark()
    spark.failures[2] = UnavailableError("gone")
    spark.appended.append(0)  # so that nothing waits
    commits = CommitQueue(cast("Jobs", spark), "t", "id", DeltaLog(str(tmp_path)))
    monkeypatch.setattr(commits, "outcome", lambda key: None if key is None else 1)
    stages = [Stage(str(tmp_path)), Stage(str(tmp_path))]
    for stage in stages:
        stage.add(pa.record_batch({"n": [1]}))
    group = [_Append(stages[0], [], StatementKey("k", 1)), _Append(stages[1], [])]
    commits._commit(group)

    assert group[0].done.result().affected == 1
    with pytest.raises(UnavailableError):
        group[1].done.result()


@pytest.mark.parametrize("comes_back", [True, False])
def test_next_commit_waits_a_moment_for_those_of_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """Clients that were answered together come back one after the other; one that waits may also go away."""
    monkeypatch.setattr("sparkport.spark.commit.group_commit._GATHER_SHARE", 1e9)
    monkeypatch.setattr("sparkport.spark.commit.group_commit._MAX_GATHER_SECONDS", 60)
    spark = Spark()
    spark.gathered.set()
    commits = CommitQueue(cast("Jobs", spark), "t", "id", DeltaLog(str(tmp_path)))
    commits._last_size, commits._last_seconds = 2, 1.0
    results, call = [""] * 2, Call()
    first = threading.Thread(target=append, args=(commits, tmp_path, results, 0, call))
    first.start()
    while not commits._waiting:
        threading.Event().wait(0.01)
    if not comes_back:
        call.cancel()
        first.join(10)
        first = threading.Thread(target=append, args=(commits, tmp_path, results, 0))
        first.start()
    append(commits, tmp_path, results, 1)
    first.join(10)

    assert results == ["done", "done"]
    assert spark.appended == [2]
