"""Predicates as data: one typed tree, whatever the dialect they came in.

SQL's three-valued logic holds throughout: a row is kept only where the
predicate is true, neither false nor null.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa


class ComparisonOperator(enum.StrEnum):
    """How two values are compared; the last two treat NULL as a value."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    DISTINCT = "is distinct from"
    NOT_DISTINCT = "is not distinct from"


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column of the scanned table."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal with its exact Arrow type; NULL is a null scalar."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two values."""

    operator: ComparisonOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class And:
    """True where all children are."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where any child is."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; null stays null."""

    child: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the child is null; never null itself."""

    child: Expression


@dataclass(frozen=True, slots=True)
class In:
    """Whether the child equals one of the options, as SQL's IN."""

    child: Expression
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion; with `lenient` a failure gives NULL instead of an error."""

    child: Expression
    arrow_type: pa.DataType
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first value that is not null."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A call of a function or operator by DuckDB's name, e.g. `prefix` or `+`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that the decoder does not understand."""

    reason: str


Expression = (
    Column
    | Constant
    | Comparison
    | And
    | Or
    | Not
    | IsNull
    | In
    | Cast
    | Case
    | Coalesce
    | Function
    | Unknown
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of an expression."""
    match expression:
        case Column() | Constant() | Unknown():
            return ()
        case Comparison(_, left, right):
            return (left, right)
        case And(parts) | Or(parts) | Coalesce(parts) | Function(_, parts):
            return parts
        case Not(child) | IsNull(child) | Cast(child):
            return (child,)
        case In(child, options):
            return (child, *options)
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and everything in it."""
    pending = [expression]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(children(part))


def column_names(expression: Expression) -> set[str]:
    """Return the names of all columns that the expression reads."""
    return {part.name for part in walk(expression) if isinstance(part, Column)}


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """Return the parts that must all be true, outer ANDs flattened."""
    match expression:
        case None:
            return ()
        case And(parts):
            return tuple(part for child in parts for part in conjuncts(child))
        case _:
            return (expression,)


def weaken(expression: Expression, understood: Callable[[Expression], bool]) -> Expression | None:
    """Return a predicate that holds wherever `expression` does, of understood parts only.

    `understood` judges a whole subtree. A part that is not understood is dropped
    from an AND; an OR stays only if each of its branches leaves something; all
    else, NOT included, is kept or dropped whole. None means: keep every row.
    """
    match expression:
        case And(parts):
            kept = [weak for part in parts if (weak := weaken(part, understood)) is not None]
            if not kept:
                return None
            return kept[0] if len(kept) == 1 else And(tuple(kept))
        case Or(parts):
            branches = [weaken(part, understood) for part in parts]
            if any(branch is None for branch in branches):
                return None
            return Or(tuple(branch for branch in branches if branch is not None))
        case _:
            return expression if understood(expression) else None
