"""`table_changes`: the change feed of a Delta table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sparkport.catalog.call import Call
from sparkport.catalog.functions import FunctionSignature
from sparkport.catalog.parameters import ANY, Parameter
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog
from sparkport.errors import InvalidRequestError
from sparkport.spark.engine import Engine
from sparkport.spark.external.table import exact_schema, scan_query
from sparkport.spark.functions.names import delta_table

_FEED = {"readChangeFeed": "true"}


class TableChanges:
    """The rows that were inserted, updated and deleted between two versions or moments, both included."""

    name = "table_changes"
    comment = "The changes of a Delta table between two versions or moments, from its change data feed"
    signature = FunctionSignature(
        (Parameter("table", pa.string()), Parameter("from", ANY), Parameter("to", ANY, default=None))
    )

    def __init__(self, engine: Engine, catalog: Catalog) -> None:
        self._engine = engine
        self._catalog = catalog

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the table's columns and the three of the feed."""
        return exact_schema(self._spark_schema(call, parameters))

    def execute(self, call: Call, parameters: Sequence[Any], options: ScanOptions) -> pa.RecordBatchReader:
        """Let Spark read the feed."""
        table = delta_table(call, self._catalog, parameters[0])
        read = functools.partial(_feed, table.root, _bounds(parameters))
        spark_schema = self._spark_schema(call, parameters)
        return scan_query(self._engine, call, str(table), read, spark_schema, options)

    def _spark_schema(self, call: Call, parameters: Sequence[Any]) -> str:
        table = delta_table(call, self._catalog, parameters[0])
        bounds = _bounds(parameters)
        return self._engine.jobs.run(
            call, str(table), lambda session: _feed(table.root, bounds, session).schema.json()
        )


def _feed(root: str, bounds: Mapping[str, str], session: SparkSession) -> DataFrame:
    return session.read.format("delta").options(**_FEED, **bounds).load(root)


def _bounds(parameters: Sequence[Any]) -> dict[str, str]:
    start = _bound("starting", parameters[1])
    end = None if len(parameters) < 3 else _bound("ending", parameters[2])  # noqa: PLR2004
    if start is None:
        raise InvalidRequestError("the changes need a version or a time to begin at")
    return dict([start] if end is None else [start, end])


def _bound(side: str, scalar: pa.Scalar | None) -> tuple[str, str] | None:
    """Return the option for one end: numbers are versions, and all else is a time."""
    if scalar is not None and pa.types.is_timestamp(scalar.type):
        scalar = scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False)  # Python knows no nanoseconds
    value = None if scalar is None else scalar.as_py()
    match value:
        case None:
            return None
        case bool():
            pass
        case int():
            if 0 <= value < 1 << 63:
                return f"{side}Version", str(value)
            raise InvalidRequestError(f"there is no version {value}: versions count from 0")
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f"{side}Timestamp", moment.isoformat(sep=" ")
        case date():
            return f"{side}Timestamp", f"{value.isoformat()} 00:00:00"
        case str():
            return f"{side}Timestamp", value
    raise InvalidRequestError(f"{value!r} is neither a version nor a time")
