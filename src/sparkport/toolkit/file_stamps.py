"""Whether a file has changed, without reading it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """What differs between two states of a file."""

    modified: int
    changed: int
    inode: int
    size: int


def file_stamp(path: Path) -> FileStamp | None:
    """Return the stamp of a file, None if it is not there or cannot be reached."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked for each call, and pathlib takes twice as long
    except OSError:
        return None
    return FileStamp(status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
