"""Check DuckDB's syntax trees of expressions, and find the columns that they read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparkport.errors import InvalidRequestError
from sparkport.expressions.functions import ALLOWED, ANY_SIZE, QUICK

MAX_LENGTH = 16_384
"""The maximal number of characters of an expression."""
MAX_DEPTH = 200
"""The maximal nesting of an expression: a function in a function, a sum of a sum."""

_MAX_SHOWN = 300
_CLAUSES = ("where_clause", "group_expressions", "having", "qualify", "sample", "modifiers")
_ALLOWED_CLASSES = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"}
    | {"FUNCTION", "LAMBDA", "OPERATOR"}
)
_WITH_LAMBDA = frozenset(
    {"apply", "array_apply", "array_filter", "array_reduce", "array_transform", "filter"}
    | {"list_apply", "list_filter", "list_reduce", "list_transform", "reduce"}
)

Tree = dict[str, Any]


def check_text(text: str) -> None:
    """Raise InvalidRequestError for a text that cannot be parsed, or would take too long to parse."""
    if len(text) > MAX_LENGTH:
        raise InvalidRequestError(f"expression {shorten(text)} is longer than {MAX_LENGTH} characters")
    # For the parser the text ends at a NUL, so the rest would not be checked.
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequestError(
            f"expression {shorten(text)} contains a NUL character or an unpaired surrogate"
        )


def shorten(text: str) -> str:
    """Return an expression for an error message, shortened if it is long."""
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}..."


def parse_tree(expression: str, serialized: str) -> Tree:
    """Return the tree of `SELECT (expression)` that DuckDB has written as JSON.

    Raises InvalidRequestError unless it is one plain expression with allowed functions only.
    """
    try:
        tree: Tree = json.loads(serialized)
    except RecursionError as error:
        raise _too_deep(expression) from error
    if tree["error"]:
        raise InvalidRequestError(f"expression {shorten(expression)} is not valid: {tree['error_message']}")
    nodes = tree["statements"]
    node = nodes[0]["node"]
    is_plain = (
        len(nodes) == 1
        and node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not any(node[clause] for clause in _CLAUSES)
    )
    if not is_plain:
        raise _not_plain(expression)
    for part, depth in _expressions(node["select_list"]):
        if depth > MAX_DEPTH:
            raise _too_deep(expression)
        if part["class"] not in _ALLOWED_CLASSES:
            raise _not_plain(expression)
        if part["class"] == "FUNCTION":
            _check_function(part["function_name"].lower())
    return tree


def column_names(tree: Tree) -> frozenset[str]:
    """Return the names of the columns that an expression reads, in lower case."""
    return frozenset(ref["column_names"][0].lower() for ref in _column_refs(tree))


def is_quick(tree: Tree) -> bool:
    """Return whether an expression takes little time for each row, whatever its values."""
    return all(
        part["class"] != "LAMBDA" and (part["class"] != "FUNCTION" or part["function_name"].lower() in QUICK)
        for part, _ in _expressions(tree)
    )


def key_columns(text: str, serialized: str) -> list[str]:
    """Return the names in a list of columns, from the tree of `SELECT text`. Raises InvalidRequestError."""
    try:
        tree: Tree = json.loads(serialized)
    except RecursionError as error:
        raise _too_deep(text) from error
    nodes = [] if tree["error"] else tree["statements"]
    if len(nodes) == 1 and nodes[0]["node"]["type"] == "SELECT_NODE":
        node = nodes[0]["node"]
        names = [part.get("column_names", ()) for part in node["select_list"]]
        is_plain = node["from_table"]["type"] == "EMPTY" and not any(node[clause] for clause in _CLAUSES)
        is_plain = is_plain and not any(part["alias"] for part in node["select_list"])
        if is_plain and all(len(name) == 1 for name in names):
            return [name[0] for name in names]
    raise InvalidRequestError(f"a key must be a list of columns, not {shorten(text)}")


def rename(tree: Tree, old: str, new: str) -> None:
    """Change each reference to the column `old` to `new`."""
    for ref in _column_refs(tree):
        if ref["column_names"][0].lower() == old.lower():
            ref["column_names"][0] = new


def _check_function(name: str) -> None:
    if name in ANY_SIZE:
        raise InvalidRequestError(
            f"function '{name}' cannot be used in an expression: the size of its result is not limited"
        )
    if name not in ALLOWED:
        raise InvalidRequestError(f"function '{name}' does not exist or cannot be used in an expression")


def _too_deep(expression: str) -> InvalidRequestError:
    return InvalidRequestError(f"expression {shorten(expression)} is nested deeper than {MAX_DEPTH} levels")


def _not_plain(expression: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{shorten(expression)} is not a single expression without subqueries, windows, aggregates and stars"
    )


def _expressions(value: object) -> Iterator[tuple[Tree, int]]:
    """Yield the parts of an expression, each with its depth. No recursion: a tree may be deep."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, dict):
            if "class" in part:
                depth += 1
                yield part, depth
            waiting.extend((child, depth) for child in part.values())
        elif isinstance(part, list):
            waiting.extend((child, depth) for child in part)


def _column_refs(tree: object) -> Iterator[Tree]:
    """Yield the references to columns, without the parameters of lambdas."""
    waiting: list[tuple[object, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        part, parameters = waiting.pop()
        match part:
            case {"class": "COLUMN_REF", "column_names": [first, *_]}:
                assert isinstance(part, dict)
                if first.lower() not in parameters:
                    yield part
            # Elsewhere `j -> '$.a'` is a lambda for the parser only: it extracts from JSON.
            case {
                "class": "FUNCTION",
                "function_name": str(name),
                "children": [values, {"class": "LAMBDA"} as function, *others],
            } if name.lower() in _WITH_LAMBDA:
                own = frozenset(ref["column_names"][0].lower() for ref in _column_refs(function["lhs"]))
                waiting += [(values, parameters), (others, parameters), (function["expr"], parameters | own)]
            case dict():
                waiting.extend((child, parameters) for child in part.values())
            case list():
                waiting.extend((child, parameters) for child in part)
