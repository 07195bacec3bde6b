"""Conditions on stored values: what a predicate comes down to, whatever evaluates it.

A condition is true for every row that the predicate keeps, and maybe for more. There is
no negation and no NULL here: a row either meets a condition or does not, and a value
that is NULL meets none but `Null`. So any part may be replaced by `ANYTHING`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.spark.predicates.patterns import Pattern
from sparkport.spark.predicates.targets import ColumnTarget


@dataclass(frozen=True, slots=True)
class Truth:
    """Met by every row, or by none."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """Met by values in this relation to a literal of the storage type; NaN is the greatest float."""

    target: ColumnTarget
    operator: ComparisonOperator
    literal: pa.Scalar


@dataclass(frozen=True, slots=True)
class Member:
    """Met by values that equal one of the literals or, if negated, none."""

    target: ColumnTarget
    literals: tuple[pa.Scalar, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Null:
    """Met by NULL or, if negated, by all else."""

    target: ColumnTarget
    negated: bool


@dataclass(frozen=True, slots=True)
class Matches:
    """Met by texts that match a pattern or, if negated, do not."""

    target: ColumnTarget
    pattern: Pattern
    negated: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Met where all parts are."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Met where any part is."""

    parts: tuple[Condition, ...]


Condition = Truth | Compare | Member | Null | Matches | AllOf | AnyOf

ANYTHING = Truth(True)
NOTHING = Truth(False)


def all_of(parts: Iterable[Condition]) -> Condition:
    """Return the condition that all parts are met, as short as it gets."""
    kept = [part for part in _flat(parts, AllOf) if part != ANYTHING]
    if NOTHING in kept:
        return NOTHING
    kept = list(_gather(kept, ComparisonOperator.NOT_EQUAL))
    match kept:
        case []:
            return ANYTHING
        case [single]:
            return single
        case _:
            return AllOf(tuple(kept))


def any_of(parts: Iterable[Condition]) -> Condition:
    """Return the condition that any part is met, as short as it gets."""
    kept = [part for part in _flat(parts, AnyOf) if part != NOTHING]
    if ANYTHING in kept:
        return ANYTHING
    kept = list(_gather(kept, ComparisonOperator.EQUAL))
    match kept:
        case []:
            return NOTHING
        case [single]:
            return single
        case _:
            return AnyOf(tuple(kept))


def size(condition: Condition) -> int:
    """Return how many tests the condition has."""
    return sum(map(size, condition.parts)) if isinstance(condition, AllOf | AnyOf) else 1


def _flat(parts: Iterable[Condition], kind: type[AllOf | AnyOf]) -> Iterator[Condition]:
    for part in parts:
        if isinstance(part, AllOf | AnyOf) and isinstance(part, kind):
            yield from part.parts
        else:
            yield part


def _gather(parts: list[Condition], operator: ComparisonOperator) -> Iterator[Condition]:
    """Yield the parts with the tests of one column against several literals made one."""
    groups: dict[tuple[str, ...], list[Compare]] = {}
    for part in parts:
        if isinstance(part, Compare) and part.operator is operator:
            groups.setdefault(part.target.path, []).append(part)
        else:
            yield part
    for group in groups.values():
        if len(group) == 1:
            yield group[0]
        else:
            literals = tuple(dict.fromkeys(part.literal for part in group))
            yield Member(group[0].target, literals, negated=operator is ComparisonOperator.NOT_EQUAL)
