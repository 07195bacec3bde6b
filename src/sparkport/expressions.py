"""SQL expressions that clients attach to tables: CHECK, DEFAULT and USING.

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
    # A filler column keeps the number of rows when no other is used.
    filler = max((*names, "_"), key=len) + "_"
    view = pa.table([*(rows[name] for name in names), pa.nulls(len(rows), pa.int8())], [*names, filler])
    with _connection(call) as connection:
        connection.register("rows", view)
        query = f"SELECT ({expression}) FROM rows"  # noqa: S608 - one parsed expression, sandboxed
        try:
            result = connection.execute(query).fetch_arrow_table()
        except duckdb.Error as error:
            raise InvalidRequestError(f"expression {expression!r} failed: {_reason(error)}") from error
    if result.num_rows != rows.num_rows:
        raise InvalidRequestError(f"expression {expression!r} does not give one value per row")
    return result.column(0)


def evaluate_constant(call: Call, expression: str) -> pa.Scalar:
    """Return the value of an expression that reads no columns."""
    if referenced_columns(expression):
        raise InvalidRequestError(f"expression {expression!r} must not refer to columns")
    return evaluate(call, expression, pa.table({"one": [1]}))[0]


def referenced_columns(expression: str) -> frozenset[str]:
    """Return the names of the columns an expression reads, in lower case.

    Raises InvalidRequestError unless it is one expression without subqueries.
    """
    names = {ref["column_names"][-1].lower() for ref in _column_refs(_parse(expression))}
    return frozenset(names)


def rename_column(expression: str, old: str, new: str) -> str:
    """Return the expression with each reference to `old` changed to `new`."""
    document = _parse(expression)
    for ref in _column_refs(document):
        if ref["column_names"][-1].lower() == old.lower():
            ref["column_names"][-1] = new
    with _connection(Call()) as connection:
        query = "SELECT json_deserialize_sql(?::JSON)"
        row = connection.execute(query, [json.dumps(document)]).fetchone()
    assert row is not None
    return str(row[0]).removeprefix("SELECT ")


def parse_constraint(constraint: str, arrow_schema: pa.Schema) -> Constraint:
    """Take a table constraint such as `UNIQUE(a, b)` or `CHECK (a > 0)` apart."""
    with _connection(Call()) as connection:
        connection.register("rows", _importable(arrow_schema).empty_table())
        described = connection.sql("SELECT * FROM rows")
        columns = [
            f"{quote(name)} {kind}" for name, kind in zip(described.columns, described.types, strict=True)
        ]
        statement = f"CREATE TEMP TABLE probe ({', '.join(columns)}, {constraint})"
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
    return Constraint(kind, tuple(names), expression or "")


def quote(identifier: str) -> str:
    """Return an identifier quoted for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _parse(expression: str) -> dict[str, Any]:
    """Return DuckDB's syntax tree of `SELECT expression`."""
    with _connection(Call()) as connection:
        row = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT ({expression})"]).fetchone()
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
        and not any(part.get("class") == "SUBQUERY" for part in _objects(node["select_list"]))
    )
    if not plain:
        raise InvalidRequestError(f"{expression!r} is not a single expression without subqueries")
    return document


def _column_refs(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in _objects(document) if part.get("class") == "COLUMN_REF"]


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from _objects(child)
    elif isinstance(value, list):
        for child in value:
            yield from _objects(child)


def _importable(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the schema with types that DuckDB cannot read replaced by text."""
    for index, field in enumerate(arrow_schema):
        if pa.types.is_float16(field.type) or pa.types.is_decimal256(field.type):
            arrow_schema = arrow_schema.set(index, field.with_type(pa.string()))
    return arrow_schema


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
    connection = _sandbox().cursor()
    call.on_cancel(connection.interrupt)
    timer = threading.Timer(_TIME_LIMIT_SECONDS, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield connection
    finally:
        timer.cancel()
        connection.close()
