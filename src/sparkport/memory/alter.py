"""ALTER TABLE: from one state of a table to the next, without touching the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from sparkport import expressions
from sparkport.catalog.call import Call
from sparkport.catalog.conform import batch_of, conform_column
from sparkport.catalog.ddl import (
    AddColumn,
    AddConstraint,
    AddField,
    ChangeColumnType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    TableChange,
)
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import (
    AlreadyExistsError,
    ConstraintViolationError,
    InvalidRequestError,
    LastColumnError,
    NotFoundError,
    PreconditionError,
    SchemaMismatchError,
)
from sparkport.memory import constraints as checks
from sparkport.memory import structs
from sparkport.memory.versions import TableState

_EXTENSION = b"ARROW:extension:"


def altered(call: Call, table: str, state: TableState, change: TableChange) -> TableState:
    """Return the state after the change; the same object if nothing changes."""
    match change:
        case AddColumn():
            return _add_column(call, table, state, change)
        case RemoveColumn():
            return _remove_column(table, state, change)
        case RenameColumn():
            return _rename_column(state, change)
        case ChangeColumnType():
            return _change_type(call, table, state, change)
        case SetDefault():
            return _set_default(call, state, change)
        case SetNotNull(column):
            index = find_column(state.arrow_schema, column)
            changed = checks.with_nullable(state.arrow_schema, index, nullable=False)
            checks.check_not_null(table, state.rows.table(state.arrow_schema), changed)
            return _with_schema(state, changed)
        case DropNotNull(column):
            index = find_column(state.arrow_schema, column)
            if "PRIMARY KEY" in checks.constraints_on(state.constraints, column):
                raise PreconditionError(f"column '{column}' is part of the primary key and stays NOT NULL")
            return _with_schema(state, checks.with_nullable(state.arrow_schema, index, nullable=True))
        case AddField(path, field, if_not_exists):
            return _change_struct(
                call,
                state,
                path,
                lambda column: structs.add_field(column, path, field, if_exists=if_not_exists),
            )
        case RenameField(path, new_name):
            return _change_struct(
                call, state, path, lambda column: structs.rename_field(column, path, new_name)
            )
        case RemoveField(path, if_exists):
            return _change_struct(
                call, state, path, lambda column: structs.remove_field(column, path, if_exists=if_exists)
            )
        case AddConstraint(constraint):
            return _add_constraint(call, table, state, constraint)
        case RenameTable():
            raise TypeError("renaming a table is the schema's business")
        case _:
            assert_never(change)


def with_default(field: pa.Field, expression: str) -> pa.Field:
    """Return the field with its default in the metadata, or without one."""
    metadata = dict(field.metadata or {})
    metadata.pop(b"default", None)
    if expression:
        metadata[b"default"] = expression.encode()
    return field.with_metadata(metadata)


def _with_schema(state: TableState, arrow_schema: pa.Schema) -> TableState:
    """Return the state with fields that differ in metadata or nullability only."""
    rows = state.rows.map(lambda batch: batch_of(batch.columns, arrow_schema, batch.num_rows))
    return replace(state, arrow_schema=arrow_schema, rows=rows)


def _add_column(call: Call, table: str, state: TableState, change: AddColumn) -> TableState:
    column = change.column
    if not column.name:
        raise InvalidRequestError("a column needs a name")
    if is_rowid(column):
        raise InvalidRequestError("the row id column is made by the server")
    if column.name.lower() in (name.lower() for name in state.arrow_schema.names):
        if change.if_not_exists:
            return state
        raise AlreadyExistsError("column", column.name)
    default = (column.metadata or {}).get(b"default", b"").decode()
    value = _default_value(call, default, column)
    if state.rows.count and not column.nullable and not value.is_valid:
        raise ConstraintViolationError("NOT NULL", table, column=column.name)
    arrow_schema = state.arrow_schema.append(column)

    def extend(batch: pa.RecordBatch) -> pa.RecordBatch:
        added = repeated(value, column.type, batch.num_rows)
        return batch_of([*batch.columns, added], arrow_schema, batch.num_rows)

    return replace(state, arrow_schema=arrow_schema, rows=state.rows.map(extend))


def repeated(value: pa.Scalar, arrow_type: pa.DataType, count: int) -> pa.Array:
    """Return a column of one value."""
    if not value.is_valid:
        return pa.nulls(count, arrow_type)
    if isinstance(arrow_type, pa.BaseExtensionType):
        storage = pa.repeat(value.value, count)
        return pa.ExtensionArray.from_storage(arrow_type, storage)
    return pa.repeat(value, count).cast(arrow_type)


def _default_value(call: Call, expression: str, column: pa.Field) -> pa.Scalar:
    value = expressions.evaluate_constant(call, expression, column) if expression else None
    if value is None or not value.is_valid:
        return pa.scalar(None, pa.null())
    try:
        return conform_column(repeated(value, value.type, 1), column)[0]
    except SchemaMismatchError as error:
        raise InvalidRequestError(f"default {expression!r} does not fit column '{column.name}'") from error


def _remove_column(table: str, state: TableState, change: RemoveColumn) -> TableState:
    try:
        index = find_column(state.arrow_schema, change.name)
    except NotFoundError:
        if change.if_exists:
            return state
        raise
    name = state.arrow_schema.names[index]
    if len(state.arrow_schema) == 1:
        raise LastColumnError(table, name)
    dependents = checks.constraints_on(state.constraints, name)
    if dependents and not change.cascade:
        raise PreconditionError(f"column '{name}' is used by {dependents[0]}; drop it with CASCADE")
    return TableState(
        state.arrow_schema.remove(index),
        checks.without_column(state.constraints, name),
        state.rows.map(lambda batch: batch.remove_column(index)),
    )


def _rename_column(state: TableState, change: RenameColumn) -> TableState:
    index = find_column(state.arrow_schema, change.old_name)
    old = state.arrow_schema.names[index]
    if not change.new_name:
        raise InvalidRequestError("a column needs a name")
    others = (name.lower() for i, name in enumerate(state.arrow_schema.names) if i != index)
    if change.new_name.lower() in others:
        raise AlreadyExistsError("column", change.new_name)
    field = state.arrow_schema.field(index).with_name(change.new_name)
    renamed = _with_schema(state, state.arrow_schema.set(index, field))
    return replace(renamed, constraints=checks.with_renamed_column(state.constraints, old, change.new_name))


def _change_type(call: Call, table: str, state: TableState, change: ChangeColumnType) -> TableState:
    index = find_column(state.arrow_schema, change.name)
    old = state.arrow_schema.field(index)
    kept = {key: text for key, text in (old.metadata or {}).items() if not key.startswith(_EXTENSION)}
    field = old.with_type(change.arrow_type).with_metadata(kept)
    default = (old.metadata or {}).get(b"default", b"").decode()
    _default_value(call, default, field)
    arrow_schema = state.arrow_schema.set(index, field)
    using = change.expression or expressions.quote(old.name)

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = expressions.evaluate(call, using, pa.Table.from_batches([batch])).combine_chunks()
        column = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        return batch.set_column(index, field, conform_column(column, field))

    try:
        expressions.evaluate(call, using, pa.Table.from_batches([], state.arrow_schema))
        changed = replace(state, arrow_schema=arrow_schema, rows=state.rows.map(convert))
    except SchemaMismatchError as error:
        raise InvalidRequestError(
            f"column '{old.name}' of table '{table}' cannot be changed to {change.arrow_type}: {error}"
        ) from error
    checks.check_not_null(table, changed.rows.table(arrow_schema), arrow_schema)
    for expression in changed.constraints.checks:
        checks.validate_check(call, expression, arrow_schema)
    checks.check_expressions(call, table, changed.rows.table(arrow_schema), changed.constraints)
    checks.check_keys(table, changed)
    return changed


def _set_default(call: Call, state: TableState, change: SetDefault) -> TableState:
    index = find_column(state.arrow_schema, change.column)
    field = state.arrow_schema.field(index)
    _default_value(call, change.expression, field)
    return _with_schema(state, state.arrow_schema.set(index, with_default(field, change.expression)))


def _change_struct(
    call: Call,
    state: TableState,
    path: tuple[str, ...],
    transform: Callable[[structs.Column], structs.Column],
) -> TableState:
    if not path:
        raise InvalidRequestError("a field path needs a column and a field")
    index = find_column(state.arrow_schema, path[0])
    field, _ = transform((state.arrow_schema.field(index), None))
    if field == state.arrow_schema.field(index):
        return state

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        _, values = transform((state.arrow_schema.field(index), batch.column(index)))
        return batch.set_column(index, field, values)

    arrow_schema = state.arrow_schema.set(index, field)
    for expression in state.constraints.checks:
        try:
            checks.validate_check(call, expression, arrow_schema)
        except InvalidRequestError as error:
            raise PreconditionError(f"field '{'.'.join(path)}' is used by CHECK ({expression})") from error
    return replace(state, arrow_schema=arrow_schema, rows=state.rows.map(change))


def _add_constraint(call: Call, table: str, state: TableState, text: str) -> TableState:
    parsed = expressions.parse_constraint(text, state.arrow_schema)
    have = state.constraints
    arrow_schema = state.arrow_schema
    match parsed.kind:
        case "CHECK":
            constraints = replace(have, checks=(*have.checks, parsed.expression))
        case "UNIQUE":
            constraints = replace(have, unique_keys=(*have.unique_keys, parsed.columns))
        case _:
            if have.primary_key:
                raise AlreadyExistsError("primary key of table", table)
            constraints = TableConstraints(have.checks, parsed.columns, have.unique_keys)
            for name in parsed.columns:
                index = find_column(arrow_schema, name)
                arrow_schema = checks.with_nullable(arrow_schema, index, nullable=False)
    changed = replace(_with_schema(state, state.arrow_schema), constraints=constraints)
    rows = state.rows.table(state.arrow_schema)
    checks.check_not_null(table, rows, arrow_schema)
    checks.check_expressions(call, table, rows, constraints)
    checks.check_keys(table, changed)
    return _with_schema(changed, arrow_schema)
