"""Folders that a server makes for as long as it runs, and that the next one removes should it die."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path

from sparkport.spark.delta.files import storage_of

# In a container a server has the same number as the one before it.
_TOKEN = secrets.token_hex(4)


def owned(prefix: str) -> str:
    """Return the beginning of a folder's name that tells whose it is."""
    return f"{prefix}{os.getpid()}-{_TOKEN}-"


def discard(folder: Path) -> None:
    """Remove a folder of one's own that others may be about to write to: they no longer find it."""
    aside = folder.with_name(f"{folder.name}-gone")
    with contextlib.suppress(FileNotFoundError):  # whoever cleans up temporary folders was here
        folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def sweep(folder: str, prefix: str) -> None:
    """Remove the folders of this kind whose servers are gone."""
    for name in _names(folder):
        owner, _, rest = name.removeprefix(prefix).partition("-")
        if name.startswith(prefix) and rest and owner.isdigit() and not _is_running(int(owner), rest):
            _remove(f"{folder}/{name}")


def sweep_all(folder: str, *, unused_seconds: float = 0) -> None:
    """Remove all that is in a folder and was not changed for a while, whoever has left it there."""
    before = (time.time() - unused_seconds) * 1000
    for name in _names(folder):
        if not unused_seconds or _changed_ms(f"{folder}/{name}") < before:
            _remove(f"{folder}/{name}")


def _names(folder: str) -> list[str]:
    try:
        return storage_of(folder).names(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove(folder: str) -> None:
    # What stays is removed by the next server.
    with contextlib.suppress(OSError):
        storage_of(folder).remove(folder)


def _changed_ms(folder: str) -> float:
    """Return when a file in a folder was last changed; never, where there is none."""
    try:
        times = storage_of(folder).modification_times(folder)
    except (FileNotFoundError, NotADirectoryError):
        times = {}
    return max(times.values(), default=float("inf"))


def _is_running(process: int, rest: str) -> bool:
    if process == os.getpid():
        return rest.startswith(f"{_TOKEN}-")
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
