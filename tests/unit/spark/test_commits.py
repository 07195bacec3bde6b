"""Who commits together, and what becomes of them when that fails."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from sparkport.catalog import Call
from sparkport.errors import InvalidRequestError, SparkportError, UnavailableError
from sparkport.spark.commits import TableCommits
from sparkport.spark.delta.log import DeltaLog
from sparkport.spark.jobs import Jobs
from sparkport.spark.staging import Stage


class Spark:
    """Stands for Spark: takes down what it is asked to append, and fails as told."""

    def __init__(self) -> None:
        self.appended: list[int] = []
        self.failures: dict[int, SparkportError] = {}
        self.gathered = threading.Event()

    def run(self, call: Call, table: str, work: Any) -> None:
        """Take down of how many statements an append is; the first waits for the others to gather."""
        del call, table
        if not self.appended:
            self.gathered.wait(10)
        size = len(work.args[1].stages)
        self.appended.append(size)
        if size in self.failures:
            raise self.failures[size]

    def submit(self, work: Any) -> None:
        """Run on a thread."""
        threading.Thread(target=work, daemon=True).start()


def outcomes(spark: Spark, folder: Path) -> list[str]:
    """Append by one statement, and by two more that wait for it; return what each was told."""
    commits = TableCommits(cast("Jobs", spark), "t", DeltaLog(str(folder)), lambda _: None)
    told = [""] * 3

    def append(number: int) -> None:
        stage = Stage(folder)
        stage.add(pa.record_batch({"n": [number]}))
        stage.close()
        try:
            commits.append(Call(), stage, [])
            told[number] = "done"
        except SparkportError as error:
            told[number] = type(error).__name__

    threads = [threading.Thread(target=append, args=(number,)) for number in range(3)]
    threads[0].start()
    while not commits._is_appending or commits._waiting:
        threading.Event().wait(0.01)
    for thread in threads[1:]:
        thread.start()
    while len(commits._waiting) < 2:
        threading.Event().wait(0.01)
    spark.gathered.set()
    for thread in threads:
        thread.join(10)
    return told


def test_those_who_wait_share_a_commit(tmp_path: Path) -> None:
    """While one append is under way others gather, and the next commit takes them all."""
    spark = Spark()

    assert outcomes(spark, tmp_path) == ["done", "done", "done"]
    assert spark.appended == [1, 2]


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
