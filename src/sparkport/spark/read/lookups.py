"""Filters that ask for single values of a column: how many rows of a file they may leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sparkport.catalog.predicates import And, Column, Comparison, ComparisonOperator, Constant, Expression, In
from sparkport.spark.delta.log.actions import DataFile
from sparkport.spark.delta.statistics import StoredColumn, bounds
from sparkport.spark.model.columns import TableColumn

_FEW_ROWS = 100


def leaves_few_rows(predicate: Expression | None, columns: Sequence[TableColumn], file: DataFile) -> bool:
    """Return whether hardly a row of a file can match, if whole numbers are about evenly spread in it."""
    parts = predicate.children if isinstance(predicate, And) else (predicate,)
    for part in parts:
        for name, count in _values_asked_for(part):
            column = next((column for column in columns if column.exact.name == name), None)
            share = None if column is None else _share_of_value(file, column)
            if share is not None and (file.physical_rows or 0) * count * share <= _FEW_ROWS:
                return True
    return False


def _values_asked_for(predicate: Expression | None) -> Iterator[tuple[str, int]]:
    """Yield the column that has to have one of some values, and how many these are."""
    match predicate:
        case Comparison(ComparisonOperator.EQUAL, Column(name), Constant()):
            yield name, 1
        case Comparison(ComparisonOperator.EQUAL, Constant(), Column(name)):
            yield name, 1
        case In(Column(name), options):
            yield name, len(options)


def _share_of_value(file: DataFile, column: TableColumn) -> float | None:
    """Return the share of the rows that have one value, if all are as frequent; None where nobody knows."""
    if not file.physical_rows or not pa.types.is_integer(column.stored.type) or column.is_partition:
        return None
    known = bounds(file, StoredColumn((column.physical.name,), column.stored.type))
    if known.minimum is None or known.maximum is None:
        return None
    lowest: int = known.minimum.as_py()
    highest: int = known.maximum.as_py()
    return 1 / max(1, highest - lowest + 1)
