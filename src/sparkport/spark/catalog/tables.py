"""The Delta tables of a warehouse: one object for each, and how their folders are made, moved and dropped."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog

from sparkport.catalog.call import Call
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SparkportError,
    UnavailableError,
    UnsupportedOperationError,
)
from sparkport.spark.catalog.views import WarehouseViews
from sparkport.spark.commit.folder_lock import exclusive, while_writing
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.ddl.create import NewTable, create_delta, move_folder
from sparkport.spark.ddl.drop import check_free, drop_table, remove_new_table, remove_remnant
from sparkport.spark.ddl.first_version import can_write_first_version, write_first_version
from sparkport.spark.delta.commit.durability import write_through_folders
from sparkport.spark.delta.errors import SparkRequiredError
from sparkport.spark.delta_jvm import log_cache, table_commit
from sparkport.spark.engine import Engine
from sparkport.spark.errors import RejectedStatementError, writing
from sparkport.spark.storage.filesystem import is_local, storage_of
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse.listing import TableEntry

_log = structlog.get_logger("sparkport.spark")


class WarehouseTables:
    """The tables of one engine's warehouse. Safe to use from many threads."""

    def __init__(self, engine: Engine, views: WarehouseViews) -> None:
        self.engine = engine
        self.views = views
        self._ddl = ReadWriteLock()
        self._lock = threading.Lock()
        self._tables: dict[str, DeltaTable] = {}

    @contextlib.contextmanager
    def changing(self, call: Call) -> Iterator[None]:
        """Run a block that makes, moves or removes folders, one at a time; its changes are seen at once."""
        with self._ddl.exclusive(call), writing():
            self.engine.warehouse.expire()
            try:
                yield
            finally:
                self.engine.warehouse.expire()

    def table(self, entry: TableEntry) -> DeltaTable:
        """Return the table of an entry; the same object at every call."""
        with self._lock:
            table = self._tables.get(entry.root)
            if table is None:
                table = self._tables[entry.root] = DeltaTable(entry, self.engine, self.rename)
            return table

    def create(self, call: Call, name: str, table: NewTable) -> None:
        """Create a table in a folder that has none; the caller has made sure of that."""
        remove_remnant(table.root, self.engine.trash)
        check_free(table.root, name)
        try:
            try:
                self._create_without_spark(call, name, table)
            except SparkRequiredError:
                self.engine.jobs.run(call, name, functools.partial(create_delta, table))
        except (SparkportError, RejectedStatementError, OSError):
            remove_remnant(table.root, self.engine.trash)
            raise
        if is_local(table.root):
            write_through_folders(Path(table.root), Path(self.engine.warehouse.root))

    def _create_without_spark(self, call: Call, name: str, table: NewTable) -> None:
        """Create a table. Raises SparkRequiredError for one that Delta has to judge, AlreadyExistsError."""
        host = self.engine.host
        if not is_local(table.root) or not host.is_embedded:
            raise SparkRequiredError(table.root, "Spark or the table is on another machine")
        if any(key.startswith("spark.databricks.delta.") for key in host.settings.conf):
            raise SparkRequiredError(table.root, "Delta has settings of its own")
        if table.cluster_columns or not can_write_first_version(table.fields, table.properties):
            raise SparkRequiredError(table.root, "it has other properties or types")
        if storage_of(table.root).contents(table.root):
            raise SparkRequiredError(table.root, "its folder is not empty")
        if host.is_up:
            # It may know the folder from a table that was there before; a new one will not.
            with contextlib.suppress(UnavailableError):
                self.engine.jobs.run(call, name, functools.partial(log_cache.forget, table.root))
        call.check()
        if not write_first_version(
            table.root, table.fields, table.comment, table.properties, table.partition_columns
        ):
            raise AlreadyExistsError("table", name)

    def drop(self, table: DeltaTable) -> None:
        """Drop a table; the caller has made sure that nobody writes. Raises NotFoundError."""
        try:
            drop_table(table.root, self.engine.trash, self._named_files(table.root))
        except FileNotFoundError as error:  # another server was faster
            raise NotFoundError("table", str(table)) from error
        self.forget(table.root)

    def undo(self, table: DeltaTable) -> bool:
        """Remove a new table for good and return True, unless somebody has written to it."""
        is_done = remove_new_table(
            table.root, self.engine.log(table.root).newest_version(), self.engine.trash
        )
        if is_done:
            self.forget(table.root)
        return is_done

    def rename(self, call: Call, table: DeltaTable, name: str) -> None:
        """Give a table another name; the old one is free then."""
        if not name:
            raise InvalidRequestError("a table needs a name")
        with self.changing(call), table.versions.lock.exclusive(call):
            entries = self.engine.warehouse.listing().schemas.get(table.schema, {})
            if table.name not in entries:
                raise NotFoundError("table", str(table), entries)
            taken = same_name(name, entries)
            if taken not in {None, table.name}:
                raise AlreadyExistsError("table", f"{table.schema}.{name}")
            self.views.check_free(table.schema, name)
            if not is_local(table.root):
                raise UnsupportedOperationError("table", str(table), "RENAME in an object store")
            if name != table.name:
                work = functools.partial(table_commit.rename, table.root, name)
                self.engine.jobs.run(call, str(table), while_writing(table.root, str(table), work))
                self.move(call, table, name)

    def move(self, call: Call, table: DeltaTable, name: str) -> None:
        """Move the folder of a table; the caller has made sure that nobody writes."""
        old, new = table.root, self.engine.warehouse.table_folder(table.schema, name)
        if new == old:
            return
        # Spark may know the new folder from a table that was there before.
        self.engine.jobs.run(call, str(table), functools.partial(log_cache.forget, new))
        try:
            with exclusive(call, old, str(table)):
                move_folder(Path(old), Path(new))
        except FileExistsError as error:
            raise AlreadyExistsError("table", f"{table.schema}.{name}") from error
        self.engine.forget(new)
        table.versions.moved(name, new)
        with self._lock:
            self._tables.pop(old, None)
            self._tables[new] = table
        self.engine.forget(old)

    def forget(self, root: str) -> None:
        """Forget a table that was dropped: another may take its place."""
        with self._lock:
            self._tables.pop(root, None)
        self.engine.forget(root)

    def _named_files(self, root: str) -> frozenset[str]:
        """Return the locations of the files that a table in a store has; nothing for a damaged one."""
        if is_local(root):
            return frozenset()
        try:
            return frozenset(file.path for file in self.engine.log(root).snapshot().files)
        except (SparkportError, OSError) as error:
            _log.warning("a damaged table is dropped", reason=str(error))
            return frozenset()


def same_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of the names that differs in letter case only, or is the same."""
    return next((other for other in names if other.lower() == name.lower()), None)
