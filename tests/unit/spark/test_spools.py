"""Rows in files: what a task writes, and what the server reads meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from sparkport.errors import LimitExceededError
from sparkport.spark import spools
from sparkport.spark.leftovers import discard
from sparkport.spark.spools import Partitions, spool_folder, spool_partition

COLUMNS = pa.schema([("n", pa.int64())])
HEADER = COLUMNS.serialize().to_pybytes()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder for rows."""
    with spool_folder() as path:
        yield path


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every message have a file of its own, and three of them be too many."""
    monkeypatch.setattr(spools, "_FIRST_BYTES", 1)
    monkeypatch.setattr(spools, "_FILE_BYTES", 1)
    monkeypatch.setattr(spools, "_MOST_BYTES", 3 * len(message(0)))


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
    monkeypatch.setattr(spools, "_FILE_SECONDS", 0.0)
    write(folder, 0, 1, 2, 3)

    assert sorted(path.name for path in folder.iterdir()) == ["0-0", "0-1", "0-2", "0-3"]
    assert ready(Partitions(folder)) == [1, 2, 3]


@pytest.mark.usefixtures("small_files")
def test_a_task_waits_for_its_reader(folder: Path) -> None:
    """Only so much is ahead of the reader, and all of it comes."""
    numbers = list(range(20))
    task = threading.Thread(target=write, args=[folder, 0, *numbers])
    task.start()
    partitions = Partitions(folder)
    most = 0
    found: list[int] = []
    while len(found) < len(numbers):
        time.sleep(0.01)
        most = max(most, len(list(folder.iterdir())))
        found += ready(partitions)
    task.join(5)

    assert found == numbers
    assert most <= 6


@pytest.mark.usefixtures("small_files")
def test_a_partition_without_unread_rows_does_not_wait(folder: Path) -> None:
    """The first file of each can always be written: the reader may wait for just that."""
    for partition in range(20):
        write(folder, partition, partition)

    assert ready(Partitions(folder)) == list(range(20))


@pytest.mark.usefixtures("small_files")
def test_rows_that_nobody_reads_are_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has stalled for too long is told so when it comes back; all tasks end."""
    monkeypatch.setattr(spools, "_MOST_WAIT_SECONDS", 0.2)
    partitions = Partitions(folder)
    tasks = [threading.Thread(target=write, args=[folder, partition, *range(20)]) for partition in range(2)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join(10)

    assert not any(task.is_alive() for task in tasks)
    with pytest.raises(LimitExceededError, match="seconds to be read"):
        ready(partitions)


@pytest.mark.usefixtures("small_files")
def test_a_partition_may_wait_long_for_one_that_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the client reads anything, nothing is given up."""
    monkeypatch.setattr(spools, "_MOST_WAIT_SECONDS", 0.3)
    numbers = list(range(20))
    tasks = [threading.Thread(target=write, args=[folder, partition, *numbers]) for partition in range(2)]
    for task in tasks:
        task.start()
    partitions = Partitions(folder)
    found: list[int] = []
    until = time.monotonic() + 30
    while len(found) < 40 and time.monotonic() < until:
        for batch in partitions.ready():
            found += batch["n"].to_pylist()
            time.sleep(0.05)
        time.sleep(0.01)
    for task in tasks:
        task.join(5)

    assert found == numbers * 2


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
