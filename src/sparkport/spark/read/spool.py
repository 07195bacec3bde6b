"""Rows that tasks on the server's own machine leave in files: whoever reads them late holds no task.

The rows of a partition are in files `<partition>-<number>`, both counted from zero. A file has this name
when it is complete, so that it can be read while the next one is written; an empty file ends a partition.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from sparkport.errors import LimitExceededError
from sparkport.spark.storage.temp_folders import discard, owned, remove_orphans

_PREFIX = "sparkport-spool-"
_LATE = "late"
_TAKEN = "taken"
_DROPPED = ".dropped"
_FIRST_BYTES = 1 << 20
_FILE_BYTES = 16 << 20
_FILE_SECONDS = 0.5
_MUCH_BYTES = 2 << 30
_MAX_BYTES = 8 << 30
_WAIT_SECONDS = 0.05
_MAX_WAIT_SECONDS = 60.0


@contextmanager
def spool_folder() -> Iterator[Path]:
    """Make a folder that only the server's user can open, for as long as somebody reads."""
    folder = Path(tempfile.mkdtemp(prefix=owned(tempfile.gettempdir(), _PREFIX)))
    try:
        yield folder
    finally:
        discard(folder)


def remove_orphaned_spools() -> None:
    """Remove what servers have left behind that are gone."""
    remove_orphans(tempfile.gettempdir(), _PREFIX)


def read_spool_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, which is mapped into memory and gone afterwards."""
    with pa.memory_map(str(path)) as source:
        path.unlink()
        yield from pa.ipc.open_stream(source)


class Partitions:
    """The rows of all partitions in their order, as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self.current = 0
        self._folder = folder
        self._number = 0

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there by now and have not been yielded.

        Raises LimitExceededError if the tasks have given up, see `spool_partition`.
        """
        if (self._folder / _LATE).exists():
            raise LimitExceededError(
                f"the rows of this scan waited for {_MAX_WAIT_SECONDS:.0f} seconds to be read by the client"
            )
        taken = self._folder / _TAKEN
        while _is_moved(self._folder / f"{self.current}-{self._number}", taken):
            if taken.stat().st_size:
                yield from read_spool_file(taken)
                self._number += 1
            else:
                taken.unlink()
                self.current, self._number = self.current + 1, 0

    def clear(self) -> None:
        """Remove what tasks have left that are over: partitions after one that is missing."""
        for path in self._folder.glob("*-*"):
            path.unlink()


def spool_partition(folder: str, header: bytes, partition: int, messages: Iterable[bytes]) -> Iterator[None]:
    """Write a partition, given as a header and messages of Arrow. Runs inside a task.

    While much is unread, only the partition that is being read goes on: the files of others are removed, for
    them to be written again later. That one waits too in the end, but not for ever: a task keeps others
    from running. Returns early as well when the folder is gone: nobody wants the rows any more.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        raise RuntimeError("a task of this scan failed, and some of its rows may have been sent already")
    path = Path(folder, str(partition))
    number = 0
    left = iter(messages)
    while (first := next(left, None)) is not None:
        if number and not _may_go_on(path, number):
            return
        most_bytes = _FILE_BYTES if number else _FIRST_BYTES  # the first rows come soon
        _write(path, header, itertools.chain([first], left), most_bytes)
        path.rename(f"{path}-{number}")
        number += 1
    Path(f"{path}-{number}").touch()
    yield from ()


def _may_go_on(path: Path, number: int) -> bool:
    """Wait until there is room for one more file of a partition, and tell whether there is."""
    folder, newest = path.parent, Path(f"{path}-{number - 1}")
    changed_ns, deadline = 0, 0.0
    while newest.exists() and (size := _size(folder)) > _MUCH_BYTES:
        # The reader takes files the same way: one of both gets the first, and the partition with it.
        if _is_moved(Path(f"{path}-0"), Path(f"{path}{_DROPPED}")):
            for file in (Path(f"{path}{_DROPPED}"), *folder.glob(f"{path.name}-*")):
                file.unlink()
            return False
        if size <= min(_MAX_BYTES, shutil.disk_usage(folder).free):
            break
        now = time.monotonic()
        if (modified_ns := folder.stat().st_mtime_ns) != changed_ns:  # files come and go: somebody reads
            changed_ns, deadline = modified_ns, now + _MAX_WAIT_SECONDS
        elif now > deadline:
            (folder / _LATE).touch()
            return False
        time.sleep(_WAIT_SECONDS)
    return folder.exists()


def _is_moved(path: Path, target: Path) -> bool:
    try:
        path.replace(target)
    except FileNotFoundError:
        return False
    return True


def _size(folder: Path) -> int:
    total = 0
    for path in folder.glob("*-*"):
        with suppress(FileNotFoundError):  # read meanwhile
            total += path.stat().st_size
    return total


def _write(path: Path, header: bytes, messages: Iterator[bytes], most_bytes: int) -> None:
    """Write messages to a file until it is large or took long enough; the rest stays in the iterator."""
    begun = time.monotonic()
    with path.open("wb") as file:
        file.write(header)
        for message in messages:
            file.write(message)
            if file.tell() >= most_bytes or time.monotonic() - begun >= _FILE_SECONDS:
                return
