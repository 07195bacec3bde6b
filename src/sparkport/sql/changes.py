"""INSERT, UPDATE and DELETE, lowered to a query for the rows that they write.

The statements themselves are the catalog's, by row id: constraints and row ids are kept as they are for
every other client. DuckDB has parsed the statement, so only its parts have to be told from each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkport.errors import InvalidRequestError
from sparkport.sql.tokens import Cursor, tokenize


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT: `query` has the rows of `columns`, of all columns if there are none.

    With `by_name` the names of its columns decide.
    """

    target: tuple[str, ...]
    columns: tuple[str, ...]
    query: str
    by_name: bool


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE: `assignments` are pairs of a column and an expression."""

    target: tuple[str, ...]
    alias: str
    assignments: tuple[tuple[str, str], ...]
    common: str
    sources: str
    condition: str


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE, or TRUNCATE without a condition."""

    target: tuple[str, ...]
    alias: str
    common: str
    sources: str
    condition: str


Change = Insert | Update | Delete

_UNSUPPORTED = ("RETURNING", "CONFLICT")


def parse_change(sql: str) -> Change:
    """Return the parts of an INSERT, UPDATE, DELETE or TRUNCATE. Raises InvalidRequestError."""
    cursor = Cursor(sql, tokenize(sql))
    common = cursor.until("INSERT", "UPDATE", "DELETE", "TRUNCATE")
    for part in cursor.tokens[cursor.at :]:
        if part.depth == 0 and part.is_word(*_UNSUPPORTED):
            raise InvalidRequestError(f"statements with {part.text.upper()} are not offered")
    kinds: dict[str, Callable[[Cursor, str], Change]] = {
        "INSERT": _insert,
        "UPDATE": _update,
        "DELETE": _delete,
        "TRUNCATE": _truncate,
    }
    token = cursor.token
    if token is None:
        raise cursor.unexpected()
    cursor.at += 1
    return kinds[token.text.upper()](cursor, common)


def _insert(cursor: Cursor, common: str) -> Insert:
    if cursor.skip("OR"):
        raise InvalidRequestError("statements with INSERT OR are not offered")
    cursor.expect("INTO")
    target = cursor.names()
    if cursor.skip("AS"):
        cursor.name()
    columns: list[str] = []
    if cursor.skip("("):
        columns.append(cursor.name())
        while cursor.skip(","):
            columns.append(cursor.name())
        cursor.expect(")")
    by_name = cursor.skip("BY", "NAME")
    cursor.skip("BY", "POSITION")
    if cursor.skip("DEFAULT", "VALUES"):
        raise InvalidRequestError("INSERT ... DEFAULT VALUES is not offered: name a column")
    query = cursor.rest()
    return Insert(target, tuple(columns), f"{common}\n{query}" if common else query, by_name)


def _update(cursor: Cursor, common: str) -> Update:
    target = cursor.names()
    alias = _alias(cursor, target, "SET")
    cursor.expect("SET")
    assignments = []
    while True:
        if cursor.skip("("):
            raise InvalidRequestError("UPDATE sets one column at a time: SET a = 1, b = 2")
        column = cursor.name()
        if cursor.skip("."):
            raise InvalidRequestError("UPDATE sets whole columns, not fields of them")
        cursor.expect("=")
        assignments.append((column, cursor.until(",", "FROM", "WHERE")))
        if not cursor.skip(","):
            break
    sources = cursor.until("WHERE") if cursor.skip("FROM") else ""
    condition = cursor.rest() if cursor.skip("WHERE") else ""
    cursor.end()
    return Update(target, alias, tuple(assignments), common, sources, condition)


def _delete(cursor: Cursor, common: str) -> Delete:
    cursor.expect("FROM")
    target = cursor.names()
    alias = _alias(cursor, target, "USING", "WHERE")
    sources = cursor.until("WHERE") if cursor.skip("USING") else ""
    condition = cursor.rest() if cursor.skip("WHERE") else ""
    cursor.end()
    return Delete(target, alias, common, sources, condition)


def _truncate(cursor: Cursor, common: str) -> Delete:
    cursor.skip("TABLE")
    target = cursor.names()
    cursor.end()
    return Delete(target, target[-1], common, "", "")


def _alias(cursor: Cursor, target: tuple[str, ...], *following: str) -> str:
    """Read the name that a statement gives to its table."""
    if cursor.skip("AS"):
        return cursor.name()
    token = cursor.token
    return target[-1] if token is None or token.is_word(*following) else cursor.name()
