"""Run CREATE, DROP, ALTER, OPTIMIZE and VACUUM: through the catalog's own DDL, views and functions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sparkport.arrow.conform import conform_batch
from sparkport.catalog.call import Call
from sparkport.catalog.ddl import (
    CreateSchemaOptions,
    CreateTableOptions,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicTable,
    OnConflict,
    RevertibleSchema,
)
from sparkport.catalog.dml import committed
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.guards import Privilege, unguarded, view_of
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Table, VersionedTable
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    NotFoundError,
    NotImplementedByServerError,
    SparkportError,
    UnsupportedOperationError,
)
from sparkport.spark.functions.maintenance import Optimize, Vacuum
from sparkport.spark.query.function import Plan
from sparkport.spark.statements.change_runs import Queries
from sparkport.spark.statements.definitions import (
    kind_of,
    layout_of,
    new_columns,
    table_changes,
    table_comment,
    table_options,
)
from sparkport.spark.statements.function_calls import run_function
from sparkport.spark.statements.names import Names
from sparkport.spark.statements.tokens import cursor_of
from sparkport.spark.statements.view_runs import KINDS as VIEW_KINDS
from sparkport.spark.statements.view_runs import DefinitionQueries, ViewRuns
from sparkport.spark.table import DeltaTable
from sparkport.sql.tokens import Cursor
from sparkport.toolkit.replacing import replace_table, staged_name

_CREATE_TABLE = frozenset({"CreateTable", "ReplaceTable", "CreateTableAsSelect", "ReplaceTableAsSelect"})
_AS_SELECT = frozenset({"CreateTableAsSelect", "ReplaceTableAsSelect"})
_WEEK = 168.0


class DefinitionRuns:
    """Runs definitions on a catalog."""

    def __init__(self, catalog: DynamicCatalog, functions: Sequence[TableFunction], views: ViewRuns) -> None:
        self._catalog = catalog
        self._functions = functions
        self._views = views

    def run(self, call: Call, queries: DefinitionQueries, names: Names, sql: str, plan: Plan) -> int:
        """Run one definition, and return how many rows it has written."""
        cursor = cursor_of(sql)
        kind = kind_of(plan)
        if kind in _CREATE_TABLE:
            return _create_table(call, queries, names, cursor, plan)
        if kind in VIEW_KINDS:
            self._views.run(call, queries, names, cursor, plan)
        elif cursor.skip("ALTER", "VIEW"):
            if kind != "RenameTable":
                raise NotImplementedByServerError("ALTER VIEW is offered with AS and RENAME TO")
            self._views.rename(call, names, cursor)
        elif kind == "CreateNamespace":
            self._create_schema(call, names, cursor)
        elif kind == "DropNamespace":
            self._drop_schema(call, names, cursor)
        elif kind == "DropTable":
            _drop_table(call, names, cursor)
        elif cursor.skip("ALTER", "TABLE"):
            table = _dynamic(names.seen_table(cursor.names()))
            changes = table_changes(cursor, plan)
            if len(changes) > 1:
                raise NotImplementedByServerError("ALTER TABLE changes one column at a time")
            table.alter(call, changes[0])
        elif kind == "CommentOnTable":
            cursor.expect("COMMENT", "ON", "TABLE")
            _dynamic(names.seen_table(cursor.names())).alter(call, table_comment(plan))
        elif cursor.skip("OPTIMIZE"):
            optimized = names.table(cursor.names(), Privilege.ALTER)
            cursor.end()
            run_function(call, self._functions, Optimize.name, [str(optimized)])
        elif cursor.skip("VACUUM"):
            vacuumed = names.table(cursor.names(), Privilege.ALTER)
            hours = _hours(cursor)
            run_function(call, self._functions, Vacuum.name, [str(vacuumed), hours])
        else:
            raise NotImplementedByServerError(f"statements of the kind {kind} are not offered")
        return 0

    def _create_schema(self, call: Call, names: Names, cursor: Cursor) -> None:
        cursor.expect("CREATE")
        cursor.at += 1
        if_not_exists = cursor.skip("IF", "NOT", "EXISTS")
        name = names.schema_name(cursor.names())
        cursor.end()
        try:
            self._seen(call).create_schema(call, name, CreateSchemaOptions())
        except AlreadyExistsError:
            if not if_not_exists:
                raise

    def _drop_schema(self, call: Call, names: Names, cursor: Cursor) -> None:
        cursor.expect("DROP")
        cursor.at += 1
        if_exists = cursor.skip("IF", "EXISTS")
        name = names.schema_name(cursor.names())
        cursor.skip("RESTRICT")
        cascade = cursor.skip("CASCADE")
        cursor.end()
        options = DropSchemaOptions(ignore_not_found=if_exists, cascade=cascade)
        self._seen(call).drop_schema(call, name, options)

    def _seen(self, call: Call) -> DynamicCatalog:
        """Return the catalog as the caller may see it."""
        catalog = view_of(call, self._catalog)
        assert isinstance(catalog, DynamicCatalog)
        return catalog


def _dynamic(table: Table) -> DynamicTable:
    if not isinstance(table, DynamicTable):
        raise UnsupportedOperationError("view", table.name, "ALTER TABLE, which is for tables")
    return table


def _create_table(call: Call, queries: Queries, names: Names, cursor: Cursor, plan: Plan) -> int:
    cursor.expect("CREATE")
    on_conflict = OnConflict.REPLACE if cursor.skip("OR", "REPLACE") else OnConflict.ERROR
    cursor.expect("TABLE")
    if cursor.skip("IF", "NOT", "EXISTS"):
        on_conflict = OnConflict.IGNORE
    path = cursor.names()
    layout = layout_of(cursor, plan)
    schema = names.schema(path[:-1])
    if kind_of(plan) not in _AS_SELECT:
        arrow_schema, options = new_columns(plan, on_conflict, layout)
        schema.create_table(call, path[-1], arrow_schema, options)
        return 0
    if on_conflict is OnConflict.IGNORE and schema.table(call, path[-1]) is not None:
        return 0
    cursor.until("AS")
    cursor.expect("AS")
    name, existing = path[-1], schema.table(call, path[-1])
    if on_conflict is not OnConflict.REPLACE or existing is None:
        return _create_table_as(call, queries, schema, name, cursor.rest(), table_options(plan, layout))
    staged = staged_name(existing.name)
    count = _create_table_as(call, queries, schema, staged, cursor.rest(), table_options(plan, layout))
    replace_table(call, schema, staged, existing.name)
    return count


def _create_table_as(
    call: Call, queries: Queries, schema: RevertibleSchema, name: str, query: str, options: CreateTableOptions
) -> int:
    """Create a table with the rows of a query; take it back if they fail."""
    with queries.execute(call, [query], ScanOptions()) as reader:
        columns = reader.schema
        table = schema.create_table(call, name, columns, options)
        assert isinstance(table, VersionedTable)
        made = table.snapshot(call, None).time_point
        try:
            target = unguarded(table, Privilege.INSERT)
            assert isinstance(target, DeltaTable)
            statement = target.begin_insert(call, returning=False)
            with committed(call, statement) as outcome:
                for batch in call.checked(reader):
                    statement.write(conform_batch(batch, columns))
        except BaseException:
            with suppress(SparkportError):  # the first error tells more
                schema.revert_create(call.detached(), name, made)
            raise
    return outcome.affected_rows


def _drop_table(call: Call, names: Names, cursor: Cursor) -> None:
    cursor.expect("DROP", "TABLE")
    if_exists = cursor.skip("IF", "EXISTS")
    path = cursor.names()
    cursor.end()
    try:
        schema = names.schema(path[:-1])
    except NotFoundError:
        if if_exists:
            return
        raise
    schema.drop_table(call, path[-1], DropTableOptions(ignore_not_found=if_exists))


def _hours(cursor: Cursor) -> float:
    if not cursor.skip("RETAIN"):
        cursor.end()
        return _WEEK
    token = cursor.token
    if token is None or not token.text.isdecimal():
        raise InvalidRequestError("VACUUM retains a whole number of hours: RETAIN 168 HOURS")
    cursor.at += 1
    cursor.expect("HOURS")
    cursor.end()
    return float(token.text)
