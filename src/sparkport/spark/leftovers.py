"""Folders that a server makes for a while, and the next one removes should it die."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def owned(prefix: str) -> str:
    """Return the beginning of a folder's name that tells whose it is."""
    return f"{prefix}{os.getpid()}-"


def sweep(folder: Path, prefix: str) -> None:
    """Remove the folders of this kind whose servers are gone."""
    for path in folder.glob(f"{prefix}*-*"):
        owner = path.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not _is_running(int(owner)):
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
