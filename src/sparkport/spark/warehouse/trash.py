"""The trash of a warehouse: dropped tables stay there for a while and can be restored.

An entry is a folder `<milliseconds>-<random>` that contains the table's folder under the path that it had in
the warehouse. So no metadata has to be written for it, and an entry is added or removed by one
rename. Nothing else in the trash is ever touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from sparkport.errors import NotFoundError, PreconditionError
from sparkport.spark.delta.commit.durability import write_through
from sparkport.spark.delta.log.listing import newest_version
from sparkport.spark.storage.filesystem import is_local
from sparkport.spark.storage.folder_names import MORE
from sparkport.spark.warehouse.listing import schema_and_table

_log = structlog.get_logger("sparkport.spark")

_ENTRY = re.compile(r"\d{13}-[0-9a-f]{32}(?:-gone)?")
_GONE = "-gone"
_LOG = "_delta_log"
_MAX_ATTEMPTS = 3
_MIN_FREE_BYTES = 1 << 30
_MIN_FREE_SHARE = 20  # on a small disk: one twentieth of it
# Another server may be about to move a table to a new entry.
_MIN_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table in the trash: its name, its original and its present folder, and when it was dropped."""

    schema: str
    name: str
    original: Path
    folder: Path
    dropped_ms: int


class Trash:
    """The trash of a warehouse in a local folder, which several servers may use and empty at once.

    Entries older than `hours` are removed, and while the disk is nearly full the oldest ones too. In an
    object store nothing can be moved, and the trash stays empty.
    """

    def __init__(
        self, warehouse: str, hours: float = 24.0, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.hours = hours
        self._warehouse = Path(warehouse)
        self._folder = self._warehouse / "_sparkport" / "trash"
        self._is_local = is_local(warehouse)
        self._clock = clock
        self._removing = threading.Lock()

    def put(self, folder: Path) -> Path:
        """Move a folder of the warehouse to the trash and return its new path; its name is free at once.

        A folder that is a symbolic link is moved itself, and not what it points at.
        Raises PreconditionError if it is on another file system.
        """
        for attempt in range(_MAX_ATTEMPTS):
            entry = self._folder / self._new_name()
            target = entry / folder.relative_to(self._warehouse)
            try:
                target.parent.mkdir(parents=True)
                folder.rename(target)
            except OSError as error:
                _remove_empty(entry)
                # Another server that frees space may have removed the new entry.
                is_last = attempt + 1 == _MAX_ATTEMPTS or not os.path.lexists(folder)
                if error.errno == errno.ENOENT and not is_last:
                    continue
                if error.errno in {errno.EXDEV, errno.EBUSY}:
                    raise PreconditionError(
                        f"cannot move '{folder.name}' to the trash: it is a mount point, or on another disk"
                        " than the warehouse"
                    ) from error
                raise
            write_through(folder.parent, target.parent)
            remove_empty_name_folders(folder.parent)
            return target
        raise AssertionError("the last attempt returns or raises")

    def delete(self, folder: Path) -> None:
        """Delete a folder of the warehouse, atomically for readers. It needs no free space on the disk."""
        gone = self._folder / f"{self._new_name()}{_GONE}"
        folder.rename(gone)
        write_through(folder.parent)
        remove_empty_name_folders(folder.parent)
        self._remove(gone)

    def prepare(self) -> None:
        """Create the folder of the trash while the disk has space for it."""
        if self._is_local:
            self._folder.mkdir(parents=True, exist_ok=True)

    def forget(self, place: Path) -> None:
        """Delete the entry that contains a folder."""
        self._remove(self._folder / place.relative_to(self._folder).parts[0])

    def tables(self) -> list[DroppedTable]:
        """Return the tables that can be restored, the last dropped first."""
        tables = [self._table(entry) for entry in self._entries() if not entry.name.endswith(_GONE)]
        return sorted(filter(None, tables), key=lambda table: table.dropped_ms, reverse=True)

    def expires_ms(self, table: DroppedTable) -> int:
        """Return when a table is removed from the trash, unless the disk is full before."""
        return table.dropped_ms + int(self.hours * 3_600_000)

    def remove_orphans(self) -> None:
        """Remove expired entries, and those that another server has not finished removing."""
        before = self._clock() - max(self.hours * 3600, _MIN_AGE_SECONDS)
        for entry in self._entries():
            if entry.name.endswith(_GONE) or _dropped_ms(entry) / 1000 <= before:
                self._remove(entry)

    def make_room(self) -> None:
        """Remove the oldest entries while the disk of the warehouse is nearly full."""
        for entry in sorted(self._entries(), key=_dropped_ms):
            if self._is_about_to_be_filled(entry):
                continue
            usage = shutil.disk_usage(self._folder)
            if usage.free >= min(_MIN_FREE_BYTES, usage.total // _MIN_FREE_SHARE):
                return
            _log.warning("disk nearly full: dropped table removed before it expires", entry=entry.name)
            self._remove(entry)

    def _is_about_to_be_filled(self, entry: Path) -> bool:
        """Return whether somebody has just made an entry, and moves a table there next."""
        is_new = self._clock() - _dropped_ms(entry) / 1000 < _MIN_AGE_SECONDS
        return is_new and _table_folder(entry) is None

    def _new_name(self) -> str:
        return f"{int(self._clock() * 1000):013}-{uuid.uuid4().hex}"

    def _entries(self) -> Iterator[Path]:
        if not self._is_local:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self._folder):  # noqa: PTH208  (names, not paths)
                if _ENTRY.fullmatch(name):
                    yield self._folder / name

    def _table(self, entry: Path) -> DroppedTable | None:
        folder = _table_folder(entry)
        if folder is None:
            return None
        relative = folder.relative_to(entry)
        try:
            schema, name = schema_and_table(str(relative))
        except ValueError:
            return None  # not put there by this server
        return DroppedTable(schema, name, self._warehouse / relative, folder, _dropped_ms(entry))

    def _remove(self, entry: Path) -> None:
        """Remove an entry: first rename it, so that nobody restores it any more, then delete it."""
        gone = entry if entry.name.endswith(_GONE) else entry.with_name(f"{entry.name}{_GONE}")
        with self._removing:
            try:
                if gone != entry:
                    entry.rename(gone)
                shutil.rmtree(gone)
            except FileNotFoundError:
                return  # another server has removed it
            except OSError as error:
                _log.warning(
                    "dropped table not removed from the trash", entry=entry.name, reason=error.strerror
                )


def remove_empty_name_folders(folder: Path) -> None:
    """Remove a folder and its parents as long as they only continue a long name and are empty."""
    with contextlib.suppress(OSError):
        while folder.name.startswith(MORE):
            folder.rmdir()
            folder = folder.parent


def _table_folder(entry: Path) -> Path | None:
    """Return the folder of the table in an entry; None if there is none."""
    folder = entry
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        while len(names := os.listdir(folder)) == 1:  # noqa: PTH208
            folder /= names[0]
            if folder.is_symlink() or _has_versions(folder / _LOG):
                return folder
    return None


def _has_versions(log: Path) -> bool:
    try:
        newest_version(str(log.parent), os.listdir(log))  # noqa: PTH208
    except (NotFoundError, FileNotFoundError, NotADirectoryError):
        return False
    return True


def _dropped_ms(entry: Path) -> int:
    return int(entry.name.partition("-")[0])


def _remove_empty(entry: Path) -> None:
    """Remove an entry that nothing was moved to."""
    with contextlib.suppress(OSError):
        for folder, _, _ in os.walk(entry, topdown=False):
            Path(folder).rmdir()
