"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE, cut into their parts.

Spark's parser has taken the statement; its plan tells what the text alone does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkport.catalog.guards import Privilege
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.spark.statements.tokens import cursor_of
from sparkport.sql.changes import Delete, Insert, Update
from sparkport.sql.tokens import Cursor

_MIXED = (
    "MERGE is offered with WHEN MATCHED clauses that all UPDATE or all DELETE, one WHEN NOT MATCHED THEN"
    " INSERT, and WHEN NOT MATCHED BY SOURCE clauses that all DELETE"
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A WHEN of a MERGE: without `assignments` its columns have the names of the source's."""

    condition: str
    assignments: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class MergeUpdate:
    """MERGE whose clauses all update the rows that match."""

    target: tuple[str, ...]
    alias: str
    source: str
    source_alias: str
    condition: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class MergeDelete:
    """MERGE whose clauses all delete: rows that match, or rows that do not."""

    target: tuple[str, ...]
    alias: str
    source: str
    condition: str
    clauses: tuple[Clause, ...]
    of_matched: bool


@dataclass(frozen=True, slots=True)
class MergeInsert:
    """MERGE that inserts the rows of the source without a match."""

    target: tuple[str, ...]
    alias: str
    source: str
    source_alias: str
    condition: str
    clause: Clause


MergePart = MergeUpdate | MergeDelete | MergeInsert


@dataclass(frozen=True, slots=True)
class Several:
    """Changes of different rows that are one commit: a MERGE, or an INSERT OVERWRITE.

    What they do depends on the rows that are not there too, so that rows which others add meanwhile are a
    conflict.
    """

    target: tuple[str, ...]
    parts: tuple[Insert | Delete | MergePart, ...]


Change = Insert | Update | Delete | MergePart
"""A change that is one statement of its table."""


def needed_privileges(change: Change | Several) -> frozenset[Privilege]:
    """Return what a caller must be allowed to do to the target; the queries look at what they read."""
    match change:
        case Several(parts=parts):
            return frozenset().union(*map(needed_privileges, parts))
        case Insert() | MergeInsert():
            return frozenset({Privilege.INSERT})
        case Update() | MergeUpdate():
            return frozenset({Privilege.UPDATE})
        case Delete() | MergeDelete():
            return frozenset({Privilege.DELETE})


def parse_change(sql: str, root: Mapping[str, Any]) -> Change | Several:
    """Return the parts of a change; `root` is the top of its plan. Raises for what is not offered."""
    kind = str(root["class"]).rpartition(".")[2]
    cursor = cursor_of(sql)
    match kind:
        case "InsertIntoStatement":
            return _insert(cursor, root)
        case "UpdateTable":
            return _checked(_update(cursor), root)
        case "DeleteFromTable":
            return _checked(_delete(cursor), root)
        case "TruncateTable":
            cursor.expect("TRUNCATE", "TABLE")
            return Delete(cursor.names(), "", "", "", "")
        case "MergeIntoTable":
            return _merge(cursor)
        case _:
            raise NotImplementedByServerError(f"statements of the kind {kind} are not offered")


def _insert(cursor: Cursor, root: Mapping[str, Any]) -> Insert | Several:
    cursor.expect("INSERT")
    cursor.expect("OVERWRITE" if root.get("overwrite") else "INTO")
    cursor.skip("TABLE")
    target = cursor.names()
    columns: list[str] = []
    if str(root.get("userSpecifiedCols") or "[]").strip("[]"):
        cursor.expect("(")
        columns.append(cursor.name())
        while cursor.skip(","):
            columns.append(cursor.name())
        cursor.expect(")")
    by_name = cursor.skip("BY", "NAME")
    if (
        cursor.token is not None
        and cursor.token.is_word("PARTITION", "IF", "REPLACE", "WITH")
        and (not cursor.token.is_word("WITH") or cursor.tokens[cursor.at + 1].text == "(")
    ):
        raise cursor.unexpected()
    insert = Insert(target, tuple(columns), cursor.rest(), by_name)
    return Several(target, (Delete(target, "", "", "", ""), insert)) if root.get("overwrite") else insert


def _update(cursor: Cursor) -> Update:
    cursor.expect("UPDATE")
    target = cursor.names()
    alias = _alias(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, alias or target[-1], "WHERE")
    condition = cursor.rest() if cursor.skip("WHERE") else ""
    cursor.end()
    return Update(target, alias, assignments, "", "", condition)


def _delete(cursor: Cursor) -> Delete:
    cursor.expect("DELETE")
    cursor.expect("FROM")
    target = cursor.names()
    alias = _alias(cursor, "WHERE")
    condition = cursor.rest() if cursor.skip("WHERE") else ""
    cursor.end()
    return Delete(target, alias, "", "", condition)


def _checked(change: Update | Delete, root: Mapping[str, Any]) -> Update | Delete:
    """Make sure that a change has a condition where Spark has found one: without, it is about all rows."""
    planned = root.get("condition")
    is_always = isinstance(planned, list) and planned[0].get("value") == "true"
    if bool(change.condition) != (planned is not None) and not is_always:
        raise InvalidRequestError("the parts of the statement cannot be told apart: leave out its comments")
    return change


def _merge(cursor: Cursor) -> Change | Several:
    cursor.expect("MERGE")
    if cursor.skip("WITH"):
        raise NotImplementedByServerError(
            "MERGE does not change the columns of a table: leave out WITH SCHEMA EVOLUTION"
        )
    cursor.expect("INTO")
    target = cursor.names()
    alias = _alias(cursor, "USING")
    cursor.expect("USING")
    source, source_alias = _source(cursor)
    cursor.expect("ON")
    condition = cursor.until("WHEN")
    clauses: dict[str, list[Clause]] = {}
    while cursor.skip("WHEN"):
        kind, clause = _clause(cursor, alias or target[-1])
        clauses.setdefault(kind, []).append(clause)
    cursor.end()
    if {"MATCHED UPDATE", "MATCHED DELETE"} <= clauses.keys():
        raise NotImplementedByServerError(_MIXED)
    parts: list[MergePart] = []
    for kind, listed in clauses.items():
        match kind:
            case "MATCHED UPDATE":
                parts.append(MergeUpdate(target, alias, source, source_alias, condition, tuple(listed)))
            case "MATCHED DELETE":
                parts.append(MergeDelete(target, alias, source, condition, tuple(listed), of_matched=True))
            case "BY SOURCE DELETE":
                parts.append(MergeDelete(target, alias, source, condition, tuple(listed), of_matched=False))
            case "NOT MATCHED INSERT" if len(listed) == 1:
                parts.append(MergeInsert(target, alias, source, source_alias, condition, listed[0]))
            case _:
                raise NotImplementedByServerError(_MIXED)
    is_one = len(parts) == 1 and not isinstance(parts[0], MergeInsert)
    return parts[0] if is_one else Several(target, tuple(parts))


def _source(cursor: Cursor) -> tuple[str, str]:
    """Read what MERGE compares with, and the name of it."""
    start = cursor.at
    if cursor.skip("("):
        depth = cursor.tokens[start].depth
        while cursor.token is not None and cursor.token.depth != depth:
            cursor.at += 1
        cursor.expect(")")
        name = ""
    else:
        name = cursor.names()[-1]
        if cursor.token is not None and cursor.token.is_word("VERSION", "TIMESTAMP", "FOR"):
            cursor.until("AS")
            cursor.expect("AS", "OF")
            cursor.at += 1
    alias = _alias(cursor, "ON") or name
    if not alias:
        raise InvalidRequestError("the query after USING needs a name: USING (SELECT ...) AS source")
    return cursor.text(start, cursor.at), alias


def _clause(cursor: Cursor, table: str) -> tuple[str, Clause]:
    where = "MATCHED"
    if cursor.skip("NOT", "MATCHED"):
        where = "BY SOURCE" if cursor.skip("BY", "SOURCE") else "NOT MATCHED"
        cursor.skip("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = cursor.until("THEN") if cursor.skip("AND") else ""
    cursor.expect("THEN")
    if cursor.skip("DELETE"):
        return f"{where} DELETE", Clause(condition)
    if cursor.skip("UPDATE", "SET"):
        if cursor.skip("*"):
            return f"{where} UPDATE", Clause(condition)
        return f"{where} UPDATE", Clause(condition, _assignments(cursor, table, "WHEN"))
    cursor.expect("INSERT")
    if cursor.skip("*"):
        return f"{where} INSERT", Clause(condition)
    cursor.expect("(")
    columns = _listed(cursor)
    cursor.expect("VALUES", "(")
    values = _listed(cursor)
    if len(columns) != len(values):
        raise InvalidRequestError(f"INSERT has {len(columns)} columns, but {len(values)} values")
    names = tuple(cursor_of(column).name() for column in columns)
    return f"{where} INSERT", Clause(condition, tuple(zip(names, values, strict=True)))


def _listed(cursor: Cursor) -> list[str]:
    """Read what commas separate, up to the closing parenthesis."""
    texts: list[str] = []
    start, depth = cursor.at, cursor.token.depth if cursor.token else 0
    while cursor.token is not None:
        is_end = cursor.token.depth < depth
        if is_end or (cursor.token.depth == depth and cursor.token.text == ","):
            texts.append(cursor.text(start, cursor.at))
            start = cursor.at + 1
        cursor.at += 1
        if is_end:
            return texts
    raise cursor.unexpected()


def _assignments(cursor: Cursor, table: str, *following: str) -> tuple[tuple[str, str], ...]:
    """Read pairs of a column of a table and an expression."""
    assignments = []
    while True:
        *qualifiers, column = cursor.names()
        if qualifiers and qualifiers[-1].lower() != table.lower():
            raise NotImplementedByServerError("a change sets whole columns, not fields of them")
        cursor.expect("=")
        assignments.append((column, cursor.until(",", *following)))
        if not cursor.skip(","):
            return tuple(assignments)


def _alias(cursor: Cursor, *following: str) -> str:
    """Read the name that a statement gives to its table, empty without one."""
    if cursor.skip("AS"):
        return cursor.name()
    token = cursor.token
    return "" if token is None or token.is_word(*following) else cursor.name()
