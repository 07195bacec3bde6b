"""Plan ALTER TABLE: the new columns and constraints, how to convert rows, and what to check on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa

from sparkport.arrow import structs
from sparkport.arrow.conform import batch_of, conform_column
from sparkport.catalog.call import Call
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
    SetComment,
    SetDefault,
    SetNotNull,
    TableChange,
)
from sparkport.catalog.lookup import find_column
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.tables import TableConstraints
from sparkport.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    LastColumnError,
    NotFoundError,
    PreconditionError,
    SchemaMismatchError,
)
from sparkport.expressions import constraints as checks
from sparkport.expressions.evaluation import evaluate, evaluate_constant, parse_constraint, quote
from sparkport.toolkit.keys import check_keys, keys_of

_EXTENSION = b"ARROW:extension:"

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns, without the row id, and the constraints of a table."""

    arrow_schema: pa.Schema
    constraints: TableConstraints


@dataclass(frozen=True, slots=True)
class Alteration:
    """A planned change of a table.

    `convert` makes new rows from old ones, and may raise InvalidRequestError. `filled` is the value of
    an added column in all of them; with `recomputed` the new values depend on the old rows.
    `to_check` are constraints that the new rows may break; with `checks_nulls` NOT NULL is
    among them. `comment` is that of the table if it gets another one.
    """

    shape: TableShape
    convert: Convert
    filled: pa.Array | None = None
    recomputed: bool = False
    checks_nulls: bool = False
    to_check: TableConstraints = TableConstraints()  # noqa: RUF009  (a frozen value)
    comment: str | None = None

    @property
    def reads_rows(self) -> bool:
        """Whether rows have to be read to know if the change is possible."""
        return self.recomputed or self.checks_nulls or self.to_check != TableConstraints()

    def check(self, call: Call, table: str, rows: pa.Table) -> None:
        """Raise ConstraintViolationError if new rows break NOT NULL or CHECK; keys are checked apart."""
        self.check_nulls(table, rows)
        checks.check_expressions(call, table, rows, self.to_check.checks)

    def check_nulls(self, table: str, rows: pa.Table) -> None:
        """Raise ConstraintViolationError if new rows break NOT NULL."""
        if self.checks_nulls:
            checks.check_not_null(table, rows, self.shape.arrow_schema)

    def check_keys(self, table: str, rows: pa.Table) -> None:
        """Raise ConstraintViolationError if a key occurs twice among all the new rows."""
        check_keys(table, keys_of(self.to_check), rows)


def plan_alteration(call: Call, table: str, shape: TableShape, change: TableChange) -> Alteration | None:
    """Plan a change of a table; return None if nothing changes.

    Raises NotFoundError, AlreadyExistsError, LastColumnError, PreconditionError, InvalidRequestError.
    """
    match change:
        case AddColumn():
            return _add_column(call, shape, change)
        case RemoveColumn():
            return _remove_column(table, shape, change)
        case RenameColumn():
            return _rename_column(shape, change)
        case ChangeColumnType():
            return _change_type(call, table, shape, change)
        case SetDefault(column, expression):
            index = find_column(shape.arrow_schema, column)
            field = shape.arrow_schema.field(index)
            _default_value(call, expression, field)
            return _with_field(shape, index, _with_detail(field, b"default", expression))
        case SetNotNull(column):
            index = find_column(shape.arrow_schema, column)
            field = shape.arrow_schema.field(index).with_nullable(False)
            return replace(_with_field(shape, index, field), checks_nulls=True)
        case DropNotNull(column):
            index = find_column(shape.arrow_schema, column)
            if "PRIMARY KEY" in checks.constraints_on(shape.constraints, column):
                raise PreconditionError(
                    f"column '{column}' must stay NOT NULL: it is part of the primary key"
                )
            return _with_field(shape, index, shape.arrow_schema.field(index).with_nullable(True))
        case AddField(path, field, if_not_exists):
            return _change_struct(
                call, shape, path, lambda old: structs.add_field(old, path, field, if_exists=if_not_exists)
            )
        case RenameField(path, new_name):
            return _change_struct(call, shape, path, lambda old: structs.rename_field(old, path, new_name))
        case RemoveField(path, if_exists):
            return _change_struct(
                call, shape, path, lambda old: structs.remove_field(old, path, if_exists=if_exists)
            )
        case AddConstraint(constraint):
            return _add_constraint(call, table, shape, constraint)
        case SetComment():
            return _set_comment(shape, change)
        case RenameTable():
            raise TypeError("a table is renamed by its schema")
        case _:
            assert_never(change)


def _renaming(arrow_schema: pa.Schema) -> Convert:
    """Return the conversion to fields that differ in name, metadata or nullability only."""
    return lambda batch: batch_of(batch.columns, arrow_schema, batch.num_rows)


def _with_field(shape: TableShape, index: int, field: pa.Field) -> Alteration:
    arrow_schema = shape.arrow_schema.set(index, field)
    return Alteration(replace(shape, arrow_schema=arrow_schema), _renaming(arrow_schema))


def _set_comment(shape: TableShape, change: SetComment) -> Alteration:
    if change.column is None:
        return Alteration(shape, _renaming(shape.arrow_schema), comment=change.comment)
    index = find_column(shape.arrow_schema, change.column)
    field = shape.arrow_schema.field(index)
    return _with_field(shape, index, _with_detail(field, b"comment", change.comment))


def _with_detail(field: pa.Field, key: bytes, text: str) -> pa.Field:
    """Return a field with a text in its metadata, without it if it is empty."""
    metadata = dict(field.metadata or {})
    metadata.pop(key, None)
    if text:
        metadata[key] = text.encode()
    return field.with_metadata(metadata)


def _add_column(call: Call, shape: TableShape, change: AddColumn) -> Alteration | None:
    column = change.column
    if not column.name:
        raise InvalidRequestError("a column needs a name")
    if is_rowid(column):
        raise InvalidRequestError("the row id column is made by the server")
    if column.name.lower() in (name.lower() for name in shape.arrow_schema.names):
        if change.if_not_exists:
            return None
        raise AlreadyExistsError("column", column.name)
    default = (column.metadata or {}).get(b"default", b"").decode()
    value = _default_value(call, default, column)
    arrow_schema = shape.arrow_schema.append(column)

    def extend(batch: pa.RecordBatch) -> pa.RecordBatch:
        added = _repeat(value, column.type, batch.num_rows)
        return batch_of([*batch.columns, added], arrow_schema, batch.num_rows)

    return Alteration(
        replace(shape, arrow_schema=arrow_schema),
        extend,
        filled=_repeat(value, column.type, 1) if value.is_valid else None,
        checks_nulls=not column.nullable and not value.is_valid,
    )


def _repeat(value: pa.Scalar, arrow_type: pa.DataType, count: int) -> pa.Array:
    if not value.is_valid:
        return pa.nulls(count, arrow_type)
    if isinstance(arrow_type, pa.BaseExtensionType):
        storage = pa.repeat(value.value, count)
        return pa.ExtensionArray.from_storage(arrow_type, storage)
    return pa.repeat(value, count).cast(arrow_type)


def _default_value(call: Call, expression: str, column: pa.Field) -> pa.Scalar:
    value = evaluate_constant(call, expression, column) if expression else None
    if value is None or not value.is_valid:
        return pa.scalar(None, pa.null())
    try:
        return conform_column(_repeat(value, value.type, 1), column)[0]
    except SchemaMismatchError as error:
        raise InvalidRequestError(f"default {expression!r} does not fit column '{column.name}'") from error


def _remove_column(table: str, shape: TableShape, change: RemoveColumn) -> Alteration | None:
    try:
        index = find_column(shape.arrow_schema, change.name)
    except NotFoundError:
        if change.if_exists:
            return None
        raise
    name = shape.arrow_schema.names[index]
    if len(shape.arrow_schema) == 1:
        raise LastColumnError(table, name)
    dependents = checks.constraints_on(shape.constraints, name)
    if dependents and not change.cascade:
        raise PreconditionError(f"column '{name}' is used by {dependents[0]}; drop it with CASCADE")
    constraints = checks.without_column(shape.constraints, name)
    return Alteration(
        TableShape(shape.arrow_schema.remove(index), constraints), lambda batch: batch.remove_column(index)
    )


def _rename_column(shape: TableShape, change: RenameColumn) -> Alteration:
    index = find_column(shape.arrow_schema, change.old_name)
    old = shape.arrow_schema.names[index]
    if not change.new_name:
        raise InvalidRequestError("a column needs a name")
    others = (name.lower() for i, name in enumerate(shape.arrow_schema.names) if i != index)
    if change.new_name.lower() in others:
        raise AlreadyExistsError("column", change.new_name)
    constraints = checks.with_renamed_column(shape.constraints, old, change.new_name)
    field = shape.arrow_schema.field(index).with_name(change.new_name)
    return _with_field(replace(shape, constraints=constraints), index, field)


def _change_type(call: Call, table: str, shape: TableShape, change: ChangeColumnType) -> Alteration:
    index = find_column(shape.arrow_schema, change.name)
    old = shape.arrow_schema.field(index)
    kept = {key: text for key, text in (old.metadata or {}).items() if not key.startswith(_EXTENSION)}
    field = old.with_type(change.arrow_type).with_metadata(kept)
    _check_default(call, field)
    arrow_schema = shape.arrow_schema.set(index, field)
    using = change.expression or quote(old.name)

    def conform(values: pa.ChunkedArray) -> pa.Array:
        values = values.combine_chunks()
        column = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        if column.null_count == len(column):
            return pa.nulls(len(column), field.type)  # an untyped NULL comes as a number
        try:
            return conform_column(column, field)
        except SchemaMismatchError as error:
            raise InvalidRequestError(
                f"column '{old.name}' of table '{table}' cannot be changed to {change.arrow_type}: {error}"
            ) from error

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        values = evaluate(call, using, pa.Table.from_batches([batch]))
        return batch.set_column(index, field, conform(values))

    evaluate(call, using, pa.Table.from_batches([], shape.arrow_schema))
    for expression in shape.constraints.checks:
        checks.validate_check(call, expression, arrow_schema)
    return Alteration(
        replace(shape, arrow_schema=arrow_schema),
        convert,
        recomputed=True,
        checks_nulls=True,
        to_check=checks.constraints_of(shape.constraints, [old.name]),
    )


def _check_default(call: Call, field: pa.Field) -> None:
    """Raise InvalidRequestError if the default of a column does not fit its new type."""
    default = (field.metadata or {}).get(b"default", b"").decode()
    try:
        _default_value(call, default, field)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"the default of column '{field.name}', {default}, does not fit its new type {field.type};"
            " drop the default first"
        ) from error


def _change_struct(
    call: Call,
    shape: TableShape,
    path: tuple[str, ...],
    transform: Callable[[structs.Column], structs.Column],
) -> Alteration | None:
    if not path:
        raise InvalidRequestError("a field path needs a column and a field")
    index = find_column(shape.arrow_schema, path[0])
    old = shape.arrow_schema.field(index)
    field, _ = transform((old, None))
    if field == old:
        return None

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        _, values = transform((old, batch.column(index)))
        return batch.set_column(index, field, values)

    arrow_schema = shape.arrow_schema.set(index, field)
    for expression in shape.constraints.checks:
        try:
            checks.validate_check(call, expression, arrow_schema)
        except InvalidRequestError as error:
            raise PreconditionError(
                f"field '{'.'.join(path)}' is used by CHECK ({expression}); drop that constraint first"
            ) from error
    return Alteration(replace(shape, arrow_schema=arrow_schema), change)


def _add_constraint(call: Call, table: str, shape: TableShape, text: str) -> Alteration:
    parsed = parse_constraint(text, shape.arrow_schema)
    existing = shape.constraints
    arrow_schema = shape.arrow_schema
    match parsed.kind:
        case "CHECK":
            checks.validate_check(call, parsed.expression, arrow_schema)
            added = TableConstraints(checks=(parsed.expression,))
        case "UNIQUE":
            added = TableConstraints(unique_keys=(parsed.columns,))
        case _:
            if existing.primary_key:
                raise AlreadyExistsError("primary key of table", table)
            added = TableConstraints(primary_key=parsed.columns)
            for name in parsed.columns:
                index = find_column(arrow_schema, name)
                arrow_schema = checks.with_nullable(arrow_schema, index, nullable=False)
    constraints = TableConstraints(
        existing.checks + added.checks,
        existing.primary_key or added.primary_key,
        existing.unique_keys + added.unique_keys,
    )
    return Alteration(
        TableShape(arrow_schema, constraints),
        _renaming(arrow_schema),
        checks_nulls=bool(added.primary_key),
        to_check=added,
    )
