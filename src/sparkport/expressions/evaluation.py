"""Evaluating, and taking apart, the SQL expressions that clients attach to tables.

They are written in DuckDB's SQL, so DuckDB evaluates them, in a sandbox: an
in-memory database without files, network, extensions or settings to change.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError

_TIME_LIMIT_SECONDS = 60.0
_CLAUSES = ("where_clause", "group_expressions", "having", "qualify", "sample", "modifiers")
_REFUSED = {"SUBQUERY", "WINDOW", "STAR"}
# A single value of these can be as large as its author likes, and DuckDB looks for
# an interrupt only between batches of values.
_GROWING = frozenset(
    {"array_resize", "format", "generate_series", "list_resize", "lpad", "printf", "range", "repeat", "rpad"}
)
# Functions that SQL writes like columns; a column of the name goes before.
_VALUE_WORDS = frozenset(
    {"current_catalog", "current_date", "current_role", "current_schema", "current_time"}
    | {"current_timestamp", "current_user", "localtime", "localtimestamp", "session_user", "user"}
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A table constraint in parts: CHECK has an expression, the keys have columns."""

    kind: str
    columns: tuple[str, ...]
    expression: str = ""


def evaluate(call: Call, expression: str, rows: pa.Table) -> pa.ChunkedArray:
    """Return the value of the expression for each row.

    Raises InvalidRequestError if it does not parse, names an unknown column or
    fails for a row.
    """
    used = referenced_columns(expression)
    names = [name for name in rows.column_names if name.lower() in used]
    unknown = used - {name.lower() for name in names} - _VALUE_WORDS
    if unknown:
        raise InvalidRequestError(f"expression {expression!r} refers to unknown column '{min(unknown)}'")
    # A filler column keeps the number of rows when no other is used.
    filler = max((*names, "_"), key=len) + "_"
    view = pa.table([*(rows[name] for name in names), pa.nulls(len(rows), pa.int8())], [*names, filler])
    with _connection(call) as connection:
        query = f"SELECT ({expression}\n) FROM rows"  # noqa: S608 - one parsed expression, sandboxed
        try:
            connection.register("rows", view)
            result = connection.execute(query).fetch_arrow_table()
        except duckdb.Error as error:
            call.check()
            raise InvalidRequestError(f"expression {expression!r} failed: {_reason(error)}") from error
    if result.num_rows != rows.num_rows:
        raise InvalidRequestError(f"expression {expression!r} does not give one value per row")
    return result.column(0)


def evaluate_constant(call: Call, expression: str, field: pa.Field | None = None) -> pa.Scalar:
    """Return the value of an expression that reads no columns, cast to the type of a field."""
    if referenced_columns(expression) - _VALUE_WORDS:
        raise InvalidRequestError(f"expression {expression!r} must not refer to columns")
    if field is not None:
        with _connection(call) as connection:
            expression = f"CAST(({expression}\n) AS {_duckdb_type(connection, field)})"
    # Two rows, because an aggregate would give one value for one row.
    return evaluate(call, expression, pa.table({"one": [1, 1]}))[0]


def referenced_columns(expression: str) -> frozenset[str]:
    """Return the names of the columns an expression reads, in lower case.

    Raises InvalidRequestError unless it is one expression without subqueries.
    """
    return frozenset(ref["column_names"][0].lower() for ref in _column_refs(_parse(expression)))


def rename_column(expression: str, old: str, new: str) -> str:
    """Return the expression with each reference to `old` changed to `new`."""
    document = _parse(expression)
    for ref in _column_refs(document):
        if ref["column_names"][0].lower() == old.lower():
            ref["column_names"][0] = new
    with _connection(Call()) as connection:
        query = "SELECT json_deserialize_sql(?::JSON)"
        row = connection.execute(query, [json.dumps(document)]).fetchone()
    assert row is not None
    return str(row[0]).removeprefix("SELECT ")


def parse_constraint(constraint: str, arrow_schema: pa.Schema) -> Constraint:
    """Take a table constraint such as `UNIQUE(a, b)` or `CHECK (a > 0)` apart."""
    with _connection(Call()) as connection:
        columns = [f"{quote(field.name)} {_duckdb_type(connection, field)}" for field in arrow_schema]
        statement = f"CREATE TEMP TABLE probe ({', '.join(columns)}, {constraint}\n)"
        try:
            if len(connection.extract_statements(statement)) != 1:
                raise InvalidRequestError(f"constraint {constraint!r} is not a single constraint")
            connection.execute(statement)
        except duckdb.Error as error:
            raise InvalidRequestError(f"constraint {constraint!r} is not valid: {_reason(error)}") from error
        found = connection.execute(
            "SELECT constraint_type, constraint_column_names, expression FROM duckdb_constraints()"
            " WHERE table_name = 'probe' AND constraint_type <> 'NOT NULL'"
        ).fetchall()
    if len(found) != 1 or found[0][0] not in {"CHECK", "UNIQUE", "PRIMARY KEY"}:
        raise InvalidRequestError(
            f"constraint {constraint!r} is not a CHECK, UNIQUE or PRIMARY KEY constraint"
        )
    kind, names, expression = found[0]
    if not set(names) <= set(arrow_schema.names):
        raise InvalidRequestError(f"constraint {constraint!r} must not add a column")
    return Constraint(kind, tuple(names), expression or "")


def quote(identifier: str) -> str:
    """Return an identifier quoted for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _parse(expression: str) -> dict[str, Any]:
    """Return DuckDB's syntax tree of `SELECT expression`."""
    with _connection(Call()) as connection:
        # The line break ends a comment, so that none can swallow the closing bracket.
        row = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT ({expression}\n)"]).fetchone()
    assert row is not None
    document: dict[str, Any] = json.loads(row[0])
    if document["error"]:
        raise InvalidRequestError(f"expression {expression!r} is not valid: {document['error_message']}")
    statements = document["statements"]
    node = statements[0]["node"]
    plain = (
        len(statements) == 1
        and node["type"] == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and node["from_table"]["type"] == "EMPTY"
        and not any(node[clause] for clause in _CLAUSES)
        and not any(part.get("class") in _REFUSED for part in _objects(node["select_list"]))
    )
    if not plain:
        raise InvalidRequestError(
            f"{expression!r} is not a single expression without subqueries, windows and stars"
        )
    called = {part["function_name"].lower() for part in _objects(node) if part.get("class") == "FUNCTION"}
    if called & _GROWING:
        raise InvalidRequestError(
            f"function '{min(called & _GROWING)}' cannot be used here: its result may be of any size"
        )
    return document


def _column_refs(value: object, parameters: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Return the references to columns; the parameters of a lambda are none."""
    match value:
        case {"class": "COLUMN_REF", "column_names": [first, *_]}:
            assert isinstance(value, dict)
            return [] if first.lower() in parameters else [value]
        case {"class": "LAMBDA", "lhs": lhs, "expr": body}:
            own = frozenset(ref["column_names"][0].lower() for ref in _column_refs(lhs))
            used = {ref["column_names"][0].lower() for ref in _column_refs(body)}
            # `j -> '$.a'` parses as a lambda too, but its right side does not speak of its left.
            parts = [body] if own & used else [lhs, body]
            return _column_refs(parts, parameters | own if own & used else parameters)
        case dict():
            return [ref for child in value.values() for ref in _column_refs(child, parameters)]
        case list():
            return [ref for child in value for ref in _column_refs(child, parameters)]
        case _:
            return []


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from _objects(child)
    elif isinstance(value, list):
        for child in value:
            yield from _objects(child)


def _duckdb_type(connection: duckdb.DuckDBPyConnection, field: pa.Field) -> str:
    try:
        connection.register("rows", pa.Table.from_batches([], pa.schema([field])))
        return str(connection.sql("SELECT * FROM rows").types[0])
    except duckdb.Error:
        return "VARCHAR"  # DuckDB cannot read the type, so that no CHECK can use the column


def _reason(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]


@functools.cache
def _sandbox() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
            "memory_limit": "1GB",
            "threads": "1",
            "arrow_lossless_conversion": "true",
        },
    )
    connection.execute("SET lock_configuration = true")
    return connection


@contextmanager
def _connection(call: Call) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection of its own that stops when the call ends or takes too long."""
    call.check()
    connection = _sandbox().cursor()
    in_use = threading.Lock()
    closed = False

    def interrupt() -> None:
        with in_use:
            if not closed:
                connection.interrupt()

    remaining = call.remaining()
    seconds = _TIME_LIMIT_SECONDS if remaining is None else min(remaining, _TIME_LIMIT_SECONDS)
    call.on_cancel(interrupt)
    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        with in_use:
            closed = True
            connection.close()
