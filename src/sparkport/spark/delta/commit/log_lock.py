"""Keep commits that the server writes itself apart from those that Delta makes in Spark.

On a local disk Delta looks whether a version exists and then renames its file to it, so that a commit which
is written in between would be overwritten. Spark's commits share a lock of the log's folder for as long as
they may happen, and the server holds it alone for the moment in which a commit appears. The lock is the
kernel's (`flock`), and so holds between the servers of a machine too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence

from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.storage.filesystem import is_local

_POLL_SECONDS = 0.002
# Another server holds the lock for a moment only; Spark may hold it for as long as a MERGE takes.
_MAX_WAIT_SECONDS = 0.05


@contextlib.contextmanager
def spark_commits(root: str) -> Iterator[None]:
    """Let Spark commit to a table; the server writes no commit meanwhile."""
    folder = _open(root) if is_local(root) else None
    if folder is None:
        yield
        return
    try:
        # Where there are no locks the server does not commit by itself.
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def server_commits(root: str) -> Iterator[None]:
    """Let the server write a commit. Raises SparkRequiredError while Spark may commit."""
    folder = _open(root)
    if folder is None:
        raise SparkRequiredError(root, "its log is not there")
    try:
        _lock_alone(folder, root)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def holding_logs(roots: Sequence[str], check: Callable[[], None]) -> Iterator[None]:
    """Keep all other commits to some tables out, those of this server and of others on its machine.

    Waits for Spark's commits for as long as `check` raises nothing. Whoever takes several locks takes them in
    the order of their folders. Raises SparkRequiredError where there is no log, or there are no locks.
    """
    with contextlib.ExitStack() as opened:
        for root in sorted(set(roots)):
            folder = _open(root)
            if folder is None:
                raise SparkRequiredError(root, "its log is not there")
            opened.callback(os.close, folder)
            while not _try_alone(folder, root):
                check()
                time.sleep(_POLL_SECONDS)
        yield


def _open(root: str) -> int | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return os.open(f"{root}/_delta_log", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return None


def _lock_alone(folder: int, root: str) -> None:
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while not _try_alone(folder, root):
        if time.monotonic() >= deadline:
            raise SparkRequiredError(root, "Spark is writing to it")
        time.sleep(_POLL_SECONDS)


def _try_alone(folder: int, root: str) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "")
        raise SparkRequiredError(root, f"its file system has no locks ({reason})") from error
    return True
