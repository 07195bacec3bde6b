"""Add, rename and remove fields of struct columns, at any depth."""

from __future__ import annotations

import pyarrow as pa

from sparkport.errors import AlreadyExistsError, InvalidRequestError, LastColumnError, NotFoundError

Column = tuple[pa.Field, pa.Array | None]
"""A field with its values; None if only the type is needed."""


def add_field(column: Column, path: tuple[str, ...], field: pa.Field, *, if_exists: bool) -> Column:
    """Add a field to the struct that `path` names; existing rows get null."""
    if not field.name:
        raise InvalidRequestError("a field needs a name")
    parts = _fields_at(column, path)
    if _position(parts, field.name) is not None:
        if if_exists:
            return column
        raise AlreadyExistsError("field", ".".join((*path, field.name)))
    # The children of a struct are as long as the struct itself, at every depth.
    values = None if column[1] is None else pa.nulls(len(column[1]), field.type)
    return _rebuild(column, path, [*parts, (field, values)])


def rename_field(column: Column, path: tuple[str, ...], new_name: str) -> Column:
    """Rename the field that `path` names."""
    if not new_name:
        raise InvalidRequestError("a field needs a name")
    parts = _fields_at(column, path[:-1])
    position = _require_position(parts, path)
    if _position(parts, new_name) not in {None, position}:
        raise AlreadyExistsError("field", ".".join((*path[:-1], new_name)))
    field, values = parts[position]
    parts[position] = (field.with_name(new_name), values)
    return _rebuild(column, path[:-1], parts)


def remove_field(column: Column, path: tuple[str, ...], *, if_exists: bool) -> Column:
    """Remove the field that `path` names."""
    parts = _fields_at(column, path[:-1])
    if if_exists and _position(parts, path[-1]) is None:
        return column
    position = _require_position(parts, path)
    if len(parts) == 1:
        raise LastColumnError(".".join(path[:-1]), path[-1])
    return _rebuild(column, path[:-1], parts[:position] + parts[position + 1 :])


def _fields_at(column: Column, path: tuple[str, ...]) -> list[Column]:
    """Return the fields of the struct at the end of the path, which starts with the column."""
    if not path:
        raise InvalidRequestError("a field path needs a column and a field")
    parts = _fields(column, path[0])
    for step in path[1:]:
        parts = _fields(parts[_require_position(parts, (step,))], step)
    return parts


def _fields(column: Column, name: str) -> list[Column]:
    field, values = column
    if not isinstance(field.type, pa.StructType):
        raise InvalidRequestError(f"'{name}' is not a struct")
    count = field.type.num_fields
    return [(field.type.field(i), None if values is None else values.field(i)) for i in range(count)]


def _rebuild(column: Column, path: tuple[str, ...], parts: list[Column]) -> Column:
    """Return the column with other fields in the struct at `path`."""
    field, values = column
    if len(path) > 1:
        own = _fields(column, path[0])
        position = _require_position(own, (path[1],))
        own[position] = _rebuild(own[position], path[1:], parts)
        parts = own
    fields = [part for part, _ in parts]
    changed = field.with_type(pa.struct(fields))
    if values is None:
        return changed, None
    mask = values.is_null() if values.null_count else None
    return changed, pa.StructArray.from_arrays([array for _, array in parts], fields=fields, mask=mask)


def _position(parts: list[Column], name: str) -> int | None:
    return next((i for i, (field, _) in enumerate(parts) if field.name.lower() == name.lower()), None)


def _require_position(parts: list[Column], path: tuple[str, ...]) -> int:
    position = _position(parts, path[-1])
    if position is None:
        raise NotFoundError("field", ".".join(path), [field.name for field, _ in parts])
    return position
