"""Folders that a server makes for as long as it runs, and that the next one removes should it die."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from pathlib import Path

# In a container a server has the same number as the one before it.
_TOKEN = secrets.token_hex(4)


def owned(prefix: str) -> str:
    """Return the beginning of a folder's name that tells whose it is."""
    return f"{prefix}{os.getpid()}-{_TOKEN}-"


def sweep(folder: Path, prefix: str) -> None:
    """Remove the folders of this kind whose servers are gone."""
    for path in folder.glob(f"{prefix}*-*"):
        owner, _, rest = path.name.removeprefix(prefix).partition("-")
        if owner.isdigit() and not _is_running(int(owner), rest):
            shutil.rmtree(path, ignore_errors=True)


def sweep_all(folder: Path, *, unused_seconds: float = 0) -> None:
    """Remove all that is in a folder and was not changed for a while, whoever has left it there."""
    before = time.time() - unused_seconds
    for path in folder.glob("*/"):
        if not unused_seconds or _changed(path) < before:
            shutil.rmtree(path, ignore_errors=True)


def _changed(folder: Path) -> float:
    """Return when a folder or a file in it was last changed; never, once it is gone."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except FileNotFoundError:
        return float("inf")


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
