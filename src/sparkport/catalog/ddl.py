"""Changing what exists: schemas, tables, columns.

Names are matched without regard to letter case, as DuckDB does; a name that
differs only in case from an existing one is a conflict.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.rowid import is_rowid
from sparkport.catalog.scan import TimePoint
from sparkport.catalog.tables import Catalog, Schema, Table
from sparkport.errors import InvalidRequestError


class OnConflict(enum.StrEnum):
    """What CREATE TABLE does when the table exists."""

    ERROR = "error"
    IGNORE = "ignore"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class CreateSchemaOptions:
    """How a schema is made."""

    comment: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropSchemaOptions:
    """How a schema is dropped; `cascade` drops its tables too."""

    ignore_not_found: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateTableOptions:
    """How a table is made.

    Constraints by index refer to columns by position; `table_constraints` are in
    SQL, such as `UNIQUE(a, b)`. With `partition_columns` rows are kept apart by their values, with
    `cluster_columns` near to rows with similar ones; who cannot do that raises UnsupportedOperationError.
    """

    on_conflict: OnConflict = OnConflict.ERROR
    comment: str = ""
    not_null_constraints: tuple[int, ...] = ()
    unique_constraints: tuple[int, ...] = ()
    check_constraints: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()
    table_constraints: tuple[str, ...] = ()
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTableOptions:
    """How a table is dropped."""

    ignore_not_found: bool = False


@dataclass(frozen=True, slots=True)
class AddColumnOptions:
    """How a column is added; `ignore_not_found` is about the table."""

    if_column_not_exists: bool = False
    ignore_not_found: bool = False


@dataclass(frozen=True, slots=True)
class RemoveColumnOptions:
    """How a column is removed; `ignore_not_found` is about the table."""

    if_column_exists: bool = False
    ignore_not_found: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ALTER TABLE ... ADD COLUMN."""

    column: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RemoveColumn:
    """ALTER TABLE ... DROP COLUMN."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """ALTER TABLE ... RENAME COLUMN ... TO."""

    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE ... RENAME TO."""

    new_name: str


@dataclass(frozen=True, slots=True)
class ChangeColumnType:
    """ALTER TABLE ... ALTER ... TYPE ... USING, with the expression in DuckDB's SQL."""

    name: str
    arrow_type: pa.DataType
    expression: str = ""


@dataclass(frozen=True, slots=True)
class SetDefault:
    """ALTER TABLE ... ALTER ... SET DEFAULT; an empty expression drops the default."""

    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class SetNotNull:
    """ALTER TABLE ... ALTER ... SET NOT NULL."""

    column: str


@dataclass(frozen=True, slots=True)
class DropNotNull:
    """ALTER TABLE ... ALTER ... DROP NOT NULL."""

    column: str


@dataclass(frozen=True, slots=True)
class AddField:
    """ALTER TABLE ... ADD COLUMN s.f: `path` names the parent struct."""

    path: tuple[str, ...]
    field: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameField:
    """ALTER TABLE ... RENAME COLUMN s.f TO g: `path` names the field."""

    path: tuple[str, ...]
    new_name: str


@dataclass(frozen=True, slots=True)
class RemoveField:
    """ALTER TABLE ... DROP COLUMN s.f: `path` names the field."""

    path: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ALTER TABLE ... ADD constraint, in SQL: CHECK, UNIQUE or PRIMARY KEY."""

    constraint: str


@dataclass(frozen=True, slots=True)
class SetComment:
    """COMMENT ON a table, or on one of its columns; an empty text removes the comment."""

    comment: str
    column: str | None = None


TableChange = (
    AddColumn
    | RemoveColumn
    | RenameColumn
    | RenameTable
    | ChangeColumnType
    | SetDefault
    | SetNotNull
    | DropNotNull
    | AddField
    | RenameField
    | RemoveField
    | AddConstraint
    | SetComment
)


@runtime_checkable
class DynamicTable(Table, Protocol):
    """A table that can be altered."""

    @abstractmethod
    def alter(self, call: Call, change: TableChange) -> None:
        """Apply one change, wholly or not at all.

        Raises NotFoundError (column or field), AlreadyExistsError, LastColumnError,
        ConstraintViolationError (existing rows), InvalidRequestError.
        """
        raise NotImplementedError

    def add_column(
        self, call: Call, column_schema: pa.Schema, options: AddColumnOptions | None = None
    ) -> None:
        """Add the single column of `column_schema`.

        Raises AlreadyExistsError unless `if_column_not_exists`.
        """
        if len(column_schema) != 1:
            raise InvalidRequestError(
                f"a column schema has exactly one field, this one has {len(column_schema)}"
            )
        options = options or AddColumnOptions()
        self.alter(call, AddColumn(column_schema.field(0), options.if_column_not_exists))

    def remove_column(self, call: Call, name: str, options: RemoveColumnOptions | None = None) -> None:
        """Remove a column. Raises NotFoundError unless `if_column_exists`."""
        options = options or RemoveColumnOptions()
        self.alter(call, RemoveColumn(name, options.if_column_exists, options.cascade))


@runtime_checkable
class DynamicSchema(Schema, Protocol):
    """A schema in which tables can be made and dropped."""

    @abstractmethod
    def create_table(
        self, call: Call, name: str, arrow_schema: pa.Schema, options: CreateTableOptions
    ) -> Table:
        """Make a table, or return the existing one with `OnConflict.IGNORE`.

        Raises AlreadyExistsError with `OnConflict.ERROR`, InvalidRequestError for
        an empty name, no or duplicate columns, or a constraint that makes no sense.
        """
        raise NotImplementedError

    @abstractmethod
    def drop_table(self, call: Call, name: str, options: DropTableOptions) -> None:
        """Drop a table. Raises NotFoundError unless `ignore_not_found`."""
        raise NotImplementedError


@runtime_checkable
class RevertibleSchema(DynamicSchema, Protocol):
    """A schema that can take back a CREATE TABLE when the rows that were to follow do not come."""

    @abstractmethod
    def revert_create(self, call: Call, name: str, made: TimePoint) -> bool:
        """Drop a table if nobody has changed it since it was `made`, and say whether that was so.

        `made` is its snapshot right after CREATE TABLE. No writer may come in between.
        """
        raise NotImplementedError


@runtime_checkable
class DynamicCatalog(Catalog, Protocol):
    """A catalog in which schemas can be made and dropped."""

    @abstractmethod
    def create_schema(self, call: Call, name: str, options: CreateSchemaOptions) -> Schema:
        """Make a schema. Raises AlreadyExistsError, InvalidRequestError (empty name)."""
        raise NotImplementedError

    @abstractmethod
    def drop_schema(self, call: Call, name: str, options: DropSchemaOptions) -> int:
        """Drop a schema and return how many tables went with it.

        Raises NotFoundError unless `ignore_not_found`, and SchemaNotEmptyError if
        it has tables and `cascade` is not set, or anything that the catalog does not know.
        """
        raise NotImplementedError


@runtime_checkable
class TaggedSchema(Schema, Protocol):
    """A schema with free-form tags."""

    @property
    @abstractmethod
    def tags(self) -> Mapping[str, str]:
        """Key-value pairs shown to clients."""
        raise NotImplementedError


def check_new_columns(arrow_schema: pa.Schema) -> None:
    """Make sure that a table can have these columns. Raises InvalidRequestError."""
    if not len(arrow_schema):
        raise InvalidRequestError("a table needs at least one column")
    seen: set[str] = set()
    for column in arrow_schema:
        if not column.name:
            raise InvalidRequestError("a column needs a name")
        if column.name.lower() in seen:
            raise InvalidRequestError(f"column '{column.name}' is given twice")
        if is_rowid(column):
            raise InvalidRequestError("the row id column is made by the server")
        seen.add(column.name.lower())
