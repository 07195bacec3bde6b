"""List the tables of a warehouse in Spark's layout: `<schema>.db/<table>`, and `<table>` for `default`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from sparkport.errors import NotFoundError, PreconditionError
from sparkport.spark.delta.log.commits import commit_name
from sparkport.spark.delta.log.listing import newest_version
from sparkport.spark.storage.errors import UnreadableLogError
from sparkport.spark.storage.filesystem import Stamp, Storage, is_local, location_of, storage_of
from sparkport.spark.storage.folder_names import HIDDEN, MORE, folder_of, joined, name_of, whole_folders

_log = structlog.get_logger("sparkport.spark")

DEFAULT_SCHEMA = "default"
_LOG = "_delta_log"
_SUFFIX = ".db"
# The time of a folder has a coarse resolution: a second change within one tick may not show.
_TICK_NS = 100_000_000
_REMOTE_SECONDS = 2.0

_Newest: TypeAlias = tuple[int, Stamp | None]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table of the warehouse: its root and its newest version.

    `stamp` tells its newest commit from that of another table that replaces this one later.
    """

    schema: str
    name: str
    root: str
    version: int
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """All tables at one moment, by schema. `version` increases whenever a listing differs from the last."""

    version: int
    schemas: Mapping[str, Mapping[str, TableEntry]]


class Warehouse:
    """Lists the tables of a warehouse, which others may add, change and drop at any time.

    On a local disk every listing is current, and costs one `stat` of each folder. Other stores are
    listed again after a few seconds.
    """

    def __init__(self, root: str, *, clock: Callable[[], float] = time.time) -> None:
        self.root = location_of(root)
        self._clock = clock
        self._is_local = is_local(self.root)
        if self._is_local:
            # Spark has another working directory, and takes a relative path for a name.
            self.root = os.path.abspath(self.root)  # noqa: PTH100  (Path.resolve would follow links)
        storage = storage_of(self.root)
        self._folders: _Folders = _LocalFolders(storage, self.root) if self._is_local else _Folders(storage)
        self._lock = threading.Lock()
        # Greater than any version of an earlier server on the same folder.
        self._listing = Listing(int(clock() * 1000), {})
        self._listed_at = float("-inf")
        self._schemas: dict[str, _KnownSchema] = {}

    def schema_folder(self, name: str) -> str:
        """Return the folder of a schema."""
        if name.lower() == DEFAULT_SCHEMA:
            return self.root
        return f"{self.root}/{folder_of(name)}{_SUFFIX}"

    def schema_folders(self, name: str) -> list[str]:
        """Return the existing folders of a schema: those with the suffix, and those that contain tables.

        A table of the same name is not among them, nor is a folder without suffix and tables.
        """
        with self._lock:
            return [
                folder
                for folder_name, folder in self._visible(self.root)
                if name_of(folder_name.removesuffix(_SUFFIX)) == name
                and self._folders.newest(folder) is None
                and (folder_name.endswith(_SUFFIX) or self._has_tables(folder))
            ]

    def table_folder(self, schema: str, name: str) -> str:
        """Return the folder for a new table."""
        return f"{self.schema_folder(schema)}/{folder_of(name)}"

    def listing(self, *, fresh: bool = False) -> Listing:
        """Return all tables; with `fresh`, without using a recent listing of an object store."""
        with self._lock:
            now = self._clock()
            if self._is_local or fresh or now - self._listed_at > _REMOTE_SECONDS:
                schemas = self._list()
                self._listed_at = now
                if schemas != self._listing.schemas:
                    self._listing = Listing(max(self._listing.version + 1, int(now * 1000)), schemas)
            return self._listing

    def tables(self, schema: str) -> Mapping[str, TableEntry]:
        """Return the tables of a schema; on a local disk without listing the other schemas."""
        if not self._is_local:
            return self.listing().schemas.get(schema, {})
        with self._lock:
            return self._list_schema(schema)

    def table(self, schema: str, name: str) -> TableEntry | None:
        """Return the table of exactly that name, None if there is none.

        On a local disk the cost of finding it again does not depend on how many tables there are.
        """
        if not self._is_local:
            return self.tables(schema).get(name)
        with self._lock:
            known = self._unchanged(schema)
            entry = known.tables.get(name) if known else None
            newest = self._folders.newest(entry.root) if entry else None
            if entry is None or newest is None:
                return self._list_schema(schema).get(name)
            return TableEntry(schema, name, entry.root, *newest)

    def has_schema(self, name: str) -> bool:
        """Return whether there is a schema of exactly that name."""
        if not self._is_local:
            return name in self.listing().schemas
        with self._lock:
            known = self._unchanged(name)
            return (known is not None and known.is_named) or name in self._list(name)

    def expire(self) -> None:
        """Make the next listing a fresh one, in any store."""
        with self._lock:
            self._listed_at = float("-inf")

    def _list_schema(self, schema: str) -> Mapping[str, TableEntry]:
        """List a schema, and remember what it was read from."""
        folders: list[str] = []
        tables = self._list(schema, folders).get(schema)
        if tables is None:
            self._schemas.pop(schema, None)
            return {}
        contents = tuple((folder, self._folders.last_read(folder)) for folder in folders)
        # A folder without the suffix is a schema only as long as there are tables in it.
        inner = (folder for folder in folders if folder != self.root)
        is_named = schema == DEFAULT_SCHEMA or any(folder.endswith(_SUFFIX) for folder in inner)
        self._schemas[schema] = _KnownSchema(tables, contents, is_named)
        return tables

    def _unchanged(self, schema: str) -> _KnownSchema | None:
        """Return a schema as it was listed last, None if folders were added or removed since."""
        known = self._schemas.get(schema)
        if known is None:
            return None
        for folder, contents in known.folders:
            if contents is None or not self._folders.is_unchanged(folder, contents):
                return None
        return known

    def _list(
        self, only: str | None = None, read: list[str] | None = None
    ) -> dict[str, dict[str, TableEntry]]:
        """Return the tables of all schemas, or of one; add the folders that name tables to `read`."""
        read = [] if read is None else read
        schemas: dict[str, dict[str, TableEntry]] = {DEFAULT_SCHEMA: {}}
        for name, folder in self._visible(self.root, read):
            schema = name_of(name.removesuffix(_SUFFIX))
            if only not in {None, DEFAULT_SCHEMA, schema}:
                continue
            if self._add_table(schemas[DEFAULT_SCHEMA], DEFAULT_SCHEMA, name, folder):
                continue
            if only not in {None, schema}:
                continue
            tables: dict[str, TableEntry] = {}
            for inner, root in self._visible(folder, read):
                self._add_table(tables, schema, inner, root)
            # An empty folder is a schema only if it has the suffix.
            if tables or name.endswith(_SUFFIX):
                schemas[schema] = schemas.get(schema, {}) | tables
        return schemas

    def _visible(
        self, folder: str, read: list[str] | None = None, before: str = ""
    ) -> Iterator[tuple[str, str]]:
        names = self._folders.names(folder)
        if read is not None:
            read.append(folder)
        for name in names:
            if name.startswith(MORE):
                yield from self._visible(f"{folder}/{name}", read, before + name.removeprefix(MORE))
            elif not name.startswith(HIDDEN):
                yield joined(before, name), f"{folder}/{name}"

    def _has_tables(self, folder: str) -> bool:
        return any(self._folders.newest(root) is not None for _, root in self._visible(folder))

    def _add_table(self, tables: dict[str, TableEntry], schema: str, folder: str, root: str) -> bool:
        newest = self._folders.newest(root)
        if newest is None:
            return False
        name = name_of(folder)
        tables[name] = TableEntry(schema, name, root, *newest)
        return True


@dataclass(slots=True)
class _Folder:
    """The contents of a folder when it was last read."""

    modified_ns: int
    read_ns: int
    names: list[str]
    newest: _Newest | None


@dataclass(frozen=True, slots=True)
class _KnownSchema:
    """The tables of a schema when it was last listed, and the folders that were read for it.

    `is_named`: its folder makes it a schema even without tables.
    """

    tables: Mapping[str, TableEntry]
    folders: tuple[tuple[str, _Folder | None], ...]
    is_named: bool


class _Folders:
    """Reads folders."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def names(self, folder: str) -> list[str]:
        """Return what is in a folder; nothing if there is no such folder."""
        try:
            return sorted(self._storage.names(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def newest(self, root: str) -> _Newest | None:
        """Return the newest version of a Delta table and its stamp; None if there is none in that folder."""
        try:
            stamps = self._storage.stamps(f"{root}/{_LOG}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        version = _newest_version(list(stamps))
        return None if version is None else (version, stamps.get(commit_name(version)))

    def last_read(self, folder: str) -> _Folder | None:
        """Return what a folder contained when it was last read, None if nobody knows."""
        del folder
        return None

    def is_unchanged(self, folder: str, contents: _Folder) -> bool:
        """Return whether a folder still has these contents, as far as that is known without reading it."""
        del folder, contents
        return False


class _LocalFolders(_Folders):
    """Reads a folder again only after it has changed."""

    def __init__(self, storage: Storage, root: str) -> None:
        super().__init__(storage)
        self._root = root
        self._cached: dict[str, _Folder] = {}
        self._unreadable: set[str] = set()

    def names(self, folder: str) -> list[str]:
        """Return what is in a folder; nothing if there is no such folder."""
        contents = self._read(folder)
        return contents.names if contents else []

    def newest(self, root: str) -> _Newest | None:
        """Return the newest version of a Delta table and its stamp; None if there is none in that folder."""
        contents = self._read(f"{root}/{_LOG}")
        return contents.newest if contents else None

    def last_read(self, folder: str) -> _Folder | None:
        """Return what a folder contained when it was last read, None if nobody knows."""
        return self._cached.get(folder)

    def is_unchanged(self, folder: str, contents: _Folder) -> bool:
        """Return whether a folder still has these contents."""
        return self._read(folder) is contents

    def _read(self, folder: str) -> _Folder | None:
        try:
            modified = os.stat(folder).st_mtime_ns  # noqa: PTH116  (no Path for each of a thousand tables)
        except (FileNotFoundError, NotADirectoryError):
            self._cached.pop(folder, None)
            return None
        except OSError as error:
            self._leave_out(folder, str(error.strerror))
            return None
        cached = self._cached.get(folder)
        if cached and cached.modified_ns == modified and cached.read_ns - modified > _TICK_NS:
            return cached
        now = time.time_ns()
        try:
            names = super().names(folder)
            newest = self._newest_of(folder, names) if folder.endswith(_LOG) else None
        except UnreadableLogError as error:
            self._leave_out(folder, str(error))
            return None
        self._cached[folder] = contents = _Folder(modified, now, names, newest)
        return contents

    def _newest_of(self, folder: str, names: list[str]) -> _Newest | None:
        version = _newest_version(names)
        if version is None:
            return None
        try:
            return version, self._storage.stamp(f"{folder}/{commit_name(version)}")
        except FileNotFoundError:
            return version, None  # only a checkpoint has this version

    def _leave_out(self, folder: str, reason: str) -> None:
        """Log once that a folder cannot be read; the other tables are served.

        If it is the warehouse itself an empty listing would be wrong: raise PreconditionError.
        """
        if folder == self._root:
            raise PreconditionError(f"the server cannot read the folder of its warehouse: {reason}")
        if folder not in self._unreadable:
            self._unreadable.add(folder)
            _log.warning("folder left out of the listing", folder=folder, reason=reason)


def schema_and_table(path: str) -> tuple[str, str]:
    """Return the schema and the name of the table in a folder, given relative to the warehouse."""
    match whole_folders(path):
        case [table]:
            return DEFAULT_SCHEMA, name_of(table)
        case [schema, table]:
            return name_of(schema.removesuffix(_SUFFIX)), name_of(table)
        case _:
            raise ValueError(f"{path!r} is not the path of a table")


def _newest_version(names: list[str]) -> int | None:
    try:
        return newest_version("", names)
    except NotFoundError:
        return None  # a table that is being created
