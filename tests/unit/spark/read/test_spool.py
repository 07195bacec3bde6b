"""Rows in files: what a task writes, and what the server reads meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext

from sparkport.errors import LimitExceededError
from sparkport.spark.read.spool import Partitions, spool_folder
from sparkport.spark.storage.temp_folders import discard
from sparkport.spark.worker import spool_writer
from sparkport.spark.worker.spool_writer import spool_partition

COLUMNS = pa.schema([("n", pa.int64())])
HEADER = COLUMNS.serialize().to_pybytes()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder for rows."""
    with spool_folder() as path:
        yield path


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every message have a file of its own, three of them be much, and six too much."""
    size = len(HEADER + message(0))
    monkeypatch.setattr(spool_writer, "_FIRST_FILE_BYTES", 1)
    monkeypatch.setattr(spool_writer, "_FILE_BYTES", 1)
    monkeypatch.setattr(spool_writer, "_BACKLOG_BYTES", 3 * size)
    monkeypatch.setattr(spool_writer, "_MAX_BACKLOG_BYTES", 6 * size)


def message(number: int) -> bytes:
    """Return a message of one row."""
    return bytes(pa.record_batch([pa.array([number])], schema=COLUMNS).serialize())


def write(folder: Path, partition: int, *numbers: int) -> None:
    """Write a whole partition."""
    assert list(spool_partition(str(folder), HEADER, partition, map(message, numbers))) == []


def ready(partitions: Partitions) -> list[int]:
    """Return the rows that have come since."""
    return [row.as_py() for batch in partitions.ready() for row in batch["n"]]


def test_partitions_come_in_their_order(folder: Path) -> None:
    """What is written early waits for what comes before it."""
    partitions = Partitions(folder)
    write(folder, 2, 5, 6)
    write(folder, 1)

    assert ready(partitions) == []
    write(folder, 0, 1, 2, 3)
    assert ready(partitions) == [1, 2, 3, 5, 6]
    assert ready(partitions) == []
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("small_files")
def test_rows_are_read_while_more_are_written(folder: Path) -> None:
    """A file is there as soon as it is complete."""
    partitions = Partitions(folder)
    seen = []

    def messages() -> Iterator[bytes]:
        for number in range(5):
            yield message(number)
            seen.append(ready(partitions))

    list(spool_partition(str(folder), HEADER, 0, messages()))

    assert [*seen, ready(partitions)] == [[0], [1], [2], [3], [4], []]


def test_slow_rows_are_not_held_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file is complete too when it took long."""
    monkeypatch.setattr(spool_writer, "_FILE_SECONDS", 0.0)
    write(folder, 0, 1, 2, 3)

    assert sorted(path.name for path in folder.iterdir()) == ["0-0", "0-1", "0-2", "0-3"]
    assert ready(Partitions(folder)) == [1, 2, 3]


def taken(folder: Path, partitions: Partitions, *numbers: int) -> Iterator[bytes]:
    """Yield messages of the first partition, of which the reader takes the first file at once."""
    for number in numbers:
        yield message(number)
        if number == numbers[0]:
            assert ready(partitions) == [number]
    assert folder.exists()


@pytest.mark.usefixtures("small_files")
def test_what_nobody_reads_yet_is_dropped(folder: Path) -> None:
    """A task whose partition has its turn later ends, and can be run again."""
    partitions = Partitions(folder)
    write(folder, 1, *range(10, 30))

    assert list(folder.iterdir()) == []
    write(folder, 0, 1)
    assert ready(partitions) == [1]
    assert partitions.current == 1
    write(folder, 1, 10, 11, 12)
    assert ready(partitions) == [10, 11, 12]


@pytest.mark.usefixtures("small_files")
def test_the_partition_that_is_read_goes_on(folder: Path) -> None:
    """It may have more unread than others."""
    partitions = Partitions(folder)
    list(spool_partition(str(folder), HEADER, 0, taken(folder, partitions, 0, 1, 2, 3, 4, 5, 6)))
    write(folder, 1, *range(10, 30))

    assert sorted(path.name for path in folder.glob("*-*")) == [f"0-{number}" for number in range(1, 8)]
    assert ready(partitions) == [1, 2, 3, 4, 5, 6]
    assert partitions.current == 1


@pytest.mark.usefixtures("small_files")
def test_all_rows_come_once_however_slowly_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the client reads anything, nothing is given up, and nothing comes twice."""
    monkeypatch.setattr(spool_writer, "MAX_WAIT_SECONDS", 2.0)
    rows = [list(range(start, start + 20)) for start in (0, 100, 200)]
    partitions = Partitions(folder)
    found: list[int] = []
    turns = 0
    while partitions.current < len(rows):
        turns += 1
        tasks = [
            threading.Thread(target=write, args=[folder, number, *rows[number]])
            for number in range(partitions.current, len(rows))
        ]
        for task in tasks:
            task.start()
        while any(task.is_alive() for task in tasks):
            for batch in partitions.ready():
                found += batch["n"].to_pylist()
                time.sleep(0.05)  # all rows together take longer than a task waits
        found += ready(partitions)
        partitions.clear()
        assert turns < 50

    assert found == [number for partition in rows for number in partition]


@pytest.mark.usefixtures("small_files")
def test_rows_that_nobody_reads_are_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has stalled for too long is told so when it comes back."""
    monkeypatch.setattr(spool_writer, "MAX_WAIT_SECONDS", 0.2)
    partitions = Partitions(folder)
    list(spool_partition(str(folder), HEADER, 0, taken(folder, partitions, *range(20))))

    with pytest.raises(LimitExceededError, match="the client read no rows for 60 seconds"):
        ready(partitions)


def test_a_task_is_not_repeated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its rows may have been sent, and others would not begin where they end."""

    class Again:
        def attemptNumber(self) -> int:  # noqa: N802  (Spark's name)
            return 1

    monkeypatch.setattr(TaskContext, "get", Again)
    with pytest.raises(RuntimeError, match="failed"):
        write(folder, 0, 1)


@pytest.mark.usefixtures("small_files")
def test_a_task_ends_when_the_folder_is_gone() -> None:
    """A reader that has left needs no more rows."""
    written = []

    def messages(folder: Path) -> Iterator[bytes]:
        for number in range(1000):
            if number == 2:
                discard(folder)
            written.append(number)
            yield message(number)

    with spool_folder() as folder:
        list(spool_partition(str(folder), HEADER, 0, messages(folder)))

    assert written == [0, 1, 2]
