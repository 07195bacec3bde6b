"""The rows of VALUES in an INSERT: where its parameters stand."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkport.spark.statements.tokens import cursor_of
from sparkport.sql.tokens import Cursor

_PARAMETER = "?"
_DEFAULT = "DEFAULT"


def are_parameters(query: str, count: int) -> bool:
    """Return whether a query is VALUES (?, ?, ...) with this many parameters and nothing else."""
    texts = [token.text.upper() for token in cursor_of(query).tokens]
    return texts == ["VALUES", "(", *_list(count), ")"]


def parameter_types(query: str, columns: Sequence[pa.Field]) -> dict[int, pa.DataType]:
    """Return the types of the parameters that VALUES stores as they are, by their number from 0."""
    tokens = cursor_of(query).tokens
    types: dict[int, pa.DataType] = {}
    if not tokens or not tokens[0].is_word("VALUES"):
        return types
    number = position = 0
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], tokens[0]], strict=False):
        if token.text == "(" and token.depth == 0:
            position = 0
        elif token.text == "," and token.depth == 1:
            position += 1
        elif token.text == _PARAMETER:
            is_alone = before.text in {"(", ","} and after.text in {")", ","}
            if token.depth == 1 and is_alone and position < len(columns):
                types[number] = columns[position].type
            number += 1
    return types


def with_default_marks(query: str) -> tuple[str, tuple[int, ...]]:
    """Return a query without the word DEFAULT in the rows of its VALUES, and in which columns it was.

    It becomes a null, and each row ends with a mark for each of these columns: whether it was there.
    """
    cursor = cursor_of(query)
    if not cursor.skip("VALUES"):
        return query, ()
    rows: list[list[str]] = []
    while cursor.skip("("):
        rows.append(_values(cursor))
        if not cursor.skip(","):
            break
    marked = sorted({at for row in rows for at, text in enumerate(row) if _is_default(text)})
    if not marked or cursor.token is not None:
        return query, ()
    return f"VALUES {', '.join(_marked_row(row, marked) for row in rows)}", tuple(marked)


def _values(cursor: Cursor) -> list[str]:
    """Read the values of a row and the parenthesis behind them, which is less deep than they are."""
    values: list[str] = []
    start = cursor.at
    while cursor.token is not None:
        is_end = cursor.token.depth == 0
        if is_end or (cursor.token.depth == 1 and cursor.token.text == ","):
            values.append(cursor.text(start, cursor.at))
            start = cursor.at + 1
        cursor.at += 1
        if is_end:
            break
    return values


def _marked_row(row: list[str], marked: list[int]) -> str:
    values = ["NULL" if _is_default(text) else text for text in row]
    marks = [str(at < len(row) and _is_default(row[at])).upper() for at in marked]
    return f"({', '.join([*values, *marks])})"


def _is_default(text: str) -> bool:
    return text.upper() == _DEFAULT


def _list(count: int) -> list[str]:
    return [text for number in range(count) for text in ((",", _PARAMETER) if number else (_PARAMETER,))]
