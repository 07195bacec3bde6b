"""Constraints of a table: resolve declarations, check rows, follow changes of columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sparkport.catalog.call import Call
from sparkport.catalog.ddl import CreateTableOptions
from sparkport.catalog.lookup import find_column
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import ConstraintViolationError, InvalidRequestError, NotFoundError
from sparkport.expressions.evaluation import (
    evaluate,
    parse_constraint,
    referenced_columns,
    rename_column,
)
from sparkport.toolkit.keys import example


def resolve_constraints(
    call: Call, arrow_schema: pa.Schema, options: CreateTableOptions
) -> tuple[pa.Schema, TableConstraints]:
    """Return the columns and constraints that CREATE TABLE describes.

    Raises InvalidRequestError for an index out of range, an unknown key column or
    a CHECK expression that cannot be evaluated.
    """
    for index in options.not_null_constraints:
        arrow_schema = with_nullable(arrow_schema, _checked_index(arrow_schema, index), nullable=False)
    checks = list(options.check_constraints)
    primary_key = options.primary_key
    unique: list[tuple[str, ...]] = [*options.unique_keys]
    unique += [(arrow_schema.names[_checked_index(arrow_schema, i)],) for i in options.unique_constraints]
    for text in options.table_constraints:
        parsed = parse_constraint(text, arrow_schema)
        match parsed.kind:
            case "CHECK":
                checks.append(parsed.expression)
            case "UNIQUE":
                unique.append(parsed.columns)
            case _ if primary_key:
                raise InvalidRequestError("a table has at most one primary key")
            case _:
                primary_key = parsed.columns
    for expression in checks:
        validate_check(call, expression, arrow_schema)
    key = _column_names(arrow_schema, primary_key)
    for name in key:
        arrow_schema = with_nullable(arrow_schema, find_column(arrow_schema, name), nullable=False)
    keys = dict.fromkeys(_column_names(arrow_schema, names) for names in unique)
    return arrow_schema, TableConstraints(tuple(checks), key, tuple(keys))


def with_nullable(arrow_schema: pa.Schema, index: int, *, nullable: bool) -> pa.Schema:
    """Return the schema with one column's nullability set."""
    return arrow_schema.set(index, arrow_schema.field(index).with_nullable(nullable))


def validate_check(call: Call, expression: str, arrow_schema: pa.Schema) -> None:
    """Raise InvalidRequestError unless the CHECK expression can be evaluated."""
    names = referenced_columns(expression)
    unknown = names - {name.lower() for name in arrow_schema.names}
    if unknown:
        raise InvalidRequestError(f"CHECK ({expression}) refers to unknown column '{min(unknown)}'")
    _as_bool(evaluate(call, expression, pa.Table.from_batches([], arrow_schema)))


def check_not_null(table: str, rows: pa.Table | pa.RecordBatch, arrow_schema: pa.Schema) -> None:
    """Raise ConstraintViolationError for a null in a NOT NULL column."""
    for field in arrow_schema:
        if not field.nullable and field.name in rows.schema.names and _has_null(rows.column(field.name)):
            raise ConstraintViolationError("NOT NULL", table, column=field.name)


def check_expressions(call: Call, table: str, rows: pa.Table, checks: Iterable[str]) -> None:
    """Raise ConstraintViolationError if a CHECK is false for a row."""
    for expression in checks:
        verdicts = _as_bool(evaluate(call, expression, rows))
        failing = pc.index(pc.fill_null(verdicts, fill_value=True), value=False).as_py()
        if failing >= 0:
            shown = example(rows.slice(failing, 1), rows.column_names)
            raise ConstraintViolationError(f"CHECK ({expression})", table, example=shown)


def constraints_on(constraints: TableConstraints, column: str) -> list[str]:
    """Return the names of the constraints that use a column."""
    names = [f"CHECK ({text})" for text in constraints.checks if reads(text, column)]
    names += [f"UNIQUE ({', '.join(key)})" for key in constraints.unique_keys if _among(column, key)]
    if _among(column, constraints.primary_key):
        names.append("PRIMARY KEY")
    return names


def constraints_of(constraints: TableConstraints, columns: Iterable[str]) -> TableConstraints:
    """Return the constraints that new values of some columns could break."""
    names = list(columns)
    return TableConstraints(
        tuple(text for text in constraints.checks if any(reads(text, name) for name in names)),
        constraints.primary_key if any(_among(name, constraints.primary_key) for name in names) else (),
        tuple(key for key in constraints.unique_keys if any(_among(name, key) for name in names)),
    )


def without_column(constraints: TableConstraints, column: str) -> TableConstraints:
    """Return the constraints that do not use a column."""
    return TableConstraints(
        tuple(text for text in constraints.checks if not reads(text, column)),
        () if _among(column, constraints.primary_key) else constraints.primary_key,
        tuple(key for key in constraints.unique_keys if not _among(column, key)),
    )


def with_renamed_column(constraints: TableConstraints, old: str, new: str) -> TableConstraints:
    """Return the constraints with a column renamed."""

    def renamed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(new if name.lower() == old.lower() else name for name in names)

    return replace(
        constraints,
        checks=tuple(
            rename_column(text, old, new) if reads(text, old) else text for text in constraints.checks
        ),
        primary_key=renamed(constraints.primary_key),
        unique_keys=tuple(renamed(key) for key in constraints.unique_keys),
    )


def reads(expression: str, column: str) -> bool:
    """Return whether an expression reads a column."""
    return column.lower() in referenced_columns(expression)


def _has_null(column: pa.Array | pa.ChunkedArray) -> bool:
    if isinstance(column.type, pa.UnionType | pa.RunEndEncodedType | pa.DictionaryType):
        # The nulls are in a child array, which the array's own count ignores.
        return bool(pc.any(column.is_null()).as_py())
    return bool(column.null_count)


def _among(column: str, names: Iterable[str]) -> bool:
    return column.lower() in (name.lower() for name in names)


def _column_names(arrow_schema: pa.Schema, names: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(str(arrow_schema.names[find_column(arrow_schema, name)]) for name in names)
    except NotFoundError as error:
        raise InvalidRequestError(f"a key refers to unknown column '{error.name}'") from error


def _checked_index(arrow_schema: pa.Schema, index: int) -> int:
    if not 0 <= index < len(arrow_schema):
        raise InvalidRequestError(
            f"constraint refers to column index {index}, but there are {len(arrow_schema)} columns"
        )
    return index


def _as_bool(verdicts: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk for chunk in verdicts.chunks]
    arrow_type = (
        verdicts.type.storage_type if isinstance(verdicts.type, pa.BaseExtensionType) else verdicts.type
    )
    if not (
        pa.types.is_boolean(arrow_type) or pa.types.is_null(arrow_type) or pa.types.is_primitive(arrow_type)
    ):
        raise InvalidRequestError("a CHECK expression must be true or false")
    try:
        return pa.chunked_array([chunk.cast(pa.bool_()) for chunk in chunks], pa.bool_())
    except pa.ArrowException as error:
        raise InvalidRequestError("a CHECK expression must be true or false") from error
