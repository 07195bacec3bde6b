"""Find the files in which no row can match, by what the table's log says of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.predicates.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Matches,
    Member,
    Null,
    Truth,
)
from sparkport.spark.predicates.ordering import SortKey, in_relation, sort_key
from sparkport.spark.predicates.targets import ColumnTarget

_NAN: SortKey = (True, 0.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of a column's values in one file; None where nothing is.

    Values are of the storage type. No value is less than the minimum; none is greater than
    the maximum, save NaN. Neither needs to occur.
    """

    minimum: pa.Scalar | None = None
    maximum: pa.Scalar | None = None
    null_count: int | None = None
    row_count: int | None = None

    @property
    def only_nulls(self) -> bool:
        """Return whether it is known that there is no value."""
        return (
            self.null_count is not None and self.row_count is not None and self.null_count >= self.row_count
        )


def may_match(condition: Condition, bounds: Callable[[tuple[str, ...]], Bounds]) -> bool:
    """Return whether a row of a file may meet the condition; `bounds` answers for a physical path."""
    match condition:
        case Truth(value):
            return value
        case AllOf(parts):
            return all(may_match(part, bounds) for part in parts)
        case AnyOf(parts):
            return any(may_match(part, bounds) for part in parts)
        case Null(target, negated):
            known = bounds(target.path)
            return not known.only_nulls if negated else known.null_count != 0
        case Compare(target, relation, literal):
            return _Range.of(target, bounds(target.path)).may_have(relation, literal)
        case Member(target, literals, negated):
            values = _Range.of(target, bounds(target.path))
            if negated:
                return all(values.may_have(ComparisonOperator.NOT_EQUAL, literal) for literal in literals)
            return any(values.may_have(ComparisonOperator.EQUAL, literal) for literal in literals)
        case Matches(target):
            return not bounds(target.path).only_nulls


@dataclass(frozen=True, slots=True)
class _Range:
    """The values that a file may have, from the least to the greatest; None is open."""

    least: SortKey | None
    greatest: SortKey | None
    empty: bool
    has_nan: bool

    @classmethod
    def of(cls, target: ColumnTarget, bounds: Bounds) -> _Range:
        least, greatest = _key(bounds.minimum, target), _key(bounds.maximum, target)
        # A minimum of NaN is that of a writer who does not order NaN.
        least = None if least == _NAN else least
        return cls(least, greatest, bounds.only_nulls, target.is_float)

    def may_have(self, relation: ComparisonOperator, literal: pa.Scalar) -> bool:
        """Return whether a value may be in this relation to the literal."""
        if self.empty:
            return False
        if (key := sort_key(literal)) is None:
            return True
        if self.has_nan and in_relation(relation, _NAN, key):
            return True
        match relation:
            case ComparisonOperator.LESS | ComparisonOperator.LESS_OR_EQUAL:
                return self.least is None or in_relation(relation, self.least, key)
            case ComparisonOperator.GREATER | ComparisonOperator.GREATER_OR_EQUAL:
                return self.greatest is None or in_relation(relation, self.greatest, key)
            case ComparisonOperator.NOT_EQUAL:
                return not self.least == self.greatest == key
            case _:
                above = self.least is None or in_relation(ComparisonOperator.LESS_OR_EQUAL, self.least, key)
                return above and (
                    self.greatest is None
                    or in_relation(ComparisonOperator.GREATER_OR_EQUAL, self.greatest, key)
                )


def _key(bound: pa.Scalar | None, target: ColumnTarget) -> SortKey | None:
    """Return the bound if it can be compared with literals."""
    return sort_key(bound) if bound is not None and bound.type == target.storage else None
