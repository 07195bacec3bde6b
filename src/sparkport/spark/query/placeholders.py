"""Parameters in the text of a query: written as ?, and replaced by literals of Spark SQL.

Spark's own binding of parameters does not reach the parser that Delta puts before it. The text with the
literals is parsed and checked like any other.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sparkport.errors import InvalidRequestError
from sparkport.spark.errors import StatementSyntaxError
from sparkport.spark.sql_names import literal

# Texts, names and comments, in which a ? is no parameter; then names, comparisons and parameters themselves.
TOKEN = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|--(?:\\\n|[^\r\n])*|/\*.*?\*/"""
    r"""|\w+|<=>|<=|>=|<>|!=|==|[=<>]|\?|\S""",
    re.DOTALL,
)
"""One token of Spark SQL."""
_COMPARISONS = frozenset({"<=>", "<=", ">=", "<>", "!=", "==", "=", "<", ">"})
_UNKNOWN = pa.string()
_PARAMETER = "?"
_MICROSECOND = dt.timedelta(microseconds=1)


def names_in(sql: str) -> frozenset[str]:
    """Return all names in a query, in lower case: of tables, columns, functions and words of SQL."""
    return frozenset(match.group().strip("`").replace("``", "`").lower() for match in TOKEN.finditer(sql))


def parameter_schema(sql: str, columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a field for each parameter, of the type of the column that it is compared with, else a text.

    `columns` are the types of all columns that the query could mean, by their lower-case names.
    """
    tokens = [match.group() for match in TOKEN.finditer(sql)]
    types = []
    for index, text in enumerate(tokens):
        if text == _PARAMETER:
            before, after = tokens[max(index - 2, 0) : index], tokens[index + 1 : index + 3]
            name = before[0] if len(before) == 2 and before[1] in _COMPARISONS else None  # noqa: PLR2004
            if name is None and len(after) == 2 and after[0] in _COMPARISONS:  # noqa: PLR2004
                name = after[1]
            types.append(columns.get((name or "").strip("`").lower(), _UNKNOWN))
    return pa.schema([pa.field(str(number), kind) for number, kind in enumerate(types, 1)])


def count_parameters(sql: str) -> int:
    """Return how many parameters a statement has."""
    return sum(match.group() == _PARAMETER for match in TOKEN.finditer(sql))


def with_values(sql: str, values: Sequence[Any]) -> str:
    """Return the query with literals for its parameters. Raises InvalidRequestError for a wrong number."""
    waiting = list(values)
    tokens = [match.group() for match in TOKEN.finditer(sql)]
    count = count_parameters(sql)
    if waiting and any(token.startswith("/*") and "/*" in token[2:] for token in tokens):
        # Where such a comment ends, a value could become a part of the statement.
        raise InvalidRequestError("a statement with parameters cannot have a comment within a comment")
    if count != len(waiting):
        raise InvalidRequestError(f"the statement has {count} parameters, but {len(waiting)} were given")
    return TOKEN.sub(
        lambda match: _literal(waiting.pop(0)) if match.group() == _PARAMETER else match.group(), sql
    )


@contextlib.contextmanager
def bound(sql: str, values: Sequence[Any]) -> Iterator[str]:
    """Give a block the query with literals for its parameters; errors of syntax name places in the query.

    Raises InvalidRequestError for a wrong number of values.
    """
    text = with_values(sql, values)
    try:
        yield text
    except StatementSyntaxError as error:
        raise StatementSyntaxError(error.message, _place_in(sql, values, text, error.place)) from error


def _place_in(sql: str, values: Sequence[Any], text: str, place: tuple[int, int]) -> tuple[int, int]:
    """Return the line and position in a query that a place in its text with literals belongs to."""
    line, position = place
    offset = sum(len(whole) + 1 for whole in text.split("\n")[: line - 1]) + position - 1
    parameters = (match for match in TOKEN.finditer(sql) if match.group() == _PARAMETER)
    for match, value in zip(parameters, values, strict=True):
        if offset <= match.start():
            break
        offset -= min(len(_literal(value)) - len(_PARAMETER), offset - match.start())
    before = sql[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _literal(value: Any) -> str:  # noqa: ANN401  (a value of any Arrow type)
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return f"CAST({value} AS BIGINT)" if -(2**63) <= value < 2**63 else f"({value}BD)"
        case float() if math.isfinite(value):
            return f"({value!r}D)"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case decimal.Decimal():
            return f"({value:f}BD)"
        case str():
            return literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.timedelta():
            return f"make_dt_interval(0, 0, 0, {value // _MICROSECOND}BD / 1000000)"
        case uuid.UUID():
            return literal(str(value))
        case list():
            return f"array({', '.join(map(_literal, value))})"
        case dict() if value:
            pairs = (f"{literal(str(name))}, {_literal(part)}" for name, part in value.items())
            return f"named_struct({', '.join(pairs)})"
        case _:
            raise InvalidRequestError(f"a parameter cannot be a {type(value).__name__}")
