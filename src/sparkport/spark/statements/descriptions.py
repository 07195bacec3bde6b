"""DESCRIBE, SHOW CREATE TABLE and SHOW TBLPROPERTIES: what a table is, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import ConstrainedTable, Table, TableConstraints
from sparkport.errors import NotFoundError
from sparkport.spark.delta.log.actions import Metadata
from sparkport.spark.delta.log.spark_fields import SparkField, SparkType, struct_fields
from sparkport.spark.model.columns import ROWID_KEY
from sparkport.spark.model.constraints import all_constraints
from sparkport.spark.sql_names import literal, quoted
from sparkport.spark.table import DeltaTable
from sparkport.spark.types import DEFAULT_KEY
from sparkport.spark.views.definition import ViewDefinition
from sparkport.spark.views.table import ViewTable

DESCRIPTION = pa.schema([("col_name", pa.string()), ("data_type", pa.string()), ("comment", pa.string())])
COLUMN = pa.schema([("info_name", pa.string()), ("info_value", pa.string())])
STATEMENT = pa.schema([("createtab_stmt", pa.string())])
PROPERTIES = pa.schema([("key", pa.string()), ("value", pa.string())])
_SPARK_DEFAULT = "CURRENT_DEFAULT"
_WORDS = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def described(call: Call, table: Table) -> pa.Table:
    """Return the columns in the words of Arrow, then comment and constraints, as the caller sees them."""
    return pa.Table.from_pylist(list(_description(call, table)), DESCRIPTION)


def described_columns(columns: pa.Schema) -> pa.Table:
    """Return the columns of a query."""
    rows = [_row(field.name, str(field.type)) for field in columns]
    return pa.Table.from_pylist(rows, DESCRIPTION)


def described_column(call: Call, table: Table, name: str) -> pa.Table:
    """Return what is known of one column. Raises NotFoundError."""
    columns = without_rowid(current_arrow_schema(call, table))
    field = next((field for field in columns if field.name.lower() == name.lower()), None)
    if field is None:
        raise NotFoundError("column", name, columns.names)
    row = _column_row(field)
    facts = [("col_name", row["col_name"]), ("data_type", row["data_type"]), ("comment", row["comment"])]
    return pa.table([list(column) for column in zip(*facts, strict=True)], schema=COLUMN)


def properties(table: DeltaTable, key: str | None) -> pa.Table:
    """Return the properties of a table, or one of them. Raises NotFoundError."""
    found = dict(sorted(table.versions.header().metadata.configuration.items()))
    if key is not None:
        if key not in found:
            raise NotFoundError("table property", key, found)
        found = {key: found[key]}
    return pa.table([list(found), list(found.values())], schema=PROPERTIES)


def create_statement(table: DeltaTable | ViewTable) -> pa.Table:
    """Return the statement that makes a table or view like this one, in the SQL of this server.

    A column whose exact type Spark's SQL has no word for has the type that stores it.
    """
    if isinstance(table, ViewTable):
        return pa.table([[_create_view(table.definition)]], schema=STATEMENT)
    metadata = table.versions.header().metadata
    parts = [*map(_column, _shown(metadata)), *_constraints(metadata)]
    lines = [f"CREATE TABLE {quoted(table.schema, table.name)} (", ",\n".join(f"  {part}" for part in parts)]
    lines += [")", "USING delta"]
    if metadata.partition_columns:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, metadata.partition_columns))})")
    if metadata.description:
        lines.append(f"COMMENT {literal(metadata.description)}")
    return pa.table([["\n".join(lines)]], schema=STATEMENT)


def _create_view(view: ViewDefinition) -> str:
    comments = (str(field.metadata.get("comment") or "") for field in view.fields)
    columns = (
        quoted(field.name) + (f" COMMENT {literal(comment)}" if comment else "")
        for field, comment in zip(view.fields, comments, strict=True)
    )
    comment = f" COMMENT {literal(view.comment)}" if view.comment else ""
    return f"CREATE VIEW {quoted(*view.path)} ({', '.join(columns)}){comment} AS\n{view.sql}"


def _description(call: Call, table: Table) -> Iterable[dict[str, str | None]]:
    yield from map(_column_row, without_rowid(current_arrow_schema(call, table)))
    if table.comment:
        yield _row("# Comment", table.comment)
    constraints = table.constraints if isinstance(table, ConstrainedTable) else TableConstraints()
    if constraints.primary_key:
        yield _row("# Primary Key", ", ".join(constraints.primary_key))
    for key in constraints.unique_keys:
        yield _row("# Unique", ", ".join(key))
    for check in constraints.checks:
        yield _row("# Check", check)


def _column_row(field: pa.Field) -> dict[str, str | None]:
    details = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    not_null = "" if field.nullable else " not null"
    default = f" default {details['default']}" if details.get("default") else ""
    return _row(field.name, f"{field.type}{not_null}{default}", details.get("comment"))


def _row(name: str, value: str, comment: str | None = None) -> dict[str, str | None]:
    return {"col_name": name, "data_type": value, "comment": comment}


def _shown(metadata: Metadata) -> Iterator[SparkField]:
    return (field for field in metadata.fields if ROWID_KEY not in field.metadata)


def _column(field: SparkField) -> str:
    default = field.metadata.get(DEFAULT_KEY, field.metadata.get(_SPARK_DEFAULT))
    return _field(field, " ") + (f" DEFAULT {default}" if default else "")


def _field(field: SparkField, separator: str) -> str:
    comment = field.metadata.get("comment")
    return (
        f"{quoted(field.name)}{separator}{_sql_type(field.type)}"
        + ("" if field.nullable else " NOT NULL")
        + (f" COMMENT {literal(str(comment))}" if comment else "")
    )


def _sql_type(spark_type: SparkType) -> str:
    """Return a type in Spark's SQL."""
    match spark_type:
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{_sql_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{_sql_type(key)}, {_sql_type(value)}>"
        case {"type": "struct"}:
            return f"STRUCT<{', '.join(_field(field, ': ') for field in struct_fields(spark_type))}>"
        case str():
            return _WORDS.get(spark_type, spark_type.upper())
        case _:  # a class of another program's, with the type that stores it
            return _sql_type(spark_type["sqlType"])


def _constraints(metadata: Metadata) -> Iterator[str]:
    constraints = all_constraints(metadata)
    if constraints.primary_key:
        yield f"PRIMARY KEY ({', '.join(map(quoted, constraints.primary_key))})"
    for key in constraints.unique_keys:
        yield f"UNIQUE ({', '.join(map(quoted, key))})"
    for check in constraints.checks:
        yield f"CHECK ({check})"
