"""What has been written through to the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

Identity = tuple[int, int]
"""What tells a file or folder from others, also when it is moved."""


def identity(status: os.stat_result) -> Identity:
    """Return the identity of what has a status."""
    return status.st_dev, status.st_ino


def identities(paths: Iterable[Path]) -> set[Identity]:
    """Return the identities of files and folders."""
    return {identity(path.stat()) for path in paths}
