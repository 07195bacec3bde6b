"""Bring a predicate down to conditions on stored values.

Each part is asked two questions: for which rows may it be true, and for which false?
That makes NOT a change of the question, and takes three-valued logic out of all that
follows. What cannot be answered is answered with every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from sparkport.catalog.predicates import (
    And,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Function,
    In,
    IsNull,
    Not,
    Or,
    Unknown,
)
from sparkport.spark.predicates import patterns
from sparkport.spark.predicates.conditions import (
    ANYTHING,
    NOTHING,
    Compare,
    Condition,
    Matches,
    Null,
    Truth,
    all_of,
    any_of,
)
from sparkport.spark.predicates.constants import constants_relate, fit, is_text
from sparkport.spark.predicates.numeric_grid import grid
from sparkport.spark.predicates.patterns import Pattern
from sparkport.spark.predicates.targets import ColumnTarget

_OPPOSITES = {
    ComparisonOperator.EQUAL: ComparisonOperator.NOT_EQUAL,
    ComparisonOperator.NOT_EQUAL: ComparisonOperator.EQUAL,
    ComparisonOperator.LESS: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER,
    ComparisonOperator.GREATER: ComparisonOperator.LESS_OR_EQUAL,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS,
    ComparisonOperator.DISTINCT: ComparisonOperator.NOT_DISTINCT,
    ComparisonOperator.NOT_DISTINCT: ComparisonOperator.DISTINCT,
}
_MIRRORED = {
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}
_EQUALITIES = {ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL}
_NULL_AWARE = {ComparisonOperator.DISTINCT, ComparisonOperator.NOT_DISTINCT}
_TEXT_TESTS: dict[tuple[str, int], tuple[Callable[..., Pattern | None], bool]] = {
    ("prefix", 1): (patterns.prefix, True),
    ("starts_with", 1): (patterns.prefix, True),
    ("^@", 1): (patterns.prefix, True),
    ("suffix", 1): (patterns.suffix, True),
    ("ends_with", 1): (patterns.suffix, True),
    ("contains", 1): (patterns.part, True),
    ("~~", 1): (patterns.like, True),
    ("!~~", 1): (patterns.like, False),
    ("like_escape", 2): (patterns.like, True),
    ("not_like_escape", 2): (patterns.like, False),
    ("~~*", 1): (patterns.ilike, True),
    ("!~~*", 1): (patterns.ilike, False),
}
_CASE_MAPPINGS: dict[str, tuple[Callable[[str], str], Callable[[str], Pattern | None]]] = {
    "lower": (str.lower, patterns.lower_pattern),
    "lcase": (str.lower, patterns.lower_pattern),
    "upper": (str.upper, patterns.upper_pattern),
    "ucase": (str.upper, patterns.upper_pattern),
}


def translate(predicate: Expression | None, columns: Mapping[str, ColumnTarget]) -> Condition:
    """Return a condition that every row meets for which the predicate is true."""
    return ANYTHING if predicate is None else _Translation(columns).outcome(predicate, True)


@dataclass(frozen=True, slots=True)
class _Translation:
    """The columns by the names that a predicate uses."""

    columns: Mapping[str, ColumnTarget]

    def outcome(self, expression: Expression, wanted: bool) -> Condition:
        """Return a condition that every row meets for which the expression is true, or is false."""
        match expression:
            case And(parts):
                return (all_of if wanted else any_of)(self.outcome(part, wanted) for part in parts)
            case Or(parts):
                return (any_of if wanted else all_of)(self.outcome(part, wanted) for part in parts)
            case Not(child):
                return self.outcome(child, not wanted)
            case Constant(value):
                return Truth(value.as_py() is wanted) if types.is_boolean(value.type) else ANYTHING
            case Comparison(operator, left, right):
                return self.comparison(operator if wanted else _OPPOSITES[operator], left, right)
            case In(child, options):
                operator = ComparisonOperator.EQUAL if wanted else ComparisonOperator.NOT_EQUAL
                tests = (self.comparison(operator, child, option) for option in options)
                return any_of(tests) if wanted else all_of(tests)
            case IsNull(child):
                target = self.target(child)
                return ANYTHING if target is None else _null(target, negated=not wanted)
            case Case(branches, otherwise):
                return any_of(
                    [
                        *(self.both((condition, True), (value, wanted)) for condition, value in branches),
                        self.outcome(otherwise, wanted),
                    ]
                )
            case Coalesce(parts):
                return any_of(self.outcome(part, wanted) for part in parts)
            case Function(name, arguments) if name not in {"struct_extract", "array_extract"}:
                return self.test(name, arguments, wanted)
            case Column() | Function():
                return self.comparison(ComparisonOperator.EQUAL, expression, Constant(pa.scalar(wanted)))
            case Cast() | Unknown():
                return ANYTHING

    def both(self, *parts: tuple[Expression, bool]) -> Condition:
        return all_of(self.outcome(expression, wanted) for expression, wanted in parts)

    def comparison(self, operator: ComparisonOperator, left: Expression, right: Expression) -> Condition:
        """Return the condition that a comparison is true."""
        match left, right:
            case Constant(first), Constant(second):
                return _constant_comparison(operator, first, second)
            case Constant(), _:
                return self.comparison(_MIRRORED.get(operator, operator), right, left)
            case Case(branches, otherwise), Constant():
                chosen = [
                    all_of([self.outcome(condition, True), self.comparison(operator, value, right)])
                    for condition, value in branches
                ]
                return any_of([*chosen, self.comparison(operator, otherwise, right)])
            case Coalesce(parts), Constant():
                return any_of(
                    all_of(
                        [
                            *(self.outcome(IsNull(earlier), True) for earlier in parts[:position]),
                            self.comparison(operator, part, right),
                        ]
                    )
                    for position, part in enumerate(parts)
                )
            case Function(name, (argument,)), Constant(constant) if name in _CASE_MAPPINGS:
                return self.mapped_case(operator, name, argument, constant)
            case _, Constant(constant):
                target = self.target(left, constant.type)
                return ANYTHING if target is None else _test(operator, target, constant)
            case _:
                return ANYTHING

    def target(self, expression: Expression, compared: pa.DataType | None = None) -> ColumnTarget | None:
        """Return where the values are stored; compared with a constant, a cast may be left out."""
        match expression:
            case Column(name):
                return self.columns.get(name)
            case Function("struct_extract" | "array_extract", (child, Constant(key))) if is_text(key.type):
                struct = self.target(child)
                return struct.member(key.as_py()) if struct is not None and key.is_valid else None
            case Cast(child, kind, lenient) if compared == kind:
                target = self.target(child)
                return target if target is not None and _keeps_values(target.kind, kind, lenient) else None
            case _:
                return None

    def test(self, name: str, arguments: tuple[Expression, ...], wanted: bool) -> Condition:
        """Return the condition that a function is true, or is false."""
        match name, arguments:
            case ("isnan", (child,)):
                nan = Constant(pa.scalar(float("nan")))
                operator = ComparisonOperator.EQUAL if wanted else ComparisonOperator.NOT_EQUAL
                target = self.target(child)
                return self.comparison(operator, child, nan) if target and target.is_float else ANYTHING
            case ("constant_or_null", (value, *others)):
                columns = [other for other in others if not isinstance(other, Constant)]
                return self.both((value, wanted), *((IsNull(other), False) for other in columns))
            case (_, (child, *options)) if (name, len(options)) in _TEXT_TESTS:
                read, positive = _TEXT_TESTS[name, len(options)]
                target, texts = self.target(child), _texts(options)
                if target is None or texts is None or not _is_plain_text(target):
                    return ANYTHING
                if None in texts:
                    return NOTHING
                return _matches(target, read(*texts), negated=positive is not wanted)
            case _:
                return ANYTHING

    def mapped_case(
        self, operator: ComparisonOperator, name: str, argument: Expression, constant: pa.Scalar
    ) -> Condition:
        """Return the condition that lower() or upper() of a text equals a constant, or does not."""
        target = self.target(argument)
        if target is None or not _is_plain_text(target) or not is_text(constant.type):
            return ANYTHING
        if operator not in _EQUALITIES or not constant.is_valid or not constant.as_py().isascii():
            return ANYTHING
        mapped, read = _CASE_MAPPINGS[name]
        text, negated = constant.as_py(), operator is ComparisonOperator.NOT_EQUAL
        if mapped(text) != text:
            return _null(target, negated=True) if negated else NOTHING
        return _matches(target, read(text), negated=negated)


def _constant_comparison(operator: ComparisonOperator, left: pa.Scalar, right: pa.Scalar) -> Condition:
    if operator in _NULL_AWARE:
        if not (left.is_valid and right.is_valid):
            return Truth((left.is_valid != right.is_valid) is (operator is ComparisonOperator.DISTINCT))
        operator = _without_null(operator)
    if not (left.is_valid and right.is_valid):
        return NOTHING
    outcome = constants_relate(operator, left, right)
    return ANYTHING if outcome is None else Truth(outcome)


def _without_null(operator: ComparisonOperator) -> ComparisonOperator:
    if operator is ComparisonOperator.DISTINCT:
        return ComparisonOperator.NOT_EQUAL
    return ComparisonOperator.EQUAL


def _test(operator: ComparisonOperator, target: ColumnTarget, constant: pa.Scalar) -> Condition:
    """Return the condition that a stored value compares so with a constant."""
    if operator not in _NULL_AWARE:
        return _compare(operator, target, constant) if constant.is_valid else NOTHING
    distinct = operator is ComparisonOperator.DISTINCT
    if not constant.is_valid:
        return _null(target, negated=distinct)
    compared = _compare(_without_null(operator), target, constant)
    return any_of([_null(target, negated=False), compared]) if distinct else compared


def _compare(operator: ComparisonOperator, target: ColumnTarget, constant: pa.Scalar) -> Condition:
    match fit(operator, constant, target.kind):
        case None:
            return ANYTHING
        case True:
            return _null(target, negated=True)
        case False:
            return NOTHING
        case (changed, scalar):
            keeps = target.equality if changed in _EQUALITIES else target.order
            literal = target.encode(scalar) if keeps and not target.is_disguised else None
            # Tables of others may store a type otherwise than we would.
            if literal is None or literal.type != target.storage:
                return ANYTHING
            return Compare(target, changed, literal)


def _null(target: ColumnTarget, *, negated: bool) -> Condition:
    # The nulls of a union are those of its members.
    return ANYTHING if types.is_union(target.kind) else Null(target, negated)


def _matches(target: ColumnTarget, pattern: Pattern | None, *, negated: bool) -> Condition:
    if pattern is None:
        return ANYTHING
    matches = Matches(target, pattern, negated)
    if negated or not pattern.start:
        return matches
    # Minima and maxima are of no use for a pattern, but for the range that it implies.
    limits = [_compare(ComparisonOperator.GREATER_OR_EQUAL, target, pa.scalar(pattern.start))]
    if (end := patterns.after(pattern.start)) is not None:
        limits.append(_compare(ComparisonOperator.LESS, target, pa.scalar(end)))
    return all_of([*limits, matches])


def _is_plain_text(target: ColumnTarget) -> bool:
    stored_as_is = is_text(target.kind) and is_text(target.storage) and target.equality
    return stored_as_is and not target.is_disguised


def _texts(arguments: list[Expression]) -> list[str | None] | None:
    """Return the constant texts; None if any argument is something else."""
    texts: list[str | None] = []
    for argument in arguments:
        match argument:
            case Constant(value) if types.is_string(value.type):
                texts.append(value.as_py())
            case _:
                return None
    return texts


def _keeps_values(source: pa.DataType, target: pa.DataType, lenient: bool) -> bool:
    """Return whether a cast gives values that compare with constants as the original values do."""
    if is_text(source) and types.is_string(target):
        return True
    if types.is_floating(target):
        return bool(
            not types.is_float16(target)
            and (types.is_integer(source) or (types.is_float32(source) and types.is_float64(target)))
        )
    before, after = grid(source), grid(target)
    if before is None or after is None:
        return False
    if before.domain == "number":
        # HUGEINT and UHUGEINT look alike, and a TRY_CAST to the latter makes negative numbers NULL.
        return after.covers(before) and not (lenient and types.is_decimal256(target))
    # A date or a coarse timestamp may be too far away: an error, but NULL if lenient.
    finer = (before.step / after.step).denominator == 1
    return before.domain == after.domain and finer and not lenient
