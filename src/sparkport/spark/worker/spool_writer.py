"""Write the rows of a task to spool files, while the server reads the first of them.

The rows of a partition are in files `<partition>-<number>`, both counted from zero. A file has this name
when it is complete, so that it can be read while the next one is written; an empty file ends a partition.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pyspark import TaskContext

TIMED_OUT = "timed_out"
"""The file that says that the tasks have given up."""
MAX_WAIT_SECONDS = 60.0
"""How long a task waits for its rows to be read."""

_DISCARDED = ".discarded"
_FIRST_FILE_BYTES = 1 << 20
_FILE_BYTES = 16 << 20
_FILE_SECONDS = 0.5
_BACKLOG_BYTES = 2 << 30
_MAX_BACKLOG_BYTES = 8 << 30
_POLL_SECONDS = 0.05


def spool_partition(folder: str, header: bytes, partition: int, messages: Iterable[bytes]) -> Iterator[None]:
    """Write a partition, given as an Arrow IPC header and messages.

    When the backlog of unread files is large, only the partition that is being read continues: the files of
    others are removed and written again later. In the end that one waits too, but not for ever, since a task
    keeps others from running. Returns early when the folder is gone: the reader has left.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        raise RuntimeError("a task of this scan failed, and some of its rows may have been sent already")
    path = Path(folder, str(partition))
    number = 0
    remaining = iter(messages)
    while (first := next(remaining, None)) is not None:
        if number and not _wait_for_room(path, number):
            return
        max_bytes = _FILE_BYTES if number else _FIRST_FILE_BYTES  # so that the first rows come soon
        _write(path, header, itertools.chain([first], remaining), max_bytes)
        path.rename(f"{path}-{number}")
        number += 1
    Path(f"{path}-{number}").touch()
    yield from ()


def _wait_for_room(path: Path, number: int) -> bool:
    """Wait until there is room for one more file of a partition; return whether there is."""
    folder, newest = path.parent, Path(f"{path}-{number - 1}")
    changed_ns, deadline = 0, 0.0
    while newest.exists() and (size := _backlog(folder)) > _BACKLOG_BYTES:
        # The reader moves files in the same way: whoever gets the first file gets the partition.
        if move(Path(f"{path}-0"), Path(f"{path}{_DISCARDED}")):
            for file in (Path(f"{path}{_DISCARDED}"), *folder.glob(f"{path.name}-*")):
                file.unlink()
            return False
        if size <= min(_MAX_BACKLOG_BYTES, shutil.disk_usage(folder).free):
            break
        now = time.monotonic()
        if (modified_ns := folder.stat().st_mtime_ns) != changed_ns:  # files come and go: the client reads
            changed_ns, deadline = modified_ns, now + MAX_WAIT_SECONDS
        elif now > deadline:
            (folder / TIMED_OUT).touch()
            return False
        time.sleep(_POLL_SECONDS)
    return folder.exists()


def move(path: Path, target: Path) -> bool:
    """Rename a file; return whether it was there."""
    try:
        path.replace(target)
    except FileNotFoundError:
        return False
    return True


def _backlog(folder: Path) -> int:
    total = 0
    for path in folder.glob("*-*"):
        with suppress(FileNotFoundError):  # read meanwhile
            total += path.stat().st_size
    return total


def _write(path: Path, header: bytes, messages: Iterator[bytes], max_bytes: int) -> None:
    """Write messages to a file until it is large or took long enough; the rest stays in the iterator."""
    begun = time.monotonic()
    with path.open("wb") as file:
        file.write(header)
        for message in messages:
            file.write(message)
            if file.tell() >= max_bytes or time.monotonic() - begun >= _FILE_SECONDS:
                return
