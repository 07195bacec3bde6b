"""Folders that a server makes for as long as it runs, and that the next one removes should it die.

Their names begin with a prefix and the name of the process, which holds a lock file beside them.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import structlog

from sparkport.spark.storage import lock_files
from sparkport.spark.storage.filesystem import is_local, storage_of

_log = structlog.get_logger("sparkport.spark")

# Whether a server on another machine still runs nobody can tell, but none pauses for a day.
_UNUSED_SECONDS = 86_400.0


def named(prefix: str) -> str:
    """Return the beginning of the name of a folder of this process, which counts with `hold` alone."""
    return f"{prefix}{lock_files.PROCESS}-"


def hold(folder: str) -> None:
    """Make sure that the folders of this process in a folder are known to be in use; make it if need be."""
    if is_local(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        lock_files.hold(Path(folder))


def owned(folder: str, prefix: str) -> str:
    """Return the beginning of the name of a folder of this process that is about to be made in a folder."""
    hold(folder)
    return named(prefix)


def discard(folder: Path) -> None:
    """Remove a folder of one's own that others may be about to write to: they no longer find it."""
    aside = folder.with_name(f"{folder.name}-gone")
    with contextlib.suppress(FileNotFoundError):  # whoever cleans up temporary folders was here
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_orphans(folder: str, prefix: str) -> None:
    """Remove the folders of this kind whose servers are gone; what has another name is not touched."""
    held: dict[str, bool | None] = {}
    for name in _names(folder):
        owner = _owner(name, prefix)
        if owner is None or owner == lock_files.PROCESS:
            continue
        if owner not in held:
            held[owner] = _is_held(folder, owner)
        is_dead = held[owner] is False
        if is_dead or (held[owner] is None and _is_unused(folder, name, owner)):
            _remove(f"{folder}/{name}")
    if is_local(folder):
        _remove_locks(folder)


def _remove_locks(folder: str) -> None:
    """Remove the locks of processes that are gone and have left no folder of any kind."""
    names = _names(folder)
    for name in names:
        owner = name.removesuffix(lock_files.SUFFIX)
        if owner != name and sum(owner in other for other in names) == 1:
            lock_files.remove_if_free(Path(folder, name))


def _owner(name: str, prefix: str) -> str | None:
    """Return the process that a folder belongs to; None for a folder of another kind."""
    named = lock_files.PROCESS_NAME.match(name, len(prefix)) if name.startswith(prefix) else None
    return named[0] if named and name.startswith("-", named.end()) else None


def _is_held(folder: str, owner: str) -> bool | None:
    return lock_files.is_held(Path(folder, f"{owner}{lock_files.SUFFIX}")) if is_local(folder) else None


def _is_unused(folder: str, name: str, owner: str) -> bool:
    """Return whether neither a folder nor the lock of its process has changed for a day."""
    storage = storage_of(folder)
    path = f"{folder}/{name}"
    times: list[int] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        times += storage.modification_times(path).values()
    if is_local(folder):
        for one in (path, f"{folder}/{owner}{lock_files.SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                times.append(storage.stamp(one).modified_ms)
    return max(times, default=float("inf")) < (time.time() - _UNUSED_SECONDS) * 1000


def _names(folder: str) -> list[str]:
    try:
        return storage_of(folder).names(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: str) -> None:
    try:
        storage_of(folder).remove(folder)
    except OSError as error:  # left to the next server
        _log.warning("files of a stopped server could not be removed", reason=str(error.strerror))
