"""Lock a table's folder against DROP and RENAME while it is written to, across the servers of a machine.

A commit after a DROP would create the folder again, with a log that begins in the middle. So
commits hold a shared lock on the folder, and whoever moves or removes it an exclusive one. The lock is the
kernel's (`flock`): it needs no lock file, moves with the folder, and ends with the process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import structlog
from pyspark.sql import SparkSession

from sparkport.catalog.call import Call
from sparkport.errors import NotFoundError
from sparkport.spark.delta.commit.log_lock import spark_commits
from sparkport.spark.storage.filesystem import is_local

_log = structlog.get_logger("sparkport.spark")

_POLL_SECONDS = 0.02
# The errors of file systems that have no such locks, or not on folders.
_UNSUPPORTED = {errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EINVAL, errno.ENOLCK}

T = TypeVar("T")


@contextlib.contextmanager
def shared(root: str, table: str) -> Iterator[None]:
    """Hold the lock of whoever writes to a table. Raises NotFoundError if the table no longer exists."""
    with _hold_lock(root, table, fcntl.LOCK_SH, lambda: None):
        yield


@contextlib.contextmanager
def exclusive(call: Call, root: str, table: str) -> Iterator[None]:
    """Hold the lock of whoever moves or removes a table; wait for writers as long as the call is active."""
    with _hold_lock(root, table, fcntl.LOCK_EX, call.check):
        yield


def while_writing(
    root: str, table: str, work: Callable[[SparkSession], T], *, commits: bool = True
) -> Callable[[SparkSession], T]:
    """Return work that holds the shared lock until it ends, even if its caller no longer waits for it.

    Unless it makes no commit, the server itself writes none meanwhile.
    """
    return functools.partial(_run_shared, root, table, commits, work)


def _run_shared(
    root: str, table: str, commits: bool, work: Callable[[SparkSession], T], session: SparkSession
) -> T:
    with shared(root, table), spark_commits(root) if commits else contextlib.nullcontext():
        return work(session)


@contextlib.contextmanager
def _hold_lock(root: str, table: str, mode: int, check: Callable[[], None]) -> Iterator[None]:
    if not is_local(root):  # an object store has no locks, and folders are not moved there
        yield
        return
    folder = _acquire(root, table, mode, check)
    try:
        yield
    finally:
        os.close(folder)


def _acquire(root: str, table: str, mode: int, check: Callable[[], None]) -> int:
    """Lock the folder that is at the path, and return its file descriptor."""
    while True:
        check()
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError("table", table) from error
        try:
            if _try_lock(folder, mode, root) and _is_at(root, folder):
                kept, folder = folder, -1
                return kept
        finally:
            if folder >= 0:
                os.close(folder)
        time.sleep(_POLL_SECONDS)


def _try_lock(folder: int, mode: int, root: str) -> bool:
    try:
        fcntl.flock(folder, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _log.warning(
            "the file system does not support locks: do not drop tables that other servers write to",
            folder=root,
        )
    return True


def _is_at(root: str, folder: int) -> bool:
    """Return whether an open folder is still the one at the path."""
    try:
        return os.path.samestat(os.stat(root), os.fstat(folder))  # noqa: PTH116
    except FileNotFoundError:
        return False
