"""A warehouse on a small disk of its own, which can be filled and made read-only.

It is a file system in memory that only the server sees: Linux lets also those who are not root mount one,
in a namespace of their own, where the machine's settings allow that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.requirements import missing

from .lake import LakeServer

_MOUNTED = """
mount -t tmpfs -o size={size} tmpfs "{warehouse}" && cp -R "{seed}/." "{warehouse}" &&
mount -o remount,{mode} "{warehouse}" && exec "$@"
"""
_OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")


class SmallDisk(LakeServer):
    """A server on a disk of that size, which begins with what is in the folder `seed`."""

    def __init__(self, folder: Path, seed: Path, *, size: int, mode: str) -> None:
        (folder / "warehouse").mkdir(parents=True)
        script = _MOUNTED.format(size=size, warehouse=folder / "warehouse", seed=seed, mode=mode)
        super().__init__(folder, wrapper=(*_OWN_MOUNTS, "sh", "-c", script, "sh"))

    @property
    def disk(self) -> Path:
        """The warehouse as the server sees it."""
        return Path(f"/proc/{self.process.pid}/root{self.warehouse}")

    def remount(self, mode: str) -> None:
        """Make the disk read-only (`ro`) or writable (`rw`)."""
        enter = ["nsenter", f"--target={self.process.pid}", "--user", "--mount", "--preserve-credentials"]
        subprocess.run([*enter, "mount", "-o", f"remount,{mode}", str(self.warehouse)], check=True)

    def fill(self, free: int) -> None:
        """Leave only so many bytes."""
        filler = self.disk / "_filler"
        filler.unlink(missing_ok=True)
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(self.disk).free - free)

    def make_room(self) -> None:
        """Take back what `fill` has taken."""
        (self.disk / "_filler").unlink()

    def files(self) -> set[str]:
        """Return all files on the disk."""
        return {
            os.path.relpath(Path(folder, file), self.disk)
            for folder, _, files in os.walk(self.disk)  # which takes it that folders go away
            for file in files
        }


def need_own_mounts() -> None:
    """Skip the test where nobody but root may mount, or there are no such tools."""
    if any(shutil.which(tool) is None for tool in ("unshare", "nsenter", "mount")):
        missing("namespaces", "there is no unshare, nsenter or mount")
    tried = subprocess.run(
        [*_OWN_MOUNTS, "sh", "-c", "mount -t tmpfs tmpfs /tmp"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        reason = f"this machine lets nobody mount in a namespace of their own: {tried.stderr.strip()}"
        missing("namespaces", reason)
