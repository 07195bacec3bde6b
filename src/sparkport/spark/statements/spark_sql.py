"""Spark SQL for clients of SQL: queries, changes of rows, definitions and listings, with parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import DynamicCatalog
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.guards import Privilege, check, partial, unguarded, view_of
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.sql import SqlDescription, SqlStatement
from sparkport.errors import ConflictError, InvalidRequestError, SparkportError
from sparkport.spark.query.function import DisabledQuery, Query
from sparkport.spark.query.placeholders import (
    bound,
    count_parameters,
    names_in,
    parameter_schema,
    with_values,
)
from sparkport.spark.statements import change_runs
from sparkport.spark.statements.change_runs import Queries, Written
from sparkport.spark.statements.changes import (
    Change,
    MergeDelete,
    MergeUpdate,
    Several,
    needed_privileges,
    parse_change,
)
from sparkport.spark.statements.definition_runs import DefinitionRuns
from sparkport.spark.statements.listings import listed
from sparkport.spark.statements.names import Names, delta_table
from sparkport.spark.statements.plain_scans import UNBOUND, PlainScan, constant_rows, plain_scan
from sparkport.spark.statements.plain_select import Constants, parse_plain
from sparkport.spark.statements.settings import in_session, is_setting_query, settings_of
from sparkport.spark.statements.several import run_several
from sparkport.spark.statements.tokens import first_word
from sparkport.spark.statements.value_lists import parameter_types
from sparkport.spark.statements.view_runs import ViewRuns
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA
from sparkport.sql.changes import Delete, Insert, Update
from sparkport.sql.parameters import value_rows

_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"})
_DEFINITIONS = frozenset({"CREATE", "REPLACE", "DROP", "ALTER", "COMMENT", "OPTIMIZE", "VACUUM"})
_LISTINGS = frozenset({"SHOW", "DESCRIBE", "DESC", "EXPLAIN", "USE", "SET"})
_NO_COLUMNS = pa.schema([])
_UPDATES = _CHANGES | _DEFINITIONS
# Their queries have the parts of the statement in another order, and some of them twice.
_BOUND_AS_TEXT = (MergeUpdate, MergeDelete, Several)


class SparkSql:
    """Runs statements; what their queries may consist of is decided by the function `query`.

    Changes go through the statements of the tables, so that they keep all that other writers keep.
    """

    def __init__(
        self,
        catalog: DynamicCatalog,
        query: Query | DisabledQuery,
        functions: Sequence[TableFunction],
        views: ViewRuns,
    ) -> None:
        """`functions` are those of the catalog, which OPTIMIZE, VACUUM and DESCRIBE HISTORY run."""
        self._catalog = catalog
        self._query = query
        self._functions = functions
        self._definitions = DefinitionRuns(catalog, functions, views)

    def describe(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a statement; parameters without values are taken for nulls."""
        if is_setting_query(statement.text):
            return SqlDescription(settings_of(statement).schema, _NO_COLUMNS)
        statement = in_session(statement)
        word = first_word(statement.text)
        if word in _CHANGES:
            return self._describe_change(call, statement, parameters)
        if word in _DEFINITIONS:
            self._query.parse(call, statement.text)
            return SqlDescription(None, _NO_COLUMNS)
        if word in _LISTINGS:
            return SqlDescription(self._listed(call, statement).schema, _NO_COLUMNS)
        count = count_parameters(statement.text)
        plain = self._plain(call, statement, parameters, count)
        if isinstance(plain, pa.Table):
            return SqlDescription(plain.schema, _NO_COLUMNS)
        if plain is not None:
            unbound = plain.parameters
            parts = ("",) if len(unbound) else plain.parts(call)
            return SqlDescription(plain.arrow_schema, unbound, parts)
        with bound(statement.text, _first_values(parameters, count)) as text:
            columns = self._query.within(statement).schema_for_parameters(call, [text])
        declared = _NO_COLUMNS
        if count:
            declared = parameter_schema(statement.text, self._column_types(call, _names_of(statement)))
        return SqlDescription(columns, declared)

    def query(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query, once for each row of parameters."""
        if is_setting_query(statement.text):
            return settings_of(statement).to_reader()
        statement = in_session(statement)
        word = first_word(statement.text)
        if word in _UPDATES:
            raise InvalidRequestError("the statement returns no rows; run it as an update")
        if word in _LISTINGS:
            return self._listed(call, statement).to_reader()
        plain = self._plain(call, statement, parameters, 0)
        if plain is not None:
            return plain.to_reader() if isinstance(plain, pa.Table) else plain.read(call, statement.part)
        if statement.part:
            raise ConflictError(statement.text[:100], "its tables have changed; describe the query again")
        queries = self._query.within(statement)
        texts = [with_values(statement.text, values) for values in _rows(parameters)]
        first = queries.execute(call, [texts[0]], ScanOptions())
        return pa.RecordBatchReader.from_batches(first.schema, _all_rows(call, queries, first, texts[1:]))

    def update(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run a statement that returns no rows, and return how many it has changed."""
        statement = in_session(statement)
        queries = self._query.within(statement)
        word = first_word(statement.text)
        if word in _DEFINITIONS:
            value_rows(parameters, 0)
            plan = queries.parse(call, statement.text)
            names = Names(call, self._catalog, statement)
            return self._definitions.run(call, queries, names, statement.text, plan)
        if word not in _CHANGES:
            self.describe(call, statement, parameters)
            raise InvalidRequestError("the statement returns rows; run it as a query")
        count = count_parameters(statement.text)
        values = value_rows(parameters, count)
        change = self._parse_change(call, statement)
        if count and isinstance(change, _BOUND_AS_TEXT):
            if len(values) != 1:
                raise InvalidRequestError("MERGE and INSERT OVERWRITE take one row of parameters")
            with_literals = replace(statement, text=with_values(statement.text, values[0]))
            return self.update(call, with_literals, None)
        written = self._written(call, statement, change)
        if isinstance(change, Several):
            return run_several(call, queries, change, written.table)
        lowered = change_runs.lower(call, queries, change, written, is_run=True)
        return change_runs.run(call, queries, lowered, parameters, count)

    def _describe_change(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        text = statement.text
        values = _first_values(parameters, count_parameters(text))
        change = self._parse_change(call, statement)
        if isinstance(change, _BOUND_AS_TEXT):
            text = with_values(text, values)
            change, values = self._parse_change(call, replace(statement, text=text)), []
        written = self._written(call, statement, change)
        table = written.table
        declared = parameter_schema(
            statement.text, self._column_types(call, _names_of(statement) | {table.name.lower()})
        )
        queries = self._query.within(statement)
        for part in change.parts if isinstance(change, Several) else (change,):
            lowered = change_runs.lower(call, queries, part, written, is_run=False)
            queries.schema_for_parameters(call, [with_values(lowered.query, values)])
        if isinstance(change, Insert):
            columns = without_rowid(table.arrow_schema)
            fields = [columns.field(find_column(columns, name)) for name in lowered.given]
            for number, kind in parameter_types(change.query, fields).items():
                declared = declared.set(number, pa.field(str(number + 1), kind))
        return SqlDescription(None, declared)

    def _written(self, call: Call, statement: SqlStatement, change: Change | Several) -> Written:
        """Return the table that a change writes to. Raises NotFoundError and PermissionDeniedError."""
        names = Names(call, self._catalog, statement)
        seen = names.seen_table(change.target)
        part = partial(call, seen) if isinstance(change, (Insert, Update, Delete)) else None
        if part is not None and isinstance(part.behind, DeltaTable):
            return Written(part.behind, part)
        return Written(names.table(change.target, *needed_privileges(change)))

    def _parse_change(self, call: Call, statement: SqlStatement) -> Change | Several:
        # Spark's parser takes a parameter only where it binds one itself.
        nulls = [None] * count_parameters(statement.text)
        with bound(statement.text, nulls) as text:
            plan = self._query.parse(call, text)
        return parse_change(statement.text, plan[0])

    def _listed(self, call: Call, statement: SqlStatement) -> pa.Table:
        names = Names(call, self._catalog, statement)
        plan = self._query.parse(call, statement.text)
        queries = self._query.within(statement)
        return listed(call, names, statement.text, plan, queries, self._functions)

    def _plain(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None, unbound: int
    ) -> PlainScan | pa.Table | None:
        """Return what answers a statement without Spark SQL, None if that is needed."""
        if isinstance(self._query, DisabledQuery):
            return None
        check(call, Privilege.SQL)
        rows = _rows(parameters)
        if len(rows) != 1:
            return None
        select = parse_plain(statement.text, rows[0] or [UNBOUND] * unbound)
        if select is None or isinstance(select, Constants):
            return None if select is None else constant_rows(select)
        try:
            seen = Names(call, self._catalog, statement).seen_table(select.path)
            part = partial(call, seen)
            table = delta_table(part.behind if part else unguarded(seen, Privilege.SELECT), select.path)
        except SparkportError:
            return None  # Spark's way says what is wrong
        return plain_scan(call, table, select, part)

    def _column_types(self, call: Call, names: frozenset[str]) -> dict[str, pa.DataType]:
        """Return the types of columns by their names, of tables with these names whose logs can be read."""
        types: dict[str, pa.DataType] = {}
        # The schema may be left out if it is that of the session or the default one.
        schemas = [
            s
            for s in view_of(call, self._catalog).schemas(call)
            if s.name.lower() in names | {DEFAULT_SCHEMA}
        ]
        for schema in schemas:
            for table in schema.tables(call):
                if table.name.lower() not in names:
                    continue
                try:
                    columns = table.arrow_schema
                except SparkportError:  # another's table, which does not matter here
                    continue
                for field in columns or ():
                    types.setdefault(field.name.lower(), field.type)
        return types


def is_definition(statement: SqlStatement) -> bool:
    """Return whether a statement defines or maintains tables, which no transaction can undo."""
    return first_word(statement.text) in _DEFINITIONS


def _first_values(parameters: pa.RecordBatch | None, count: int) -> list[object]:
    if parameters is not None and parameters.num_rows:
        return _rows(parameters.slice(0, 1))[0]
    return [None] * count


def _rows(parameters: pa.RecordBatch | None) -> list[list[object]]:
    if parameters is None or not parameters.num_columns:
        return [[]]
    columns = [column.to_pylist() for column in parameters.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _all_rows(
    call: Call, queries: Queries, first: pa.RecordBatchReader, texts: list[str]
) -> Iterator[pa.RecordBatch]:
    with first:
        yield from first
    for text in texts:
        with queries.execute(call, [text], ScanOptions()) as reader:
            yield from reader


def _names_of(statement: SqlStatement) -> frozenset[str]:
    """Return the names that a statement uses, with that of its session's schema."""
    return names_in(statement.text) | ({statement.schema.lower()} if statement.schema else frozenset())
