"""What a statement is, by DuckDB's own parser: its kind, and for a query its syntax tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from sparkport.errors import InvalidRequestError, PermissionDeniedError
from sparkport.sql.database import Database

MAX_LENGTH = 1 << 20
"""The maximal number of characters of a statement."""

# Those that make rows of their arguments alone. Others read files, or tell of this DuckDB.
_TABLE_FUNCTIONS = frozenset(
    {"generate_series", "generate_subscripts", "json_each", "json_tree", "range", "repeat", "repeat_row"}
    | {"unnest"}
)
Tree = dict[str, Any]


def statement_kind(sql: str) -> str:
    """Return the kind of the only statement in a text, such as SELECT.

    Raises InvalidRequestError, or duckdb.Error for what cannot be parsed.
    """
    if len(sql) > MAX_LENGTH:
        raise InvalidRequestError(f"the statement is longer than {MAX_LENGTH} characters")
    # For the parser the text ends at a NUL, so the rest would not be checked.
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise InvalidRequestError("the statement contains a NUL character or an unpaired surrogate")
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1:
        raise InvalidRequestError(f"a text must have one statement, this one has {len(statements)}")
    return str(statements[0].type.name)


def parse_query(database: Database, sql: str) -> Tree:
    """Return the syntax tree of a query. Raises for what is none, or calls functions that are refused."""
    ((serialized,),) = database.execute("SELECT json_serialize_sql(?)", [sql]).rows()
    try:
        tree: Tree = json.loads(serialized)
    except RecursionError as error:
        raise InvalidRequestError("the statement is nested too deeply") from error
    if tree["error"]:
        raise InvalidRequestError(f"this is not a query: {tree['error_message']}")
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            if name not in _TABLE_FUNCTIONS:
                raise PermissionDeniedError(f"SQL does not allow the table function '{name}'")
    return tree


def nodes(value: object) -> Iterator[Tree]:
    """Yield all parts of a tree. No recursion: a tree may be deep."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def table_names(tree: Tree) -> list[tuple[str, str, str]]:
    """Return catalog, schema and name of each table that a query names, once for each time that it does."""
    return [
        (node["catalog_name"], node["schema_name"], node["table_name"])
        for node in nodes(tree)
        if node.get("type") == "BASE_TABLE"
    ]


def common_tables(tree: Tree) -> set[str]:
    """Return the names that WITH introduces, in lower case."""
    return {
        str(entry["key"]).lower()
        for node in nodes(tree)
        if isinstance(node.get("cte_map"), dict)
        for entry in node["cte_map"]["map"]
    }


def lists_tables(tree: Tree) -> bool:
    """Return whether a query is SHOW TABLES or the like."""
    return any(node.get("type") == "SHOW_REF" and node.get("table_name") for node in nodes(tree))
