"""ALTER TABLE through Spark Connect, which has no Delta transactions: what Spark's SQL can express."""

from __future__ import annotations

import functools
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sparkport.catalog.ddl import (
    AddColumn,
    AddConstraint,
    DropNotNull,
    RemoveColumn,
    RenameColumn,
    SetComment,
    TableChange,
)
from sparkport.errors import UnsupportedOperationError
from sparkport.expressions.alterations import Alteration
from sparkport.spark.delta.log.snapshots import DeltaSnapshot
from sparkport.spark.delta.log.spark_fields import SparkField, struct_json
from sparkport.spark.model.constraints import constraint_properties, own_constraints
from sparkport.spark.session.jobs import Work
from sparkport.spark.sql_names import literal, quoted
from sparkport.spark.types import spark_field


class Named(Protocol):
    """A table to alter."""

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        raise NotImplementedError

    @property
    def root(self) -> str:
        """The table's folder."""
        raise NotImplementedError


def work(table: Named, snapshot: DeltaSnapshot, alteration: Alteration, change: TableChange) -> Work[None]:
    """Return work that makes the change in one commit. Raises UnsupportedOperationError if SQL cannot."""
    target = f"ALTER TABLE delta.{quoted(table.root)}"
    changed = alteration.shape.constraints != own_constraints(snapshot.metadata)
    match change:
        case AddColumn(column) if column.nullable and (alteration.filled is None or not snapshot.files):
            # An empty append that widens the schema keeps the column's metadata; SQL would not.
            return functools.partial(_widen, table.root, spark_field(column))
        case RemoveColumn(name) if not changed:
            return functools.partial(_run, f"{target} DROP COLUMN {quoted(name)}")
        case RenameColumn(old, new) if not changed:
            return functools.partial(_run, f"{target} RENAME COLUMN {quoted(old)} TO {quoted(new)}")
        case DropNotNull(name):
            return functools.partial(_run, f"{target} ALTER COLUMN {quoted(name)} DROP NOT NULL")
        case SetComment(comment, None):
            return functools.partial(
                _run, f"COMMENT ON TABLE delta.{quoted(table.root)} IS {literal(comment)}"
            )
        case SetComment(comment, str(name)):
            return functools.partial(_run, f"{target} ALTER COLUMN {quoted(name)} COMMENT {literal(comment)}")
        case AddConstraint() if not alteration.checks_nulls:
            ((key, text),) = constraint_properties(alteration.shape.constraints).items()
            return functools.partial(_run, f"{target} SET TBLPROPERTIES ({literal(key)} = {literal(text)})")
        case _:
            raise UnsupportedOperationError(
                "table", table.name, f"this change ({type(change).__name__}) over Spark Connect"
            )


def _run(statement: str, session: SparkSession) -> None:
    session.sql(statement).collect()


def _widen(root: str, field: SparkField, session: SparkSession) -> None:
    schema = StructType.fromJson(struct_json([field]))
    writer = session.createDataFrame([], schema).write.format("delta").mode("append")
    writer.option("mergeSchema", "true").save(root)
