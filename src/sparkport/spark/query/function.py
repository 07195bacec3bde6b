"""`query`: one statement of Spark SQL that reads tables of the warehouse."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.guards import Privilege, check, partial, unguarded, view_of
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.sql import SqlStatement
from sparkport.catalog.tables import Catalog, Table
from sparkport.errors import DeadlineExceededError, InvalidRequestError, NotFoundError, PreconditionError
from sparkport.spark.delta.log.spark_fields import SparkField, struct_fields
from sparkport.spark.external.table import decoded_rows, exact_schema
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.query.explanations import without_places
from sparkport.spark.query.renaming import rewritten
from sparkport.spark.query.result_names import name_given
from sparkport.spark.query.runner import NAME, QueryRunner
from sparkport.spark.query.session import TIME_ZONE, read_json
from sparkport.spark.query.shown_tables import ShownTables
from sparkport.spark.query.tables import BoundQuery, NamedTable, QueryTable, Settings
from sparkport.spark.query.transaction_tables import Columns, bound_table, check_versions
from sparkport.spark.query.view_texts import table_behind, with_views_inside
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA
from sparkport.toolkit.bounded_cache import BoundedCache

_SIGNATURE = FunctionSignature((Parameter("sql", pa.string()),))
_COMMENT = "The result of one query of Spark SQL over tables of the warehouse"
_SPARK_CATALOG = "spark_catalog"
_MAX_REMEMBERED = 256
_MAX_REMEMBERED_LENGTH = 1 << 14

Plan = Sequence[Mapping[str, Any]]
"""The nodes of a parsed statement as Spark writes them in JSON, parents first."""


class Query:
    """Lets Spark run a query, whose columns are known from its analysis.

    A column that is passed on as it is keeps the type that clients know it by; one that is
    computed has the type that Spark gives it. Tables are read at their newest version, and within a staged
    transaction as that sees them.
    """

    name = NAME
    comment = _COMMENT
    signature = _SIGNATURE

    def __init__(self, catalog: Catalog, runner: QueryRunner, max_seconds: float) -> None:
        self._catalog = catalog
        self._runner = runner
        self._max_seconds = max_seconds
        self._names: BoundedCache[str, tuple[NamedTable, ...]] = BoundedCache(_MAX_REMEMBERED)
        self._schemas: BoundedCache[BoundQuery, str] = BoundedCache(_MAX_REMEMBERED)
        self._statement: SqlStatement | None = None

    def within(self, statement: SqlStatement) -> Query:
        """Return this for queries in the session of a statement, which may have columns of one name."""
        other = copy.copy(self)
        other._statement = statement  # noqa: SLF001  (of a copy)
        return other

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns of the query, which is analysed for it but not run."""
        check(call, Privilege.SQL)
        limited = _limit_time(call, self._max_seconds)
        with self._limit(call), ShownTables(with_rows=False) as shown:
            return self._shown(self._analyse(limited, _text(parameters), shown)[1])

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        check(call, Privilege.SQL)
        sql, limited = _text(parameters), _limit_time(call, self._max_seconds)
        tables = ShownTables(with_rows=True)
        with self._limit(call):
            query, spark_schema = self._analyse(limited, sql, tables)
        shown = self._shown(spark_schema)
        rows = self._runner.rows(limited, query, spark_schema, options)
        reader = decoded_rows(self._within_limit(call, rows, tables), spark_schema, options)
        if reader.schema.names == shown.names or options.columns is not None:
            return reader
        renamed = (batch.rename_columns(shown.names) for batch in reader)
        return pa.RecordBatchReader.from_batches(shown, renamed)

    def explain(self, call: Call, sql: str) -> str:
        """Return the plan of a query for people to read, without the places of files."""
        check(call, Privilege.SQL)
        limited = _limit_time(call, self._max_seconds)
        with self._limit(call), ShownTables(with_rows=False) as shown:
            query, _ = self._analyse(limited, sql, shown)
            text = self._runner.explained(limited, query)
        return without_places(text, [table.root for table in query.tables])

    def for_view(self, call: Call, sql: str, view: tuple[str, str]) -> tuple[str, Sequence[SparkField]]:
        """Return a query with the schema in the name of each table, and its columns.

        Raises InvalidRequestError if it reads `view`, which is to have it.
        """
        check(call, Privilege.SQL)
        limited = _limit_time(call, self._max_seconds)
        with self._limit(call):
            paths = {
                named: table_behind(self._find(limited, named.path), named).path
                for named in self._table_names(limited, sql)
            }
            whole = rewritten(sql, tuple(paths), paths.get)
            with_views_inside(
                whole,
                lambda text: self._table_names(limited, text),
                lambda path: self._find(limited, path),
                new=view,
            )
            with ShownTables(with_rows=False) as shown:
                _, spark_schema = self._analyse(limited, whole, shown)
        fields = [f for f in struct_fields(json.loads(spark_schema)) if ROWID_KEY not in f.metadata]
        twice = next((name_given(f.name) for f in fields if name_given(f.name) != f.name), None)
        if twice is not None:
            raise _two_columns("view", twice)
        return whole, fields

    def parse(self, call: Call, sql: str) -> Plan:
        """Return the plan of any statement, which is parsed and nothing else."""
        with self._limit(call):
            plan: Plan = read_json(self._runner.parsed(_limit_time(call, self._max_seconds), sql))
        return plan

    def _analyse(self, call: Call, sql: str, shown: ShownTables) -> tuple[BoundQuery, str]:
        """Return a query with its tables, and its columns; what it means is remembered for the next time.

        Whoever reads the rows looks again whether they have these columns.
        """
        sql, tables = with_views_inside(
            sql, lambda text: self._table_names(call, text), lambda path: self._find(call, path)
        )
        found = {named: self._bound(call, named, table, shown) for named, table in tables.items()}
        versions = {table: version for table, (*_, version) in found.values()}
        check_versions(tuple(versions))
        text = rewritten(sql, tuple(found), lambda named: _other_name(named.path, found[named][0]))
        query = BoundQuery(text, tuple(versions), self._settings(), tuple(versions.values()))
        spark_schema = self._schemas.get(query)
        if spark_schema is None:
            spark_schema = self._runner.spark_schema(call, query)
            if len(sql) <= _MAX_REMEMBERED_LENGTH and not shown:
                self._schemas.put(query, spark_schema)
        return query, spark_schema

    def _settings(self) -> Settings:
        own = self._statement
        if own is None:
            return ()
        zone = ((TIME_ZONE, own.time_zone),) if own.time_zone else ()
        return tuple(sorted((*own.settings, *zone)))

    def _table_names(self, call: Call, sql: str) -> tuple[NamedTable, ...]:
        names = self._names.get(sql)
        if names is None:
            names = tuple(self._runner.table_names(call, sql))
            if len(sql) <= _MAX_REMEMBERED_LENGTH:
                self._names.put(sql, names)
        return names

    def _shown(self, spark_schema: str) -> pa.Schema:
        arrow_schema = exact_schema(spark_schema)
        names = [name_given(name) for name in arrow_schema.names]
        twice = next(
            (name for name, made in zip(names, arrow_schema.names, strict=True) if name != made), None
        )
        if twice is not None and self._statement is None:
            raise _two_columns("query", twice)
        if not names:
            raise InvalidRequestError("the query has no columns that can be shown")
        return pa.schema([field.with_name(name) for field, name in zip(arrow_schema, names, strict=True)])

    def _within_limit(
        self, call: Call, rows: Iterator[pa.RecordBatch], tables: ShownTables
    ) -> Iterator[pa.RecordBatch]:
        with tables, self._limit(call):
            yield from rows

    @contextlib.contextmanager
    def _limit(self, call: Call) -> Iterator[None]:
        """Report the server's time limit as such, and not as the deadline of the call."""
        try:
            yield
        except DeadlineExceededError as error:
            call.check()
            raise DeadlineExceededError(
                f"the query took longer than {self._max_seconds:g} seconds, the limit of this server"
                " (--query-timeout)"
            ) from error

    def _bound(
        self, call: Call, named: NamedTable, seen: Table, shown: ShownTables
    ) -> tuple[QueryTable, Columns]:
        """Return what a name in a query stands for, and what its columns go by."""
        part = partial(call, seen)
        if part is not None:
            table = shown.table(call, part, named)
            return table, (table.schema, table.name, table.table_id, 0)
        table_itself = unguarded(seen, Privilege.SELECT)
        if not isinstance(table_itself, DeltaTable):
            raise NotFoundError("table", ".".join(named.path))
        return bound_table(call, table_itself, named)

    def _find(self, call: Call, name: tuple[str, ...]) -> Table:
        """Return the table or view that a name in a query means, as the caller may see it."""
        own = self._statement
        match name:
            case (table,):
                schema = (own.schema if own else "") or DEFAULT_SCHEMA
            case (schema, table):
                pass
            case (catalog, schema, table) if catalog.lower() in {
                _SPARK_CATALOG,
                own.catalog.lower() if own else _SPARK_CATALOG,
            }:
                pass
            case _:
                raise NotFoundError("table", ".".join(name))
        return find_table(call, find_schema(call, view_of(call, self._catalog), schema), table)


class DisabledQuery:
    """Stands in for `query`: it is not listed, and its error says why."""

    name = NAME
    comment = _COMMENT
    signature = _SIGNATURE

    def __init__(self, reason: str) -> None:
        self.unlisted_because = reason

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Refuse."""
        del parameters
        call.check()
        raise PreconditionError(self.unlisted_because)

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Refuse."""
        del options
        return self.schema_for_parameters(call, parameters)

    def within(self, statement: SqlStatement) -> DisabledQuery:
        """Return this."""
        del statement
        return self

    def explain(self, call: Call, sql: str) -> str:
        """Refuse."""
        self.schema_for_parameters(call, [sql])
        return ""

    def for_view(self, call: Call, sql: str, view: tuple[str, str]) -> tuple[str, Sequence[SparkField]]:
        """Refuse."""
        del view
        self.schema_for_parameters(call, [sql])
        return sql, ()

    def parse(self, call: Call, sql: str) -> Plan:
        """Refuse."""
        self.schema_for_parameters(call, [sql])
        return ()


def _limit_time(call: Call, max_seconds: float) -> Call:
    """Return a call that ends when this one does, or after `max_seconds`."""
    remaining = call.remaining()
    seconds = max_seconds if remaining is None else min(remaining, max_seconds)
    limited = Call(
        call.principal,
        transaction_id=call.transaction_id,
        timeout=seconds,
        trace_id=call.trace_id,
        meter=call.meter,
        if_version=call.if_version,
    )
    call.on_cancel(limited.cancel)
    return limited


def _two_columns(what: str, name: str) -> InvalidRequestError:
    return InvalidRequestError(f"the {what} has two columns named '{name}': give one another name with AS")


def _text(parameters: Sequence[Any]) -> str:
    sql = parameters[0]
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidRequestError("query needs a statement")
    return sql


def _other_name(name: tuple[str, ...], table: QueryTable) -> tuple[str, ...] | None:
    """Return the name that Spark knows a table by, None if it is the one that the query has."""
    written = tuple(part.lower() for part in name)
    if len(written) == 1:
        written = (DEFAULT_SCHEMA, *written)
    return None if written in (table.key, (_SPARK_CATALOG, *table.key)) else table.key
