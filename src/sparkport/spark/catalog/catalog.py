"""The warehouse as a catalog."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    OnConflict,
    RevertibleSchema,
    check_new_columns,
)
from sparkport.catalog.functions import ScalarFunction, TableFunction
from sparkport.catalog.offloading import Offloadable, Offloaded
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import CatalogVersion, Schema, Table
from sparkport.catalog.transactions import TransactionManager
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SparkportError,
    UnsupportedOperationError,
)
from sparkport.expressions.constraints import resolve_constraints
from sparkport.spark.commit.folder_lock import exclusive, while_writing
from sparkport.spark.commit.read_write_lock import ReadWriteLock
from sparkport.spark.commit.staging import new_folder
from sparkport.spark.ddl import undrop
from sparkport.spark.ddl.create import (
    NewTable,
    create_delta,
    make_schema,
    move_folder,
    new_table,
    replace_delta,
    schema_details,
)
from sparkport.spark.ddl.drop import (
    check_droppable,
    check_free,
    check_no_table_inside,
    drop_table,
    remove_new_table,
    remove_remnant,
    remove_schema_folder,
)
from sparkport.spark.delta.durability import write_through_folders
from sparkport.spark.delta_jvm import transactions as delta_transactions
from sparkport.spark.engine import Engine
from sparkport.spark.errors import writing
from sparkport.spark.functions.catalog_functions import (
    COMMENT,
    NO_FUNCTIONS,
    SCHEMA,
    FunctionFlags,
    catalog_functions,
)
from sparkport.spark.functions.dropped import UndropTable
from sparkport.spark.table import DeltaTable
from sparkport.spark.user_functions import SparkScalars
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA, TableEntry
from sparkport.spark.warehouse.trash import DroppedTable

_log = structlog.get_logger("sparkport.spark")


class SparkCatalog(DynamicCatalog):
    """All Delta tables of a warehouse folder, whoever made them.

    Listing reads the tables' logs and needs no Spark: it works while that starts. With
    functions switched on there is always a schema `sparkport`, which has them.
    """

    def __init__(self, engine: Engine, switches: FunctionFlags = NO_FUNCTIONS) -> None:
        self.engine = engine
        self._scalars = SparkScalars(engine)
        undrop = UndropTable(self.find_dropped, self.undrop)
        self.functions = catalog_functions(engine, self, switches, self._scalars, undrop)
        self._ddl = ReadWriteLock()
        self._lock = threading.Lock()
        self._tables: dict[str, DeltaTable] = {}

    @property
    def transactions(self) -> TransactionManager:
        """The transactions of this catalog."""
        return self.engine.transactions

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all schemas."""
        call.check()
        return [SparkSchema(name, self) for name in self._schema_names()]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, in any letter case, or None."""
        call.check()
        known = self._schema_names()
        found = name if name in known else _same(name, known)
        return None if found is None else SparkSchema(found, self)

    def offload(self, function: Offloadable) -> Offloaded:
        """Let Spark run a function of the user's, and know it by name."""
        return self._scalars.add(function)

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises with every commit to any table, whoever makes it."""
        call.check()
        listing = self.engine.warehouse.listing()
        return CatalogVersion(listing.version + self.engine.transactions.expirations())

    @contextlib.contextmanager
    def changing(self, call: Call) -> Iterator[None]:
        """Make, move or remove folders, alone: on what is there now, and so that it is seen at once."""
        with self._ddl.exclusive(call), writing():
            self.engine.warehouse.expire()
            try:
                yield
            finally:
                self.engine.warehouse.expire()

    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> SparkSchema:
        """Make an empty schema."""
        if not name:
            raise InvalidRequestError("a schema needs a name")
        with self.changing(call):
            if self.schema(call, name) is not None:
                raise AlreadyExistsError("schema", name)
            folder = self.engine.warehouse.schema_folder(name)
            details = {"comment": options.comment, "tags": dict(options.tags)}
            try:
                make_schema(folder, details, new_folder(self.engine.staging))
            except FileExistsError as error:
                raise AlreadyExistsError("schema", name) from error
        return SparkSchema(name, self)

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema, with its tables only if told to."""
        with self.changing(call), contextlib.ExitStack() as closed:
            schema = self.schema(call, name)
            if schema is None:
                if options.ignore_not_found:
                    return 0
                raise NotFoundError("schema", name, self.engine.warehouse.listing().schemas)
            if schema.name == DEFAULT_SCHEMA:
                raise UnsupportedOperationError("schema", DEFAULT_SCHEMA, "DROP")
            entries = self.engine.warehouse.listing().schemas.get(schema.name)
            if entries is None:  # there are the functions alone
                raise UnsupportedOperationError("schema", schema.name, "DROP")
            folders = self.engine.warehouse.schema_folders(schema.name)
            roots = {name: entry.root for name, entry in entries.items()}
            check_droppable(schema.name, folders, roots, cascade=options.cascade)
            for root in roots.values():
                check_no_table_inside(root)
            tables = [self.table(entry) for entry in entries.values()]
            for table in tables:
                closed.enter_context(table.versions.lock.exclusive(call))
            for table in tables:
                # Another server may be faster.
                with contextlib.suppress(NotFoundError), exclusive(call, table.root, str(table)):
                    self.drop(table)
            for folder in folders:
                hidden = Path(new_folder(self.engine.staging))
                remove_schema_folder(schema.name, folder, self.engine.trash, hidden)
        return len(entries)

    def drop(self, table: DeltaTable) -> None:
        """Drop a table; the caller has made sure that nobody writes. Raises NotFoundError."""
        try:
            drop_table(table.root, self.engine.trash, self._named_files(table.root))
        except FileNotFoundError as error:  # another server was faster
            raise NotFoundError("table", str(table)) from error
        self.forget(table.root)

    def find_dropped(self, call: Call, schema: str, name: str) -> DroppedTable:
        """Return the table of that name that was dropped last. Raises what `undropping.find` does."""
        return undrop.find(call, self.engine, self, schema, name)

    def undrop(self, call: Call, schema: str, name: str) -> DroppedTable:
        """Bring back the table of that name that was dropped last. Raises what `undropping.restore` does."""
        with self.changing(call):
            dropped, root = undrop.restore(call, self.engine, self, schema, name)
            self.forget(root)
        return dropped

    def undo(self, table: DeltaTable) -> bool:
        """Remove a table for good if nobody has written to it by now; the caller has made sure of before."""
        is_done = remove_new_table(
            table.root, self.engine.log(table.root).newest_version(), self.engine.trash
        )
        if is_done:
            self.forget(table.root)
        return is_done

    def table(self, entry: TableEntry) -> DeltaTable:
        """Return the table of an entry; the same object at every call."""
        with self._lock:
            known = self._tables.get(entry.root)
            if known is None:
                known = self._tables[entry.root] = DeltaTable(entry, self.engine, self.rename)
            return known

    def forget(self, root: str) -> None:
        """Let go of a table that was dropped: another may come to its place."""
        with self._lock:
            self._tables.pop(root, None)
        self.engine.forget(root)

    def rename(self, call: Call, table: DeltaTable, name: str) -> None:
        """Give a table another name, under which it is there at once; the old one is free then."""
        if not name:
            raise InvalidRequestError("a table needs a name")
        with self.changing(call), table.versions.lock.exclusive(call):
            entries = self.engine.warehouse.listing().schemas.get(table.schema, {})
            if table.name not in entries:
                raise NotFoundError("table", str(table), entries)
            taken = _same(name, entries)
            if taken not in {None, table.name}:
                raise AlreadyExistsError("table", f"{table.schema}.{name}")
            if "://" in table.root:
                raise UnsupportedOperationError("table", str(table), "RENAME in an object store")
            if name != table.name:
                work = functools.partial(delta_transactions.rename, table.root, name)
                self.engine.jobs.run(call, str(table), while_writing(table.root, str(table), work))
                self.move(call, table, name)

    def move(self, call: Call, table: DeltaTable, name: str) -> None:
        """Move the folder of a table; the caller has made sure that nobody writes."""
        old, new = table.root, self.engine.warehouse.table_folder(table.schema, name)
        if new == old:
            return
        # Spark may know the new folder from a table that was there before.
        self.engine.jobs.run(call, str(table), functools.partial(delta_transactions.forget, new))
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

    def create(self, call: Call, name: str, table: NewTable) -> None:
        """Make the table in a folder where there is none; the caller has made sure of that."""
        remove_remnant(table.root, self.engine.trash)
        check_free(table.root, name)
        try:
            self.engine.jobs.run(call, name, functools.partial(create_delta, table))
        except SparkportError:
            remove_remnant(table.root, self.engine.trash)
            raise
        if "://" not in table.root:
            write_through_folders(Path(table.root), Path(self.engine.warehouse.root))

    def _named_files(self, root: str) -> frozenset[str]:
        """Return the locations of the files that a table in a store has; nothing for a damaged one."""
        if "://" not in root:
            return frozenset()
        try:
            return frozenset(file.path for file in self.engine.log(root).snapshot().files)
        except (SparkportError, OSError) as error:
            _log.warning("a damaged table is dropped", reason=str(error))
            return frozenset()

    def _schema_names(self) -> list[str]:
        names = list(self.engine.warehouse.listing().schemas)
        if self.functions and _same(SCHEMA, names) is None:
            names.append(SCHEMA)
        return names


class SparkSchema(RevertibleSchema):
    """A folder of tables."""

    def __init__(self, name: str, catalog: SparkCatalog) -> None:
        self._name = name
        self._catalog = catalog

    @property
    def name(self) -> str:
        """The schema's name."""
        return self._name

    @property
    def comment(self) -> str:
        """The schema's documentation."""
        return str(self._details().get("comment", COMMENT if self._has_functions else ""))

    @property
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        return dict(self._details().get("tags", {}))

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all tables whose log can be read; asking for another one tells what is wrong with it."""
        call.check()
        found = [(self._catalog.table(entry), entry.version) for entry in self._entries().values()]
        return [table for table, version in found if table.is_readable(call, version)]

    def table(self, call: Call, name: str) -> DeltaTable | None:
        """Return the table of that name, in any letter case, or None."""
        call.check()
        entries = self._entries()
        found = name if name in entries else _same(name, entries)
        return None if found is None else self._catalog.table(entries[found])

    def scalar_functions(self, call: Call) -> Sequence[ScalarFunction]:
        """Return no functions."""
        call.check()
        return ()

    def table_functions(self, call: Call) -> Sequence[TableFunction]:
        """Return the catalog's functions in the schema that is for them."""
        call.check()
        return self._catalog.functions if self._has_functions else ()

    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> DeltaTable:
        """Make an empty table, or return the existing one with `OnConflict.IGNORE`."""
        if not name:
            raise InvalidRequestError("a table needs a name")
        path = f"{self._name}.{name}"
        check_new_columns(arrow_schema)
        columns, constraints = resolve_constraints(call, arrow_schema, options)
        catalog, engine = self._catalog, self._catalog.engine
        with catalog.changing(call):
            if catalog.schema(call, self._name) is None:
                raise NotFoundError("schema", self._name, engine.warehouse.listing().schemas)
            existing = self.table(call, name)
            if existing is not None:
                match options.on_conflict:
                    case OnConflict.IGNORE:
                        return existing
                    case OnConflict.ERROR:
                        raise AlreadyExistsError("table", path)
            root = existing.root if existing else engine.warehouse.table_folder(self._name, name)
            made = new_table(root, columns, constraints, options.comment)
            if existing is None:
                catalog.create(call, path, made)
            else:
                with existing.versions.lock.exclusive(call):
                    work = functools.partial(replace_delta, made)
                    engine.jobs.run(call, path, while_writing(root, path, work))
                    if existing.name != name and "://" not in root:
                        catalog.move(call, existing, name)
        found = self.table(call, name)
        if found is None:  # others have dropped it already
            raise NotFoundError("table", path)
        found.versions.settle()
        return found

    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table and its files."""
        with self._catalog.changing(call):
            table = self.table(call, name)
            if table is None:
                if options.ignore_not_found:
                    return
                raise NotFoundError("table", f"{self._name}.{name}", self._entries())
            with table.versions.lock.exclusive(call), exclusive(call, table.root, str(table)):
                self._catalog.drop(table)

    def revert_create(self, call: Call, name: str, made: TimePoint) -> bool:
        """Drop a table and its files if nobody has changed it since it was made."""
        with self._catalog.changing(call):
            table = self.table(call, name)
            if table is None:
                return False
            with table.versions.lock.exclusive(call), exclusive(call, table.root, str(table)):
                if table.snapshot(call, None).time_point != made:
                    return False
                return self._catalog.undo(table)

    @property
    def _has_functions(self) -> bool:
        return bool(self._catalog.functions) and self._name.lower() == SCHEMA

    def _entries(self) -> Mapping[str, TableEntry]:
        return self._catalog.engine.warehouse.tables(self._name)

    def _details(self) -> dict[str, Any]:
        return schema_details(self._catalog.engine.warehouse.schema_folder(self._name))


def _same(name: str, known: Iterable[str]) -> str | None:
    """Return the one of the known names that differs in letter case only."""
    return next((other for other in known if other.lower() == name.lower()), None)
