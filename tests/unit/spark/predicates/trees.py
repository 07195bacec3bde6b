"""Short ways to write predicates and columns."""

from __future__ import annotations

import pyarrow as pa

from sparkport.catalog.predicates import (
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
)
from sparkport.spark.predicates import ColumnTarget

NAN = float("nan")


def stored(kind: pa.DataType, name: str = "x") -> ColumnTarget:
    """Return a column that is stored as it is."""
    return ColumnTarget(name, kind, pa.field(name, kind), True, True, lambda value: value)


def compared(operator: str, value: object, kind: pa.DataType | None = None) -> Expression:
    """Return a comparison of column `x` with a constant."""
    return Comparison(ComparisonOperator(operator), Column("x"), Constant(pa.scalar(value, kind)))


def called(name: str, *texts: str | None) -> Expression:
    """Return a function of column `x` and texts."""
    return Function(name, (Column("x"), *(Constant(pa.scalar(text, pa.string())) for text in texts)))
