"""Spool files: rows that tasks on the server's own machine write, so that a slow reader holds up no task."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from sparkport.errors import LimitExceededError
from sparkport.spark.storage.temp_folders import discard, owned, remove_orphans
from sparkport.spark.worker.spool_writer import MAX_WAIT_SECONDS, TIMED_OUT, move

SPOOL_PREFIX = "sparkport-spool-"
_TAKEN = "taken"


@contextmanager
def spool_folder() -> Iterator[Path]:
    """Make a folder that only the server's user can open, and remove it in the end."""
    folder = Path(tempfile.mkdtemp(prefix=owned(tempfile.gettempdir(), SPOOL_PREFIX)))
    try:
        yield folder
    finally:
        discard(folder)


def remove_orphaned_spools() -> None:
    """Remove the spool files of servers that no longer run."""
    remove_orphans(tempfile.gettempdir(), SPOOL_PREFIX)


def read_spool_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, which is mapped into memory and gone afterwards."""
    with pa.memory_map(str(path)) as source:
        path.unlink()
        yield from pa.ipc.open_stream(source)


class Partitions:
    """The rows of all partitions in their order, as far as they are written."""

    def __init__(self, folder: Path) -> None:
        self.current = 0
        self._folder = folder
        self._number = 0

    def ready(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were written since the last call.

        Raises LimitExceededError if the tasks have given up waiting, see `spool_partition`.
        """
        if (self._folder / TIMED_OUT).exists():
            raise LimitExceededError(f"the client read no rows for {MAX_WAIT_SECONDS:.0f} seconds")
        taken = self._folder / _TAKEN
        while move(self._folder / f"{self.current}-{self._number}", taken):
            if taken.stat().st_size:
                yield from read_spool_file(taken)
                self._number += 1
            else:
                taken.unlink()
                self.current, self._number = self.current + 1, 0

    def clear(self) -> None:
        """Remove the files of finished tasks, whose partitions come after one that is missing."""
        for path in self._folder.glob("*-*"):
            path.unlink()
