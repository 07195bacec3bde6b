"""The row id: a hidden column that names a row for UPDATE and DELETE."""

from __future__ import annotations

import functools

import pyarrow as pa

ROWID = "rowid"
_MARK = b"is_rowid"


@functools.lru_cache(maxsize=64)  # it takes longer to make than most of a look-up
def rowid_field(name: str = ROWID) -> pa.Field:
    """Return the field that marks the row id column of a table."""
    return pa.field(name, pa.int64(), nullable=False, metadata={_MARK: b"1"})


def with_rowid(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the schema with a row id field as its last, under a name that is free."""
    name = ROWID
    while name in (known.lower() for known in arrow_schema.names):
        name = f"_{name}"
    return arrow_schema.append(rowid_field(name))


def is_rowid(field: pa.Field) -> bool:
    """Say whether a field is marked as the row id."""
    return bool((field.metadata or {}).get(_MARK))


def rowid_name(arrow_schema: pa.Schema) -> str | None:
    """Return the name of the row id column, or None."""
    return next((field.name for field in arrow_schema if is_rowid(field)), None)


def without_rowid(arrow_schema: pa.Schema) -> pa.Schema:
    """Return the columns that users see, with the schema's metadata."""
    name = rowid_name(arrow_schema)
    return arrow_schema if name is None else arrow_schema.remove(arrow_schema.get_field_index(name))
