"""Predicates as Arrow expressions, for readers of Parquet files.

Arrow uses them twice: on the minima and maxima of row groups, where it understands
comparisons of a field with a literal of exactly its type, and on the rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.catalog.predicates import ComparisonOperator, Expression
from sparkport.spark.predicates.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Matches,
    Member,
    Null,
    Truth,
    size,
)
from sparkport.spark.predicates.ordering import sort_key
from sparkport.spark.predicates.patterns import PatternKind
from sparkport.spark.predicates.targets import ColumnTarget
from sparkport.spark.predicates.translation import translate

_OPERATORS: dict[ComparisonOperator, Callable[[Any, Any], Any]] = {
    ComparisonOperator.EQUAL: operator.eq,
    ComparisonOperator.NOT_EQUAL: operator.ne,
    ComparisonOperator.LESS: operator.lt,
    ComparisonOperator.LESS_OR_EQUAL: operator.le,
    ComparisonOperator.GREATER: operator.gt,
    ComparisonOperator.GREATER_OR_EQUAL: operator.ge,
}
_TESTS: dict[PatternKind, Callable[[Any, str], Any]] = {
    PatternKind.PREFIX: pc.starts_with,
    PatternKind.SUFFIX: pc.ends_with,
    PatternKind.PART: pc.match_substring,
    PatternKind.REGEX: pc.match_substring_regex,
}
# Arrow descends into chains of AND and OR recursively, and some thousands end the process.
_MAX_TESTS = 500


def arrow_expression(
    predicate: Expression | None, columns: Mapping[str, ColumnTarget]
) -> pc.Expression | None:
    """Return a filter that keeps every row for which the predicate is true; None to keep all rows."""
    return _expression(translate(predicate, columns))


def _expression(condition: Condition) -> pc.Expression | None:
    match condition:
        case Truth(value):
            return None if value else pc.scalar(False)
        case AllOf(parts):
            expressions = [
                expression for part in _affordable(parts) if (expression := _expression(part)) is not None
            ]
            return _join(operator.and_, expressions) if expressions else None
        case AnyOf(parts):
            if sum(map(size, parts)) > _MAX_TESTS:
                return None
            branches = [expression for part in parts if (expression := _expression(part)) is not None]
            return _join(operator.or_, branches) if len(branches) == len(parts) else None
        case Null(target, negated):
            field = pc.field(*target.path)
            return field.is_valid() if negated else field.is_null()
        case Compare(target, relation, literal):
            if sort_key(literal) is None:
                return None
            compared = _compare_float if target.is_float else _compare
            return compared(pc.field(*target.path), relation, literal)
        case Member(target, literals, negated):
            if any(sort_key(literal) is None for literal in literals):
                return None
            is_member = _is_member_float if target.is_float else _is_member
            return is_member(pc.field(*target.path), literals, negated)
        case Matches(target, pattern, negated):
            matches = _TESTS[pattern.kind](pc.field(*target.path), pattern.text)
            return ~matches if negated else matches


def _affordable(parts: Sequence[Condition]) -> list[Condition]:
    """Return as many parts, the small ones first, as have no more tests than Arrow can take."""
    kept, total = [], 0
    for part in sorted(parts, key=size):
        total += size(part)
        if total <= _MAX_TESTS:
            kept.append(part)
    return kept


def _join(join: Callable[[Any, Any], Any], parts: Sequence[pc.Expression]) -> pc.Expression:
    """Join in halves, so that the expression is shallow."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(_join(join, parts[:middle]), _join(join, parts[middle:]))


def _compare(field: pc.Expression, relation: ComparisonOperator, literal: pa.Scalar) -> pc.Expression:
    return _OPERATORS[relation](field, pc.scalar(literal))


def _is_member(field: pc.Expression, literals: Sequence[pa.Scalar], negated: bool) -> pc.Expression:
    matches = field.isin(pa.array(literals, literals[0].type))
    return field.is_valid() & ~matches if negated else matches


def _is_member_float(field: pc.Expression, literals: Sequence[pa.Scalar], negated: bool) -> pc.Expression:
    """Look a float up: in Arrow's sets the two zeros differ, and NaN is hidden from statistics."""
    kind, values = literals[0].type, [literal.as_py() for literal in literals]
    numbers = [value for value in values if not math.isnan(value)]
    zeros = [0.0, -0.0] if 0.0 in numbers else []
    matches = field.isin(pa.array(numbers + zeros, kind))
    has_nan = len(numbers) < len(values)
    if not negated:
        return matches | _is_nan(field) if has_nan else matches
    others = field.is_valid() & ~matches
    return others & ~field.is_nan() if has_nan else others | _is_nan(field)


def _compare_float(field: pc.Expression, relation: ComparisonOperator, literal: pa.Scalar) -> pc.Expression:
    """Compare with NaN equal to itself and greater than all else, unlike Arrow."""
    if math.isnan(literal.as_py()):
        match relation:
            case ComparisonOperator.EQUAL | ComparisonOperator.GREATER_OR_EQUAL:
                return _is_nan(field)
            case ComparisonOperator.NOT_EQUAL | ComparisonOperator.LESS:
                return ~field.is_nan()
            case ComparisonOperator.LESS_OR_EQUAL:
                return field.is_valid()
            case _:
                return pc.scalar(False)
    compared = _compare(field, relation, literal)
    if relation in {
        ComparisonOperator.NOT_EQUAL,
        ComparisonOperator.GREATER,
        ComparisonOperator.GREATER_OR_EQUAL,
    }:
        return compared | _is_nan(field)
    return compared


def _is_nan(field: pc.Expression) -> pc.Expression:
    """Test for NaN, in a way that no statistics can decide.

    Minima and maxima leave NaN out, yet where both are the same Arrow takes every value of
    the row group to be that one. It does not foresee the outcome of an impure function.
    """
    never = pc.Expression._call("random", [], pc.RandomOptions()) < pc.scalar(-1.0)  # noqa: SLF001
    return field.is_nan() | never
