"""Files that a process keeps locked for as long as it runs: they tell the living from the dead.

The kernel lets go of such a lock when the process ends, however it ends, and knows of it in every container
on the machine, whatever its process numbers. Machines that only share a file system need not see each other's
locks, so a name says under which kernel its lock counts.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import os
import re
import secrets
import threading
import uuid
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _kernel() -> str:
    """Return what tells the running kernel of this machine from all others."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip().replace("-", "")[:16]
    except OSError:  # not on Linux
        return f"{uuid.getnode():016x}"


KERNEL = _kernel()
PROCESS = f"{KERNEL}-{secrets.token_hex(8)}"
"""What this process calls itself; no other one has the same name."""
PROCESS_NAME = re.compile("(?P<kernel>[0-9a-f]{16})-[0-9a-f]{16}")
SUFFIX = ".lock"

_held: dict[Path, int] = {}
_lock = threading.Lock()


def hold(folder: Path) -> Path:
    """Keep the lock of this process in a folder, until it ends, and return its file."""
    path = folder / f"{PROCESS}{SUFFIX}"
    with _lock:
        if not _held:
            atexit.register(_release_all, os.getpid())
        if path in _held and not path.exists():  # somebody has cleaned up
            os.close(_held.pop(path))
        if path not in _held:
            _held[path] = _open_locked(path)
    return path


def release(folder: Path) -> None:
    """Let go of the lock of this process in a folder, if it has one, and remove its file."""
    path = folder / f"{PROCESS}{SUFFIX}"
    with _lock:
        opened = _held.pop(path, None)
        if opened is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            os.close(opened)


def _release_all(process: int) -> None:
    if os.getpid() != process:
        return  # a child that was forked off shares the locks, and must not end them
    for path in list(_held):
        release(path.parent)


def is_held(path: Path) -> bool | None:
    """Return whether a process of this machine holds a lock file; None if that is not known."""
    return _probe(path, removes=False)


def remove_if_free(path: Path) -> None:
    """Remove the lock file of a process of this machine that has ended."""
    _probe(path, removes=True)


def _probe(path: Path, *, removes: bool) -> bool | None:
    named = PROCESS_NAME.fullmatch(path.name.removesuffix(SUFFIX))
    if path in _held or named is None or named["kernel"] != KERNEL:
        return True if path in _held else None
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if removes:  # while it is locked: see `_open_locked`
            with contextlib.suppress(OSError):
                path.unlink()
    except BlockingIOError:
        return True
    except OSError:  # file systems of other machines may lock only what can be written to
        return None
    finally:
        os.close(opened)
    return False


def refresh() -> None:
    """Set the times of all locks of this process to now: other machines can see no more of it."""
    with _lock:
        for opened in _held.values():
            with contextlib.suppress(OSError):
                os.utime(opened)


def _open_locked(path: Path) -> int:
    # A disk on which a file is open to be written to cannot be made read-only.
    mode = os.O_RDONLY
    while True:
        opened = os.open(path, mode | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
        except OSError as error:
            os.close(opened)
            if error.errno != errno.EBADF or mode == os.O_RDWR:
                raise
            mode = os.O_RDWR  # file systems of other machines may lock no other
            continue
        try:
            # Whoever looked at it before it was locked may have taken it for that of a dead process.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(opened), path.stat()):
                    return opened
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)
