"""Parse and evaluate the SQL expressions that clients attach to tables.

They are written in DuckDB's SQL, so DuckDB evaluates them: in worker processes with limits on memory and
time (`expressions.sandbox`), after a check of their syntax tree (`expressions.syntax`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sparkport.arrow.sizes import byte_size
from sparkport.catalog.budget import Reservation
from sparkport.catalog.call import Call
from sparkport.errors import InvalidRequestError, LimitExceededError
from sparkport.expressions import syntax
from sparkport.expressions.functions import VALUE_WORDS
from sparkport.expressions.sandbox import SANDBOX, QueryFailedError
from sparkport.toolkit.bounded_cache import BoundedCache

_PIECE_ROWS = 262_144
_PIECE_BYTES = 16 << 20
_MAX_RESULT_BYTES = 1 << 30  # as for the rows of a message
_MAX_CACHED = 256
_CONSTRAINT = re.compile(
    r"""\s*(?:CONSTRAINT\s+(?:\w+|"(?:[^"]|"")*")\s*)?(?P<kind>CHECK|UNIQUE|PRIMARY\s+KEY)\s*\((?P<inside>.*)\)\s*""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A parsed table constraint: CHECK has an expression, the keys have columns."""

    kind: str
    columns: tuple[str, ...]
    expression: str = ""


@dataclass(frozen=True, slots=True)
class _Outline:
    """What is known about an expression before it is evaluated."""

    columns: frozenset[str]
    is_quick: bool


def evaluate(call: Call, expression: str, rows: pa.Table) -> pa.ChunkedArray:
    """Return the value of the expression for each row.

    Raises InvalidRequestError if it does not parse, names an unknown column or fails for a row, and
    LimitExceededError if it takes too much memory or time.
    """
    return _evaluate(call, expression, f"({expression}\n)", _used_columns(expression, rows))


def evaluate_as(call: Call, expression: str, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return the value of the expression for each row, cast to DuckDB's type of a field.

    Raises what `evaluate` does, also if a value cannot be cast.
    """
    value = f"CAST(({expression}\n) AS {_remembered_type(call, field)})"
    return _evaluate(call, expression, value, _used_columns(expression, rows))


def _used_columns(expression: str, rows: pa.Table) -> pa.Table:
    """Return the columns that an expression reads, or one of nulls. Raises InvalidRequestError."""
    used = referenced_columns(expression)
    names = [name for name in rows.column_names if name.lower() in used]
    unknown = used - {name.lower() for name in names} - VALUE_WORDS
    if unknown:
        raise InvalidRequestError(
            f"expression {syntax.shorten(expression)} refers to unknown column '{min(unknown)}'"
        )
    # A filler column keeps the number of rows when no other is used.
    filler = max((*names, "_"), key=len) + "_"
    return pa.table([*(rows[name] for name in names), pa.nulls(len(rows), pa.int8())], [*names, filler])


def evaluate_constant(call: Call, expression: str, field: pa.Field | None = None) -> pa.Scalar:
    """Return the value of an expression that reads no columns, cast to the type of a field."""
    if referenced_columns(expression) - VALUE_WORDS:
        raise InvalidRequestError(f"expression {syntax.shorten(expression)} must not refer to columns")
    value = f"({expression}\n)"
    if field is not None:
        value = f"CAST({value} AS {_duckdb_type(call, field)})"
    return _evaluate(call, expression, value, pa.table({"one": [1]}))[0]


def evaluate_default(call: Call, expression: str, field: pa.Field, count: int) -> pa.ChunkedArray:
    """Return the default of a column for some new rows, computed for each of them."""
    value = f"CAST(({expression}\n) AS {_duckdb_type(call, field)})"
    return _evaluate(call, expression, value, pa.table({"row": pa.nulls(count, pa.int8())}))


def referenced_columns(expression: str) -> frozenset[str]:
    """Return the names of the columns an expression reads, in lower case.

    Raises InvalidRequestError unless it is one expression without subqueries that calls allowed
    functions only. It is not evaluated.
    """
    return _outline(expression).columns


def rename_column(expression: str, old: str, new: str) -> str:
    """Return the expression with each reference to `old` changed to `new`."""
    tree = _parse(expression)
    syntax.rename(tree, old, new)
    return render_expression(tree)


def parse_constraint(constraint: str, arrow_schema: pa.Schema) -> Constraint:
    """Parse a table constraint such as `UNIQUE(a, b)` or `CHECK (a > 0)` without evaluating it."""
    syntax.check_text(constraint)
    parts = _CONSTRAINT.fullmatch(constraint)
    if parts is None:
        raise InvalidRequestError(
            f"constraint {syntax.shorten(constraint)} is not a single CHECK, UNIQUE or PRIMARY KEY constraint"
        )
    spelled = {name.lower(): name for name in arrow_schema.names}
    if parts["kind"].upper() == "CHECK":
        tree = _parse(parts["inside"])
        names = sorted(syntax.column_names(tree))
        kind, expression = "CHECK", render_expression(tree)
    else:
        names = syntax.key_columns(parts["inside"], serialize_statement(f"SELECT {parts['inside']}\n"))
        kind, expression = " ".join(parts["kind"].upper().split()), ""
    if len({name.lower() for name in names}) < len(names):
        raise InvalidRequestError(f"constraint {syntax.shorten(constraint)} names a column twice")
    unknown = [name for name in names if name.lower() not in spelled]
    if unknown:
        raise InvalidRequestError(
            f"constraint {syntax.shorten(constraint)} refers to unknown column '{unknown[0]}'"
        )
    return Constraint(kind, tuple(spelled[name.lower()] for name in names), expression)


def quote(identifier: str) -> str:
    """Return an identifier quoted for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def _evaluate(call: Call, expression: str, value: str, view: pa.Table) -> pa.ChunkedArray:
    """Return the value of a parsed expression for each row."""
    query = f"SELECT {value} FROM rows"  # noqa: S608  (one parsed expression, in a sandbox)
    held = Reservation(call.resources.rows)
    parts: list[pa.ChunkedArray] = []
    try:
        for piece in _pieces(view):
            part = _evaluate_piece(call, expression, query, piece)
            held.add(sum(byte_size(batch) for batch in pa.table([part], [""]).to_batches()))
            if held.size > _MAX_RESULT_BYTES:
                raise LimitExceededError(
                    f"expression {syntax.shorten(expression)} gives more than {_MAX_RESULT_BYTES >> 20} MiB"
                )
            parts.append(part)
    finally:
        held.release()  # whoever keeps the values reserves their memory from now on
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)


def _pieces(view: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in pieces that fit a worker's memory; at least one."""
    size = sum(byte_size(batch) for batch in view.to_batches())
    count = max(1, -(-len(view) // _PIECE_ROWS), min(-(-size // _PIECE_BYTES), len(view)))
    step = max(1, -(-len(view) // count))
    yield view.slice(0, step)
    for start in range(step, len(view), step):
        yield view.slice(start, step)


def _evaluate_piece(call: Call, expression: str, query: str, piece: pa.Table) -> pa.ChunkedArray:
    try:
        result = SANDBOX.run(call, query, rows=piece, is_quick=_outline(expression).is_quick)
    except QueryFailedError as error:
        raise InvalidRequestError(f"expression {syntax.shorten(expression)} failed: {error}") from error
    except LimitExceededError as error:
        raise LimitExceededError(f"expression {syntax.shorten(expression)} is too costly: {error}") from error
    if result.num_rows != piece.num_rows:
        raise InvalidRequestError(f"expression {syntax.shorten(expression)} does not give one value per row")
    return result.column(0)


@functools.lru_cache(_MAX_CACHED)
def _outline(expression: str) -> _Outline:
    tree = _parse(expression)
    return _Outline(syntax.column_names(tree), syntax.is_quick(tree))


def _parse(expression: str) -> syntax.Tree:
    """Return the tree of an expression that is allowed."""
    syntax.check_text(expression)
    # The line break ends a comment, which could hide the closing parenthesis otherwise.
    return syntax.parse_tree(expression, serialize_statement(f"SELECT ({expression}\n)"))


def serialize_statement(statement: str) -> str:
    """Return DuckDB's syntax tree of a statement as JSON. The statement is only parsed."""
    return _text(Call(), "SELECT json_serialize_sql(?)", statement)


def render_expression(tree: syntax.Tree) -> str:
    """Return the text of the tree of an allowed expression."""
    text = _text(Call(), "SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))
    return text.removeprefix("SELECT ")


def _text(call: Call, query: str, *parameters: str) -> str:
    try:
        return str(SANDBOX.run(call, query, parameters, is_quick=True).column(0)[0])
    except QueryFailedError as error:
        raise InvalidRequestError(f"expression is not valid: {error}") from error


_TYPES: BoundedCache[pa.Field, str] = BoundedCache(_MAX_CACHED)


def _remembered_type(call: Call, field: pa.Field) -> str:
    known = _TYPES.get(field)
    if known is None:
        known = _duckdb_type(call, field)
        _TYPES.put(field, known)
    return known


def _duckdb_type(call: Call, field: pa.Field) -> str:
    rows = pa.Table.from_batches([], pa.schema([field]))
    try:
        described = SANDBOX.run(call, "SELECT column_type FROM (DESCRIBE rows)", rows=rows, is_quick=True)
        return str(described.column(0)[0])
    except QueryFailedError:
        return "VARCHAR"  # DuckDB cannot read the type, so that no CHECK can use the column
