"""The warehouse as a catalog."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import structlog

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    DropSchemaOptions,
    DynamicCatalog,
)
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.offloading import Offloadable, Offloaded
from sparkport.catalog.sql import SqlDescription, SqlStatement
from sparkport.catalog.tables import CatalogVersion, Schema
from sparkport.catalog.transactions import TransactionManager
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    UnsupportedOperationError,
)
from sparkport.spark.catalog.schema import SparkSchema
from sparkport.spark.catalog.tables import WarehouseTables, same_name
from sparkport.spark.catalog.views import WarehouseViews
from sparkport.spark.commit.folder_lock import exclusive
from sparkport.spark.commit.staging import new_folder
from sparkport.spark.ddl import undrop
from sparkport.spark.ddl.create import (
    make_schema,
)
from sparkport.spark.ddl.drop import (
    check_droppable,
    check_no_table_inside,
    remove_schema_folder,
)
from sparkport.spark.engine import Engine
from sparkport.spark.functions.catalog_functions import (
    NO_FUNCTIONS,
    SCHEMA,
    FunctionFlags,
    catalog_functions,
    spark_sql,
)
from sparkport.spark.functions.dropped import UndropTable
from sparkport.spark.statements.spark_sql import SparkSql, is_definition
from sparkport.spark.statements.tokens import first_word
from sparkport.spark.statements.view_runs import ViewRuns
from sparkport.spark.user_functions import SparkScalars
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA
from sparkport.spark.warehouse.trash import DroppedTable
from sparkport.spark.write import staged_commit

_log = structlog.get_logger("sparkport.spark")


class SparkCatalog(DynamicCatalog):
    """All Delta tables of a warehouse folder, whoever created them.

    Listing reads the tables' logs and needs no Spark: it works while that starts. With
    functions switched on there is always a schema `sparkport`, which has them.
    """

    def __init__(self, engine: Engine, switches: FunctionFlags = NO_FUNCTIONS) -> None:
        self.engine = engine
        if engine.journal is not None:
            engine.transactions.publish_by(functools.partial(staged_commit.publish, engine, engine.journal))
        self._scalars = SparkScalars(engine)
        undrop = UndropTable(self.find_dropped, self.undrop)
        query = spark_sql(engine, self, switches, self._scalars)
        self.functions: tuple[TableFunction, ...] = catalog_functions(engine, self, switches, query, undrop)
        views = WarehouseViews(engine, query)
        self.tables = WarehouseTables(engine, views)
        view_runs = ViewRuns(self, views.store, self.tables.changing)
        self._sql = SparkSql(self, query, self.functions, view_runs)

    @property
    def transactions(self) -> TransactionManager:
        """The transactions of this catalog."""
        return self.engine.transactions

    def schemas(self, call: Call) -> Sequence[Schema]:
        """Return all schemas."""
        call.check()
        return [SparkSchema(name, self.tables, self.functions) for name in self._schema_names()]

    def schema(self, call: Call, name: str) -> Schema | None:
        """Return the schema of that name, in any letter case, or None."""
        call.check()
        if self.engine.warehouse.has_schema(name):
            return SparkSchema(name, self.tables, self.functions)
        names = self._schema_names()
        spelled = name if name in names else same_name(name, names)
        return None if spelled is None else SparkSchema(spelled, self.tables, self.functions)

    def describe_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a query in Spark SQL."""
        return self._sql.describe(call, statement, parameters)

    def query_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query in Spark SQL."""
        return self._sql.query(call, statement, parameters)

    def update_sql(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run a statement of Spark SQL that returns no rows."""
        transactions = self.engine.transactions
        with transactions.one_statement(call):
            if is_definition(statement):
                transactions.refuse_in_staged(call, first_word(statement.text))
            return self._sql.update(call, statement, parameters)

    def offload(self, function: Offloadable) -> Offloaded:
        """Let Spark run a user's function, and know it by name."""
        return self._scalars.add(function)

    def add_functions(self, functions: Sequence[TableFunction]) -> None:
        """Offer functions beside the catalog's own, unless functions are switched off."""
        if self.functions:
            names = {function.name for function in functions}
            kept = [function for function in self.functions if function.name not in names]
            self.functions = (*kept, *functions)

    def catalog_version(self, call: Call) -> CatalogVersion:
        """Return a number that rises with every commit to any table, whoever makes it."""
        call.check()
        listing = self.engine.warehouse.listing()
        views = self.tables.views.store.version()
        return CatalogVersion(listing.version + self.engine.transactions.expirations() + views)

    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> SparkSchema:
        """Create an empty schema."""
        self.engine.transactions.refuse_in_staged(call, "CREATE SCHEMA")
        if not name:
            raise InvalidRequestError("a schema needs a name")
        with self.tables.changing(call):
            if self.schema(call, name) is not None:
                raise AlreadyExistsError("schema", name)
            folder = self.engine.warehouse.schema_folder(name)
            details = {"comment": options.comment, "tags": dict(options.tags)}
            try:
                make_schema(folder, details, new_folder(self.engine.staging))
            except FileExistsError as error:
                raise AlreadyExistsError("schema", name) from error
        return SparkSchema(name, self.tables, self.functions)

    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema, with its tables only if `cascade` is set."""
        self.engine.transactions.refuse_in_staged(call, "DROP SCHEMA")
        with self.tables.changing(call), contextlib.ExitStack() as closed:
            schema = self.schema(call, name)
            if schema is None:
                if options.ignore_not_found:
                    return 0
                raise NotFoundError("schema", name, self.engine.warehouse.listing().schemas)
            if schema.name == DEFAULT_SCHEMA:
                raise UnsupportedOperationError("schema", DEFAULT_SCHEMA, "DROP")
            entries = self.engine.warehouse.listing().schemas.get(schema.name)
            if entries is None:  # it has the functions alone
                raise UnsupportedOperationError("schema", schema.name, "DROP")
            folders = self.engine.warehouse.schema_folders(schema.name)
            roots = {name: entry.root for name, entry in entries.items()}
            views = self.tables.views.tables(schema.name)
            check_droppable(schema.name, folders, roots, tuple(views), cascade=options.cascade)
            for root in roots.values():
                check_no_table_inside(root)
            tables = [self.tables.table(entry) for entry in entries.values()]
            for table in tables:
                closed.enter_context(table.versions.lock.exclusive(call))
            for table in tables:
                # Another server may be faster.
                with contextlib.suppress(NotFoundError), exclusive(call, table.root, str(table)):
                    self.tables.drop(table)
            self.tables.views.drop_all(call, schema.name)
            for folder in folders:
                hidden = Path(new_folder(self.engine.staging))
                remove_schema_folder(schema.name, folder, self.engine.trash, hidden)
        return len(entries) + len(views)

    def find_dropped(self, call: Call, schema: str, name: str) -> DroppedTable:
        """Return the table of that name that was dropped last. Raises what `undrop.find` does."""
        return undrop.find(call, self.engine, self, schema, name)

    def undrop(self, call: Call, schema: str, name: str) -> DroppedTable:
        """Bring back the table of that name that was dropped last. Raises what `undrop.restore` does."""
        with self.tables.changing(call):
            self.tables.views.check_free(schema, name)
            dropped, root = undrop.restore(call, self.engine, self, schema, name)
            self.tables.forget(root)
        return dropped

    def _schema_names(self) -> list[str]:
        names = list(self.engine.warehouse.listing().schemas)
        if self.functions and same_name(SCHEMA, names) is None:
            names.append(SCHEMA)
        return names
