"""The warehouse as a catalog."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    OnConflict,
)
from sparkport.catalog.functions import ScalarFunction, TableFunction
from sparkport.catalog.tables import CatalogVersion, Schema, Table
from sparkport.catalog.transactions import TransactionManager
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    SchemaNotEmptyError,
    UnsupportedOperationError,
)
from sparkport.spark.creation import create_delta, remove_folder, table_schema
from sparkport.spark.engine import Engine
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse import DEFAULT_SCHEMA, TableEntry

_DETAILS = "_sparkport.json"


class SparkCatalog(DynamicCatalog):
    """All Delta tables of a warehouse folder, whoever made them.

    Listing reads the tables' logs and needs no Spark: it works while that starts.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.lock = threading.RLock()  # held by whoever makes or removes folders
        self._tables: dict[str, DeltaTable] = {}

    @property
    def transactions(self) -> TransactionManager:
        """The transactions of this catalog."""
        return self.engine.transactions

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all schemas."""
        call.check()
        return [SparkSchema(name, self) for name in self.engine.warehouse.listing().schemas]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, in any letter case, or None."""
        call.check()
        known = self.engine.warehouse.listing().schemas
        found = name if name in known else _same(name, known)
        return None if found is None else SparkSchema(found, self)

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises with every commit to any table, whoever makes it."""
        call.check()
        listing = self.engine.warehouse.listing()
        return CatalogVersion(listing.version + self.engine.transactions.expirations())

    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> SparkSchema:
        """Make an empty schema."""
        if not name:
            raise InvalidRequestError("a schema needs a name")
        with self.lock:
            if self.schema(call, name) is not None:
                raise AlreadyExistsError("schema", name)
            folder = self.local_folder(self.engine.warehouse.schema_folder(name))
            folder.mkdir(parents=True)
            details = {"comment": options.comment, "tags": dict(options.tags)}
            (folder / _DETAILS).write_text(json.dumps(details), encoding="utf-8")
        return SparkSchema(name, self)

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema, with its tables only if told to."""
        with self.lock:
            schema = self.schema(call, name)
            if schema is None:
                if options.ignore_not_found:
                    return 0
                raise NotFoundError("schema", name, self.engine.warehouse.listing().schemas)
            if schema.name == DEFAULT_SCHEMA:
                raise UnsupportedOperationError("schema", DEFAULT_SCHEMA, "DROP")
            count = len(self.engine.warehouse.listing().schemas[schema.name])
            if count and not options.cascade:
                raise SchemaNotEmptyError(schema.name, count)
            for folder in self.engine.warehouse.schema_folders(schema.name):
                remove_folder(self.local_folder(folder), self.engine.trash)
        return count

    def table(self, entry: TableEntry) -> DeltaTable:
        """Return the table of an entry; the same object at every call."""
        with self.lock:
            return self._tables.setdefault(entry.root, DeltaTable(entry, self.engine))

    def forget(self, root: str) -> None:
        """Let go of a table that was dropped: another may come to its place."""
        with self.lock:
            self._tables.pop(root, None)
            self.engine.forget(root)

    def local_folder(self, location: str) -> Path:
        """Return a folder that can be made and removed by this process."""
        if "://" in location:
            raise UnsupportedOperationError("warehouse", self.engine.warehouse.root, "DDL from here")
        return Path(location)


class SparkSchema(DynamicSchema):
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
        return str(self._details().get("comment", ""))

    @property
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        return dict(self._details().get("tags", {}))

    def tables(self, call: Call) -> Sequence[Table]:
        """Return all tables whose log can be read; asking for another one tells what is wrong with it."""
        call.check()
        tables = map(self._catalog.table, self._entries().values())
        return [table for table in tables if table.is_readable(call)]

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
        """Return no functions."""
        call.check()
        return ()

    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> DeltaTable:
        """Make an empty table, or return the existing one with `OnConflict.IGNORE`."""
        if not name:
            raise InvalidRequestError("a table needs a name")
        path = f"{self._name}.{name}"
        spark_schema = table_schema(path, arrow_schema, options)
        engine = self._catalog.engine
        with self._catalog.lock:
            existing = self.table(call, name)
            if existing is not None:
                match options.on_conflict:
                    case OnConflict.IGNORE:
                        return existing
                    case OnConflict.ERROR:
                        raise AlreadyExistsError("table", path)
            root = existing.root if existing else engine.warehouse.table_folder(self._name, name)
            replace = existing is not None
            create = functools.partial(create_delta, root, spark_schema, options.comment, replace)
            engine.jobs.run(call, path, create)
            made = self.table(call, name)
        if made is None:
            raise NotFoundError("table", path)
        return made

    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table and its files."""
        with self._catalog.lock:
            table = self.table(call, name)
            if table is None:
                if options.ignore_not_found:
                    return
                raise NotFoundError("table", f"{self._name}.{name}", self._entries())
            remove_folder(self._catalog.local_folder(table.root), self._catalog.engine.trash)
            self._catalog.forget(table.root)

    def _entries(self) -> Mapping[str, TableEntry]:
        return self._catalog.engine.warehouse.listing().schemas.get(self._name, {})

    def _details(self) -> dict[str, Any]:
        folder = self._catalog.engine.warehouse.schema_folder(self._name)
        path = Path(folder) / _DETAILS
        if "://" in folder or not path.is_file():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}


def _same(name: str, known: Iterable[str]) -> str | None:
    """Return the one of the known names that differs in letter case only."""
    return next((other for other in known if other.lower() == name.lower()), None)
