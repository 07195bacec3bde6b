"""The rows of VALUES in an INSERT: where its parameters stand."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sparkport.spark.statements.tokens import cursor_of

_PARAMETER = "?"


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


def _list(count: int) -> list[str]:
    return [text for number in range(count) for text in ((",", _PARAMETER) if number else (_PARAMETER,))]
