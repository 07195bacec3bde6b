"""Predicates as Spark SQL text.

Nothing in it can fail on a row, whatever the session's ANSI mode.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkport.catalog.predicates import Expression
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
from sparkport.spark.predicates.patterns import PatternKind
from sparkport.spark.predicates.sql_floats import compare_float, is_member_float
from sparkport.spark.predicates.sql_words import identifier, literal, text_literal
from sparkport.spark.predicates.targets import ColumnTarget
from sparkport.spark.predicates.translation import translate

_TESTS = {
    PatternKind.PREFIX: "startswith({}, {})",
    PatternKind.SUFFIX: "endswith({}, {})",
    PatternKind.PART: "contains({}, {})",
    PatternKind.REGEX: "{} RLIKE {}",
}


def spark_sql(predicate: Expression | None, columns: Mapping[str, ColumnTarget]) -> str | None:
    """Return a filter that keeps every row for which the predicate is true; None to keep all rows."""
    return _sql(translate(predicate, columns))


def _sql(condition: Condition) -> str | None:
    match condition:
        case Truth(value):
            return None if value else "false"
        case AllOf(parts):
            conditions = [text for part in parts if (text := _sql(part)) is not None]
            return f"({' AND '.join(conditions)})" if conditions else None
        case AnyOf(parts):
            branches = [text for part in parts if (text := _sql(part)) is not None]
            return f"({' OR '.join(branches)})" if len(branches) == len(parts) else None
        case Null(target, negated):
            name = identifier(*target.path)
            return None if name is None else f"{name} IS {'NOT ' if negated else ''}NULL"
        case Compare(target, relation, value):
            name, text = identifier(*target.path), literal(value)
            if name is None or text is None:
                return None
            return compare_float(name, relation, value) if target.is_float else f"{name} {relation} {text}"
        case Member(target, values, negated):
            name, texts = identifier(*target.path), [literal(value) for value in values]
            options = [text for text in texts if text is not None]
            if name is None or len(options) < len(texts):
                return None
            if target.is_float:
                return is_member_float(name, values, negated=negated)
            return f"{name} {'NOT ' if negated else ''}IN ({', '.join(options)})"
        case Matches(target, pattern, negated):
            if (name := identifier(*target.path)) is None:
                return None
            test = _TESTS[pattern.kind].format(name, text_literal(pattern.text))
            return f"NOT ({test})" if negated else test
