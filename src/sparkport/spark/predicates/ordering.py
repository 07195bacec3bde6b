"""The order of scalars, as DuckDB and Spark have it: NaN is the greatest, and zero has no sign."""

from __future__ import annotations

import math
import operator
from typing import Any

import pyarrow as pa
from pyarrow import types

from sparkport.catalog.predicates import ComparisonOperator

SortKey = tuple[bool, object]

_RELATIONS = {
    ComparisonOperator.EQUAL: operator.eq,
    ComparisonOperator.NOT_EQUAL: operator.ne,
    ComparisonOperator.LESS: operator.lt,
    ComparisonOperator.LESS_OR_EQUAL: operator.le,
    ComparisonOperator.GREATER: operator.gt,
    ComparisonOperator.GREATER_OR_EQUAL: operator.ge,
}


def sort_key(scalar: pa.Scalar) -> SortKey | None:
    """Return what sorts like the scalar among scalars of its type; None for NULL and unordered types."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_temporal(kind):
        # Python's own dates end with the year 9999.
        return None if types.is_interval(kind) else (False, scalar.value)
    if types.is_floating(kind):
        value = float(scalar.as_py())
        return (True, 0.0) if math.isnan(value) else (False, value)
    if types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    return False, scalar.as_py()


def in_relation(relation: ComparisonOperator, left: Any, right: Any) -> bool:  # noqa: ANN401 (what is compared compares itself)
    """Compare two sort keys of one type."""
    return bool(_RELATIONS[relation](left, right))
