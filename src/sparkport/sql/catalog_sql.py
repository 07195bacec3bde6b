"""SQL for a catalog that has none of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from sparkport.arrow.conform import batch_of, conform_column
from sparkport.arrow.sizes import byte_size
from sparkport.catalog.call import Call
from sparkport.catalog.sql import GatedSql, SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.sql import change_runs, definition_runs
from sparkport.sql.analysis import Analysis
from sparkport.sql.databases import DATABASES
from sparkport.sql.errors import translated
from sparkport.sql.exact_types import exact_schema
from sparkport.sql.parameters import value_rows
from sparkport.sql.syntax import statement_kind

_SMALL_BYTES = 8 << 20
_QUERIES = frozenset({"SELECT", "EXPLAIN"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE"})
_DEFINITIONS = frozenset({"CREATE", "DROP", "ALTER"})


class CatalogSql:
    """Runs DuckDB's SQL over the tables of a catalog. Follows `catalog.sql.SqlCatalog` but for its tables."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def _check_allowed(self) -> None:
        if isinstance(self._catalog, GatedSql):
            self._catalog.check_sql()

    def describe_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a statement over tables without rows."""
        self._check_allowed()
        with translated(call):
            kind = _kind(statement)
            if kind in _DEFINITIONS:
                return SqlDescription(None, pa.schema([]))
            with DATABASES.borrow(call) as database:
                analysis = Analysis(database, call, self._catalog, statement, with_rows=False)
                if kind in _CHANGES:
                    return SqlDescription(None, change_runs.parameters(analysis))
                return analysis.describe_query(parameters)

    def query_sql(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query; its rows are computed as they are read."""
        self._check_allowed()
        with translated(call):
            if _kind(statement) not in _QUERIES:
                raise InvalidRequestError("the statement returns no rows; run it as an update")
        batches = self._rows(call, statement, parameters)
        first = next(batches)
        return pa.RecordBatchReader.from_batches(first.schema, _chained(first, batches))

    def update_sql(self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None) -> int:
        """Run a change or a definition."""
        self._check_allowed()
        with translated(call):
            kind = _kind(statement)
            if kind in _QUERIES:
                raise InvalidRequestError("the statement returns rows; run it as a query")
            with DATABASES.borrow(call) as database:
                analysis = Analysis(database, call, self._catalog, statement, with_rows=True)
                if kind in _CHANGES:
                    return change_runs.run(analysis, parameters)
                value_rows(parameters, 0)
                return definition_runs.run(analysis)

    def _rows(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield an empty batch that tells the columns, then the rows.

        A small result is complete before its first row is sent: a client that stalls holds no database.
        """
        waiting: list[pa.RecordBatch] = []
        size = 0
        with contextlib.ExitStack() as stack:
            stack.enter_context(translated(call))
            database = stack.enter_context(DATABASES.borrow(call))
            analysis = Analysis(database, call, self._catalog, statement, with_rows=True)
            query = analysis.query()
            arrow_schema: pa.Schema | None = None
            for values in value_rows(parameters, len(query.parameters)):
                reader = database.execute(statement.text, values)
                if arrow_schema is None:
                    arrow_schema = exact_schema(query.tree, reader.schema, analysis.binding.tables)
                    yield pa.RecordBatch.from_pylist([], arrow_schema)
                for batch in call.checked(reader):
                    columns = map(conform_column, batch.columns, arrow_schema)
                    waiting.append(batch_of(list(columns), arrow_schema, batch.num_rows))
                    size += byte_size(waiting[-1])
                    if size > _SMALL_BYTES:
                        yield from waiting
                        waiting.clear()
        yield from waiting


def _kind(statement: SqlStatement) -> str:
    kind = statement_kind(statement.text)
    if kind not in _QUERIES | _CHANGES | _DEFINITIONS:
        raise NotImplementedByServerError(f"statements of the kind {kind} are not offered")
    return kind


def _chained(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches
