"""Build the Spark queries that return the stored values of columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, expr, lit, monotonically_increasing_id

from sparkport.catalog.predicates import Expression
from sparkport.catalog.rowid import is_rowid
from sparkport.spark.model.columns import TableColumn
from sparkport.spark.predicates import spark_sql
from sparkport.spark.row_ids.provisional import OF_ALL_FILES
from sparkport.spark.sql_names import quoted


def delta_query(
    root: str,
    version: int,
    columns: Sequence[TableColumn],
    wanted: Sequence[TableColumn],
    predicate: Expression | None,
    session: SparkSession,
    *,
    lacks_ids: bool = False,
) -> DataFrame:
    """Return the query of one version of a Delta table; rows that lack ids get numbers in their place."""
    frame = session.read.format("delta").option("versionAsOf", version).load(root)
    if lacks_ids:
        frame = _numbered(frame, next(column for column in columns if is_rowid(column.exact)))
    return narrowed(frame, columns, wanted, predicate)


def _numbered(frame: DataFrame, column: TableColumn) -> DataFrame:
    number = lit(OF_ALL_FILES) - monotonically_increasing_id()
    quoted_name = quoted(column.logical)
    return frame.withColumn(
        column.logical, number if column.is_absent else coalesce(col(quoted_name), number)
    )


def narrowed(
    frame: DataFrame,
    columns: Sequence[TableColumn],
    wanted: Sequence[TableColumn],
    predicate: Expression | None,
) -> DataFrame:
    """Return the wanted columns of the rows that may match, under names that cannot clash."""
    targets = {
        column.exact.name: column.target(by_logical_name=True) for column in columns if column.is_as_stored
    }
    condition = spark_sql(predicate, targets)
    if condition is not None:
        frame = frame.filter(expr(condition))
    if not wanted:
        return frame.select(lit(True).alias("c"))  # Arrow batches of Spark's need a column to have rows
    return frame.select(*(_stored(column).alias(f"c{i}") for i, column in enumerate(wanted)))


def _stored(column: TableColumn) -> Column:
    value = col(quoted(column.logical))
    if column.is_text_of_another:
        return value.cast("string")
    if column.is_year_month:
        # pyarrow has no arrays of months.
        return value.cast("interval month").cast("int")
    return value
