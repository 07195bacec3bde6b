"""Evaluate the SQL expressions that clients attach to tables: CHECK, DEFAULT and USING."""

from sparkport.expressions.evaluation import (
    Constraint,
    evaluate,
    evaluate_constant,
    parse_constraint,
    quote,
    referenced_columns,
    rename_column,
)

__all__ = [
    "Constraint",
    "evaluate",
    "evaluate_constant",
    "parse_constraint",
    "quote",
    "referenced_columns",
    "rename_column",
]
