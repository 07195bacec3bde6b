"""DDL: CREATE, DROP and ALTER, as the changes that catalogs know.

The columns of a CREATE TABLE are DuckDB's to read: it creates the table in its own memory, and tells what it
has understood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from sparkport.catalog.ddl import (
    AddColumn,
    ChangeColumnType,
    CreateTableOptions,
    DropNotNull,
    OnConflict,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetNotNull,
    TableChange,
)
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.sql.database import Database
from sparkport.sql.names import quoted
from sparkport.sql.tokens import Cursor, tokenize

_SCRATCH = "__sparkport_new"
_REFUSED = ("GENERATED", "REFERENCES", "FOREIGN", "SEQUENCE", "TEMP", "TEMPORARY")


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE: `query` has the rows of a CREATE TABLE AS, else `columns` is the text of the columns."""

    name: tuple[str, ...]
    on_conflict: OnConflict
    columns: str
    query: str


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE SCHEMA."""

    name: tuple[str, ...]
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE."""

    name: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class DropSchema:
    """DROP SCHEMA."""

    name: tuple[str, ...]
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE."""

    name: tuple[str, ...]
    if_exists: bool
    change: TableChange


Definition = CreateTable | CreateSchema | DropTable | DropSchema | AlterTable


def parse_definition(database: Database, sql: str) -> Definition:
    """Return what a statement of DDL asks for. Raises for what is not offered."""
    cursor = Cursor(sql, tokenize(sql))
    refused = next((token for token in cursor.tokens if token.is_word(*_REFUSED)), None)
    if refused is not None:
        raise NotImplementedByServerError(f"DDL with {refused.text.upper()} is not offered")
    if cursor.skip("CREATE"):
        return _create(cursor)
    if cursor.skip("DROP"):
        return _drop(cursor)
    cursor.expect("ALTER", "TABLE")
    if_exists = cursor.skip("IF", "EXISTS")
    name = cursor.names()
    change = _alteration(database, cursor)
    cursor.end()
    return AlterTable(name, if_exists, change)


def read_columns(database: Database, definition: CreateTable) -> tuple[pa.Schema, CreateTableOptions]:
    """Return the columns and constraints of a CREATE TABLE, as DuckDB understands them."""
    database.run("USE memory")
    database.run(f"CREATE TABLE {_SCRATCH} {definition.columns}")
    try:
        arrow_schema = database.execute(f"SELECT * FROM {_SCRATCH} LIMIT 0").table().schema
        columns = database.execute(
            "SELECT column_default, is_nullable FROM duckdb_columns() WHERE table_name = ?"
            " ORDER BY column_index",
            [_SCRATCH],
        ).rows()
        constraints = database.execute(
            "SELECT constraint_type, expression, constraint_column_names FROM duckdb_constraints()"
            " WHERE table_name = ?",
            [_SCRATCH],
        ).rows()
    finally:
        database.run(f"DROP TABLE {_SCRATCH}")
    fields = [
        field.with_metadata({"default": default} if default is not None else None)
        for field, (default, _) in zip(arrow_schema, columns, strict=True)
    ]
    return pa.schema(fields), CreateTableOptions(
        on_conflict=definition.on_conflict,
        not_null_constraints=tuple(index for index, (_, nullable) in enumerate(columns) if not nullable),
        check_constraints=tuple(text for kind, text, _ in constraints if kind == "CHECK"),
        primary_key=next((tuple(names) for kind, _, names in constraints if kind == "PRIMARY KEY"), ()),
        unique_keys=tuple(tuple(names) for kind, _, names in constraints if kind == "UNIQUE"),
    )


def _create(cursor: Cursor) -> Definition:
    replace = cursor.skip("OR", "REPLACE")
    if cursor.skip("SCHEMA"):
        if_not_exists = cursor.skip("IF", "NOT", "EXISTS")
        name = cursor.names()
        cursor.end()
        return CreateSchema(name, if_not_exists)
    if not cursor.skip("TABLE"):
        raise _not_offered("CREATE", cursor)
    on_conflict = OnConflict.REPLACE if replace else OnConflict.ERROR
    if cursor.skip("IF", "NOT", "EXISTS"):
        on_conflict = OnConflict.IGNORE
    name = cursor.names()
    if cursor.skip("AS"):
        return CreateTable(name, on_conflict, "", cursor.rest())
    return CreateTable(name, on_conflict, cursor.rest(), "")


def _drop(cursor: Cursor) -> Definition:
    is_schema = cursor.skip("SCHEMA")
    if not is_schema and not cursor.skip("TABLE"):
        raise _not_offered("DROP", cursor)
    if_exists = cursor.skip("IF", "EXISTS")
    name = cursor.names()
    cascade = cursor.skip("CASCADE")
    cursor.skip("RESTRICT")
    cursor.end()
    return DropSchema(name, if_exists, cascade) if is_schema else DropTable(name, if_exists)


def _alteration(database: Database, cursor: Cursor) -> TableChange:
    if cursor.skip("RENAME", "TO"):
        return RenameTable(cursor.name())
    kinds: dict[str, Callable[[Database, Cursor], TableChange]] = {
        "ADD": _add_column,
        "DROP": _drop_column,
        "RENAME": _rename_column,
        "ALTER": _alter_column,
    }
    token = cursor.token
    kind = kinds.get(token.text.upper()) if token is not None else None
    if kind is None:
        raise _not_offered("ALTER TABLE", cursor)
    cursor.at += 1
    cursor.skip("COLUMN")
    return kind(database, cursor)


def _add_column(database: Database, cursor: Cursor) -> AddColumn:
    if_not_exists = cursor.skip("IF", "NOT", "EXISTS")
    definition = CreateTable((), OnConflict.ERROR, f"(\n{cursor.rest()}\n)", "")
    arrow_schema, options = read_columns(database, definition)
    if len(arrow_schema) != 1 or options.primary_key or options.unique_keys or options.check_constraints:
        raise InvalidRequestError("ADD COLUMN adds one column without constraints but NOT NULL")
    return AddColumn(
        arrow_schema.field(0).with_nullable(not options.not_null_constraints), if_not_exists=if_not_exists
    )


def _drop_column(database: Database, cursor: Cursor) -> RemoveColumn:
    del database
    if_exists = cursor.skip("IF", "EXISTS")
    name = cursor.name()
    return RemoveColumn(name, if_exists, cascade=cursor.skip("CASCADE"))


def _rename_column(database: Database, cursor: Cursor) -> RenameColumn:
    del database
    name = cursor.name()
    cursor.expect("TO")
    return RenameColumn(name, cursor.name())


def _alter_column(database: Database, cursor: Cursor) -> TableChange:
    name = cursor.name()
    if cursor.skip("SET", "DEFAULT"):
        return SetDefault(name, cursor.rest())
    if cursor.skip("DROP", "DEFAULT"):
        return SetDefault(name, "")
    if cursor.skip("SET", "NOT", "NULL"):
        return SetNotNull(name)
    if cursor.skip("DROP", "NOT", "NULL"):
        return DropNotNull(name)
    cursor.skip("SET", "DATA")
    cursor.expect("TYPE")
    kind = cursor.until("USING")
    expression = cursor.rest() if cursor.skip("USING") else ""
    columns = CreateTable((), OnConflict.ERROR, f"({quoted(name)} {kind})", "")
    arrow_schema, _ = read_columns(database, columns)
    return ChangeColumnType(name, arrow_schema.field(0).type, expression)


def _not_offered(statement: str, cursor: Cursor) -> NotImplementedByServerError:
    word = cursor.token.text.upper() if cursor.token else ""
    return NotImplementedByServerError(f"{statement} {word} is not offered")
