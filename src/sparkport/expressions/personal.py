"""Expressions of an access file, with what they say about the caller put in."""

from __future__ import annotations

import functools
import json
from typing import Any

from sparkport.errors import InvalidRequestError
from sparkport.expressions import syntax
from sparkport.expressions.evaluation import render_expression, serialize_statement

_CURRENT_PRINCIPAL = "current_principal"
_HAS_ROLE = "has_role"
_MAX_CACHED = 1024


@functools.lru_cache(_MAX_CACHED)
def personalized(expression: str, principal: str, roles: frozenset[str]) -> str:
    """Return an expression in which `current_principal()` and `has_role('x')` are constants.

    Raises InvalidRequestError for what is not one plain expression of allowed functions.
    """
    syntax.check_text(expression)
    # The line break ends a comment, which could hide the closing parenthesis otherwise.
    tree = json.loads(serialize_statement(f"SELECT ({expression}\n)"))
    if tree["error"]:
        raise InvalidRequestError(f"expression {syntax.shorten(expression)}: {tree['error_message']}")
    changed = _replaced(tree, principal, roles)
    return render_expression(syntax.parse_tree(expression, json.dumps(changed)))


def _replaced(part: Any, principal: str, roles: frozenset[str]) -> Any:  # noqa: ANN401  (a tree in JSON)
    match part:
        case {"class": "FUNCTION", "function_name": str(name), "children": [*arguments]} if (
            name.lower() == _CURRENT_PRINCIPAL
        ):
            if arguments:
                raise InvalidRequestError("current_principal() has no arguments")
            return _constant("'" + principal.replace("'", "''") + "'")
        case {"class": "FUNCTION", "function_name": str(name), "children": [*arguments]} if (
            name.lower() == _HAS_ROLE
        ):
            return _constant("true" if _role(arguments) in roles else "false")
        case dict():
            return {key: _replaced(value, principal, roles) for key, value in part.items()}
        case list():
            return [_replaced(value, principal, roles) for value in part]
        case _:
            return part


def _role(arguments: list[Any]) -> str:
    match arguments:
        case [{"class": "CONSTANT", "value": {"value": str(role)}}]:
            return role
        case _:
            raise InvalidRequestError("has_role has one argument, the name of a role: has_role('manager')")


def _constant(text: str) -> Any:  # noqa: ANN401  (a tree in JSON)
    return json.loads(serialize_statement(f"SELECT {text}"))["statements"][0]["node"]["select_list"][0]
