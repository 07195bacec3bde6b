"""Comparisons of floats in Spark SQL.

Spark compares floats as DuckDB does. But it also skips parts of files by their
statistics, which leave NaN out if another engine wrote them, and which take the two
zeros for different values. `isnan` keeps Spark from that, and ranges include both zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.predicates.sql_words import literal

_MET_BY_NAN = {
    ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.GREATER,
    ComparisonOperator.GREATER_OR_EQUAL,
}


def compare_float(name: str, relation: ComparisonOperator, value: pa.Scalar) -> str:
    """Return the comparison of a column with a float."""
    if math.isnan(value.as_py()):
        return _compare_nan(name, relation)
    compared = (
        _compare_zero(name, relation, value.type) if value.as_py() == 0 else _plain(name, relation, value)
    )
    return f"({compared} OR isnan({name}))" if relation in _MET_BY_NAN else compared


def is_member_float(name: str, values: Sequence[pa.Scalar], *, negated: bool) -> str:
    """Return the test whether a column is one of several floats, or none."""
    relation = ComparisonOperator.NOT_EQUAL if negated else ComparisonOperator.EQUAL
    tests = [compare_float(name, relation, value) for value in values if _is_special(value)]
    numbers = [str(literal(value)) for value in values if not _is_special(value)]
    if numbers and negated:
        tests.append(f"({name} NOT IN ({', '.join(numbers)}) OR isnan({name}))")
    elif numbers:
        tests.append(f"{name} IN ({', '.join(numbers)})")
    return f"({(' AND ' if negated else ' OR ').join(tests)})"


def _is_special(value: pa.Scalar) -> bool:
    return math.isnan(value.as_py()) or value.as_py() == 0


def _plain(name: str, relation: ComparisonOperator, value: pa.Scalar) -> str:
    return f"{name} {relation} {literal(value)}"


def _compare_nan(name: str, relation: ComparisonOperator) -> str:
    match relation:
        case ComparisonOperator.EQUAL | ComparisonOperator.GREATER_OR_EQUAL:
            return f"isnan({name})"
        case ComparisonOperator.NOT_EQUAL | ComparisonOperator.LESS:
            # isnan(NULL) is false.
            return f"({name} IS NOT NULL AND NOT isnan({name}))"
        case ComparisonOperator.LESS_OR_EQUAL:
            return f"{name} IS NOT NULL"
        case _:
            return "false"


def _compare_zero(name: str, relation: ComparisonOperator, kind: pa.DataType) -> str:
    negative, positive = pa.scalar(-0.0, kind), pa.scalar(0.0, kind)
    match relation:
        case ComparisonOperator.EQUAL:
            least = _plain(name, ComparisonOperator.GREATER_OR_EQUAL, negative)
            return f"({least} AND {_plain(name, ComparisonOperator.LESS_OR_EQUAL, positive)})"
        case ComparisonOperator.NOT_EQUAL:
            below = _plain(name, ComparisonOperator.LESS, negative)
            return f"{below} OR {_plain(name, ComparisonOperator.GREATER, positive)}"
        case ComparisonOperator.LESS | ComparisonOperator.GREATER_OR_EQUAL:
            return _plain(name, relation, negative)
        case _:
            return _plain(name, relation, positive)
