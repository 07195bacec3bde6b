"""Spark SQL for clients of SQL: the queries of the function `query`, with parameters."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.sql import SqlDescription, SqlStatement
from sparkport.catalog.tables import Catalog
from sparkport.errors import NotImplementedByServerError, SparkportError, UnsupportedOperationError
from sparkport.spark.query.placeholders import names_in, parameter_schema, with_values
from sparkport.spark.warehouse.listing import DEFAULT_SCHEMA


class SparkSql:
    """Runs queries that only read; what they may consist of is decided by the function `query`."""

    def __init__(self, catalog: Catalog, query: TableFunction) -> None:
        self._catalog = catalog
        self._query = query

    def describe(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> SqlDescription:
        """Analyse a query; parameters without values are taken for nulls."""
        _check_schema(statement)
        declared = parameter_schema(statement.text, {})
        values = (
            _rows(parameters)[0] if parameters is not None and parameters.num_rows else [None] * len(declared)
        )
        columns = self._query.schema_for_parameters(call, [with_values(statement.text, values)])
        if len(declared):
            declared = parameter_schema(statement.text, self._column_types(call, names_in(statement.text)))
        return SqlDescription(columns, declared)

    def query(
        self, call: Call, statement: SqlStatement, parameters: pa.RecordBatch | None
    ) -> pa.RecordBatchReader:
        """Run a query, once for each row of parameters."""
        _check_schema(statement)
        texts = [with_values(statement.text, values) for values in _rows(parameters)]
        first = self._query.execute(call, [texts[0]], ScanOptions())
        return pa.RecordBatchReader.from_batches(first.schema, self._all_rows(call, first, texts[1:]))

    def update(self, call: Call, statement: SqlStatement) -> int:
        """Refuse to change anything."""
        del statement
        call.check()
        raise NotImplementedByServerError(
            "SQL that changes tables is not offered on Spark; use ingest, or a DuckDB that has it attached"
        )

    def _all_rows(
        self, call: Call, first: pa.RecordBatchReader, texts: list[str]
    ) -> Iterator[pa.RecordBatch]:
        with first:
            yield from first
        for text in texts:
            with self._query.execute(call, [text], ScanOptions()) as reader:
                yield from reader

    def _column_types(self, call: Call, names: frozenset[str]) -> dict[str, pa.DataType]:
        """Return the types of columns by their names, of tables with these names whose logs can be read."""
        types: dict[str, pa.DataType] = {}
        # The schema may be left out if it is the default one.
        schemas = [s for s in self._catalog.schemas(call) if s.name.lower() in names | {DEFAULT_SCHEMA}]
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


def _rows(parameters: pa.RecordBatch | None) -> list[list[object]]:
    if parameters is None or not parameters.num_columns:
        return [[]]
    columns = [column.to_pylist() for column in parameters.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _check_schema(statement: SqlStatement) -> None:
    if statement.schema.lower() not in {"", DEFAULT_SCHEMA}:
        raise UnsupportedOperationError(
            "catalog", statement.catalog, "a schema for the session: name the schema of each table"
        )
