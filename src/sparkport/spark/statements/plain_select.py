"""A plain SELECT, read from its text: columns of one table, simple conditions, a limit; or constants alone.

Everything else is left to Spark's parser: what is recognised here means the same there.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkport.catalog.predicates import ComparisonOperator
from sparkport.errors import InvalidRequestError
from sparkport.spark.statements.tokens import cursor_of
from sparkport.sql.tokens import Cursor

_MAX_LENGTH = 1 << 14
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED_NAME = re.compile(r"`[^`]+`")
_TEXT = re.compile(r"'[^'\\]*'")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"\d{1,18}")
_MAX_INT = 2**31
# They mean something else than a column or an alias where one could stand.
_WORDS = frozenset({"ALL", "AS", "DISTINCT", "FALSE", "FROM", "LIMIT", "NULL", "SELECT", "TRUE", "WHERE"})
_OPERATORS = {
    "=": ComparisonOperator.EQUAL,
    "==": ComparisonOperator.EQUAL,
    "<>": ComparisonOperator.NOT_EQUAL,
    "!=": ComparisonOperator.NOT_EQUAL,
    "<": ComparisonOperator.LESS,
    "<=": ComparisonOperator.LESS_OR_EQUAL,
    ">": ComparisonOperator.GREATER,
    ">=": ComparisonOperator.GREATER_OR_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of a column with a value."""

    column: str
    operator: ComparisonOperator
    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether a column has one of some values."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Nulls:
    """Whether a column is null, or is not."""

    column: str
    is_null: bool


PlainCondition = Compared | OneOf | Nulls


@dataclass(frozen=True, slots=True)
class PlainSelect:
    """Columns of one table, each with the name that it gets; without `columns` all of them."""

    path: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None
    conditions: tuple[PlainCondition, ...]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Constants:
    """Values with their names."""

    values: tuple[tuple[str, int | str | bool], ...]


class _NotPlainError(Exception):
    """The statement is not one that is recognised here."""


def parse_plain(sql: str, parameters: Sequence[Any]) -> PlainSelect | Constants | None:
    """Return the parts of a plain SELECT with its parameters bound, None for any other statement."""
    if len(sql) > _MAX_LENGTH:
        return None
    try:
        reader = _Reader(cursor_of(sql), list(parameters))
        return reader.select()
    except (_NotPlainError, InvalidRequestError):
        return None


class _Reader:
    def __init__(self, cursor: Cursor, parameters: list[Any]) -> None:
        self._cursor = cursor
        self._parameters = parameters

    def select(self) -> PlainSelect | Constants:
        cursor = self._cursor
        self._require(cursor.skip("SELECT"))
        if self._next_text() is not None and not self._is_name():
            constants = self._constants()
            if constants is not None:
                return constants
        columns = None if cursor.skip("*") else self._columns()
        self._require(cursor.skip("FROM"))
        path = [self._name()]
        while cursor.skip("."):
            path.append(self._name())
        qualifier = self._alias() or path[-1]
        conditions = self._conditions(qualifier) if cursor.skip("WHERE") else ()
        limit = self._whole_number() if cursor.skip("LIMIT") else None
        self._require(cursor.token is None and not self._parameters)
        return PlainSelect(tuple(path), self._unqualified(columns, qualifier), conditions, limit)

    def _constants(self) -> Constants | None:
        """Read values up to the end, None if they turn out to be something else."""
        cursor = self._cursor
        if self._next_text() == "*":
            return None
        values: list[tuple[str, int | str | bool]] = []
        while True:
            text = self._next_text() or ""
            value = self._value()
            self._require(isinstance(value, int | str) and text not in {"?", "-"})
            self._require(isinstance(value, bool | str) or value < _MAX_INT)
            name = self._name() if cursor.skip("AS") else _constant_name(value)
            values.append((name, value))
            if not cursor.skip(","):
                break
        self._require(cursor.token is None and not self._parameters)
        return Constants(tuple(values))

    def _columns(self) -> list[tuple[tuple[str, ...], str]]:
        columns = []
        while True:
            path = self._column_path()
            columns.append((path, self._name() if self._cursor.skip("AS") else path[-1]))
            if not self._cursor.skip(","):
                return columns

    def _column_path(self) -> tuple[str, ...]:
        first = self._name()
        return (first, self._name()) if self._cursor.skip(".") else (first,)

    def _unqualified(
        self, columns: list[tuple[tuple[str, ...], str]] | None, qualifier: str
    ) -> tuple[tuple[str, str], ...] | None:
        if columns is None:
            return None
        return tuple((self._column(path, qualifier), name) for path, name in columns)

    def _column(self, path: tuple[str, ...], qualifier: str) -> str:
        self._require(len(path) == 1 or path[0].lower() == qualifier.lower())
        return path[-1]

    def _alias(self) -> str:
        if self._cursor.skip("AS"):
            return self._name()
        return self._name() if self._is_name() else ""

    def _conditions(self, qualifier: str) -> tuple[PlainCondition, ...]:
        conditions = [*self._condition(qualifier)]
        while self._cursor.skip("AND"):
            conditions += self._condition(qualifier)
        return tuple(conditions)

    def _condition(self, qualifier: str) -> list[PlainCondition]:
        cursor = self._cursor
        column = self._column(self._column_path(), qualifier)
        if cursor.skip("IS"):
            is_null = not cursor.skip("NOT")
            self._require(cursor.skip("NULL"))
            return [Nulls(column, is_null)]
        if cursor.skip("IN"):
            return [OneOf(column, self._values())]
        if cursor.skip("BETWEEN"):
            low = self._value()
            self._require(cursor.skip("AND"))
            at_least, at_most = ComparisonOperator.GREATER_OR_EQUAL, ComparisonOperator.LESS_OR_EQUAL
            return [Compared(column, at_least, low), Compared(column, at_most, self._value())]
        operator = _OPERATORS.get(self._next_text() or "")
        if operator is None:
            raise _NotPlainError
        cursor.at += 1
        return [Compared(column, operator, self._value())]

    def _values(self) -> tuple[Any, ...]:
        self._require(self._cursor.skip("("))
        values = [self._value()]
        while self._cursor.skip(","):
            values.append(self._value())
        self._require(self._cursor.skip(")"))
        return tuple(values)

    def _value(self) -> Any:  # noqa: ANN401  (a value of any type)
        cursor = self._cursor
        if cursor.skip("?"):
            self._require(bool(self._parameters))
            return self._parameters.pop(0)
        if cursor.skip("TRUE"):
            return True
        if cursor.skip("FALSE"):
            return False
        if cursor.skip("DATE"):
            return self._date()
        text = self._next_text() or ""
        if _TEXT.fullmatch(text):
            cursor.at += 1
            return text[1:-1]
        sign = -1 if cursor.skip("-") else 1
        return sign * self._whole_number()

    def _date(self) -> dt.date:
        text = (self._next_text() or "").strip("'")
        self._require(_DATE.fullmatch(text) is not None)
        self._cursor.at += 1
        try:
            return dt.date.fromisoformat(text)
        except ValueError as error:
            raise _NotPlainError from error

    def _whole_number(self) -> int:
        text = self._next_text() or ""
        self._require(_NUMBER.fullmatch(text) is not None)
        self._cursor.at += 1
        return int(text)

    def _name(self) -> str:
        self._require(self._is_name())
        return self._cursor.name()

    def _is_name(self) -> bool:
        text = self._next_text() or ""
        is_word = _NAME.fullmatch(text) is not None and text.upper() not in _WORDS
        return is_word or _QUOTED_NAME.fullmatch(text) is not None

    def _next_text(self) -> str | None:
        token = self._cursor.token
        return None if token is None else token.text

    def _require(self, is_met: bool) -> None:
        if not is_met:
            raise _NotPlainError


def _constant_name(value: int | str | bool) -> str:
    """Return the name that Spark gives to a value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
