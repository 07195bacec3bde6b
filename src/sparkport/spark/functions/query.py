"""`query`: one statement of Spark SQL that reads tables of the warehouse."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.lookup import find_schema, find_table
from sparkport.catalog.parameters import Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError, NotFoundError, PreconditionError
from sparkport.spark.engine import Engine
from sparkport.spark.functions.query_session import QuerySessions, Table, check_plain
from sparkport.spark.session_table import exact_schema, scan_query
from sparkport.spark.table import DeltaTable
from sparkport.spark.warehouse import DEFAULT_SCHEMA

_SIGNATURE = FunctionSignature((Parameter("sql", pa.string()),))
_NAME = "query"
_COMMENT = "The result of one query of Spark SQL over tables of the warehouse"
_SPARK_CATALOG = "spark_catalog"


class Query:
    """Lets Spark run a query, whose columns are known from its analysis.

    A column that is passed on as it is keeps the type that clients know it by; one that is
    computed has the type that Spark gives it. Tables are read at their newest version.
    """

    name = _NAME
    comment = _COMMENT
    signature = _SIGNATURE

    def __init__(self, engine: Engine, catalog: Catalog, sessions: QuerySessions) -> None:
        self._engine = engine
        self._catalog = catalog
        self._sessions = sessions

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns of the query, which is analysed for it but not run."""
        return _shown(self._spark_schema(call, parameters))

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Run the query."""
        spark_schema = self._spark_schema(call, parameters)
        _shown(spark_schema)
        read = functools.partial(self._frame, call, _text(parameters))
        return scan_query(self._engine, call, _NAME, read, spark_schema, options)

    def _spark_schema(self, call: Call, parameters: Sequence[Any]) -> str:
        sql = _text(parameters)
        return self._engine.jobs.run(
            call, _NAME, lambda session: self._frame(call, sql, session).schema.json()
        )

    def _frame(self, call: Call, sql: str, session: SparkSession) -> DataFrame:
        return self._sessions.beside(session).frame(sql, functools.partial(self._find, call))

    def _find(self, call: Call, name: tuple[str, ...]) -> tuple[Table, str]:
        """Return the table of the warehouse that a name in a query means."""
        match name:
            case (table,):
                schema = DEFAULT_SCHEMA
            case (schema, table):
                pass
            case (catalog, schema, table) if catalog.lower() == _SPARK_CATALOG:
                pass
            case _:
                raise NotFoundError("table", ".".join(name))
        found = find_table(call, find_schema(call, self._catalog, schema), table)
        assert isinstance(found, DeltaTable)
        check_plain(found.schema)
        check_plain(found.name)
        return (found.schema, found.name), found.root


class NoQuery:
    """Stands where `query` would be: it is not listed, and says how it is switched on."""

    name = _NAME
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


def _text(parameters: Sequence[Any]) -> str:
    sql = parameters[0]
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidRequestError("query needs a statement")
    return sql


def _shown(spark_schema: str) -> pa.Schema:
    arrow_schema = exact_schema(spark_schema)
    names = [name.lower() for name in arrow_schema.names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidRequestError(f"the query has two columns named '{twice}': give one another name with AS")
    if not names:
        raise InvalidRequestError("the query has no columns that can be shown")
    return arrow_schema
