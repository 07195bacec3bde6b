"""CREATE, DROP and ALTER in Spark SQL, as the changes that catalogs know.

Types come from the plan that Spark's parser has made, names and the order of the parts from the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sparkport.catalog.ddl import (
    AddColumn,
    AddConstraint,
    ChangeColumnType,
    CreateTableOptions,
    DropNotNull,
    OnConflict,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    SetComment,
    SetDefault,
    SetNotNull,
    TableChange,
)
from sparkport.errors import InvalidRequestError, NotImplementedByServerError
from sparkport.spark.external.table import exact_schema
from sparkport.spark.query.function import Plan
from sparkport.sql.tokens import Cursor

_REFUSED = ("TBLPROPERTIES", "OPTIONS", "LOCATION", "CLUSTERED", "STORED", "ROW")
_FORMATS = (None, "delta")

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of a new table go."""

    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()


def kind_of(plan: Plan) -> str:
    """Return the kind of a statement in Spark's word for it."""
    return str(plan[0]["class"]).rpartition(".")[2]


def new_columns(plan: Plan, on_conflict: OnConflict, layout: Layout) -> tuple[pa.Schema, CreateTableOptions]:
    """Return the columns and constraints of a CREATE TABLE. Raises for what a table here cannot have."""
    fields = [_column(nodes[0], nodes[0]["name"]) for nodes in plan[0]["columns"]]
    constraints = list(_constraints(plan[0]["tableSpec"]))
    options = CreateTableOptions(
        on_conflict=on_conflict,
        comment=_table_comment(plan),
        not_null_constraints=tuple(index for index, field in enumerate(fields) if not field.nullable),
        table_constraints=tuple(constraints),
        partition_columns=layout.partition_columns,
        cluster_columns=layout.cluster_columns,
    )
    return pa.schema(fields), options


def table_options(plan: Plan, layout: Layout) -> CreateTableOptions:
    """Return what a CREATE TABLE AS says of its table."""
    return CreateTableOptions(
        comment=_table_comment(plan),
        partition_columns=layout.partition_columns,
        cluster_columns=layout.cluster_columns,
    )


def layout_of(cursor: Cursor, plan: Plan) -> Layout:
    """Return what PARTITIONED BY and CLUSTER BY say, from the table name, where the cursor is, to its query.

    Raises NotImplementedByServerError for other clauses that say how and where a table is stored.
    """
    layout = Layout()
    for at, token in enumerate(cursor.tokens[cursor.at :], cursor.at):
        if token.depth == 0 and token.is_word("AS"):
            break
        if token.depth == 0 and token.is_word("PARTITIONED"):
            clause = Cursor(cursor.sql, cursor.tokens, at)
            clause.expect("PARTITIONED", "BY", "(")
            layout = replace(layout, partition_columns=_column_names(clause, "PARTITIONED BY"))
        if token.depth == 0 and token.is_word("CLUSTER"):
            clause = Cursor(cursor.sql, cursor.tokens, at)
            clause.expect("CLUSTER", "BY", "(")
            layout = replace(layout, cluster_columns=_column_names(clause, "CLUSTER BY"))
        if token.depth == 0 and token.is_word(*_REFUSED):
            raise NotImplementedByServerError(f"CREATE TABLE is not offered with {token.text.upper()}")
    provider = plan[0]["tableSpec"][0].get("provider")
    if provider not in _FORMATS:
        raise NotImplementedByServerError(f"tables are kept in the format delta, not {provider}")
    return layout


def _column_names(clause: Cursor, words: str) -> tuple[str, ...]:
    names = [clause.name()]
    while clause.skip(","):
        names.append(clause.name())
    if not clause.skip(")"):
        raise NotImplementedByServerError(f"{words} takes the names of columns of the table alone")
    return tuple(names)


def table_changes(cursor: Cursor, plan: Plan) -> list[TableChange]:
    """Return what an ALTER TABLE changes; the cursor is behind the table's name."""
    root = plan[0]
    match kind_of(plan):
        case "AddColumns":
            return [AddColumn(_column(nodes[0], _top_level(nodes[0]))) for nodes in root["columnsToAdd"]]
        case "DropColumns":
            cursor.expect("DROP")
            _ = cursor.skip("COLUMNS") or cursor.skip("COLUMN")
            if_exists = cursor.skip("IF", "EXISTS")
            return [RemoveColumn(name, if_exists) for name in _names(cursor)]
        case "RenameColumn":
            cursor.expect("RENAME", "COLUMN")
            old = _whole(cursor.names())
            cursor.expect("TO")
            return [RenameColumn(old, cursor.name())]
        case "RenameTable":
            cursor.expect("RENAME", "TO")
            path = cursor.names()
            if len(path) > 1:
                raise NotImplementedByServerError("a table stays in its schema: RENAME TO takes a name alone")
            return [RenameTable(path[0])]
        case "AlterColumns":
            return _column_changes(cursor, root)
        case "AlterTableAddConstraint":
            cursor.expect("ADD", "CONSTRAINT")
            cursor.name()
            return [AddConstraint(cursor.rest())]
        case kind:
            raise NotImplementedByServerError(f"ALTER TABLE is not offered with this ({kind})")


def table_comment(plan: Plan) -> SetComment:
    """Return the change of a COMMENT ON TABLE."""
    return SetComment(str(plan[0].get("comment") or ""))


def _column_changes(cursor: Cursor, root: Node) -> list[TableChange]:
    _ = cursor.skip("ALTER") or cursor.skip("CHANGE")
    cursor.skip("COLUMN")
    name = _whole(cursor.names())
    if len(root["specs"]) != 1:
        raise NotImplementedByServerError("ALTER TABLE alters one column at a time")
    spec = root["specs"][0][0]
    if spec.get("newPosition") is not None:
        raise NotImplementedByServerError("positions of columns cannot be altered")
    changes: list[TableChange] = []
    if spec.get("newComment") is not None:
        changes.append(SetComment(str(spec["newComment"]), name))
    if spec.get("newDataType") is not None:
        changes.append(ChangeColumnType(name, _arrow_field(name, spec["newDataType"]).type))
    if spec.get("newNullability") is not None:
        changes.append(DropNotNull(name) if spec["newNullability"] else SetNotNull(name))
    if spec.get("newDefaultExpression") is not None:
        changes.append(SetDefault(name, _default(spec["newDefaultExpression"])))
    if spec.get("dropDefault"):
        changes.append(SetDefault(name, ""))
    if len(changes) != 1:
        raise NotImplementedByServerError("ALTER TABLE alters one thing of a column at a time")
    return changes


def _column(node: Node, name: str) -> pa.Field:
    if node.get("generationExpression") is not None or node.get("identityColumnSpec") is not None:
        raise NotImplementedByServerError("generated columns are not offered")
    field = _arrow_field(name, node["dataType"]).with_nullable(bool(node.get("nullable", True)))
    details = dict(field.metadata or {})
    if node.get("comment"):
        details[b"comment"] = str(node["comment"]).encode()
    default = node.get("defaultValue") or node.get("default")
    if default:
        details[b"default"] = _default(default).encode()
    return field.with_metadata(details or None)


def _arrow_field(name: str, spark_type: Any) -> pa.Field:  # noqa: ANN401  (JSON)
    described = {"name": name, "type": spark_type, "nullable": True, "metadata": {}}
    return exact_schema(json.dumps({"type": "struct", "fields": [described]})).field(0)


def _constraints(table_spec: Sequence[Node]) -> Iterator[str]:
    for node in table_spec:
        match str(node["class"]).rpartition(".")[2]:
            case "CheckConstraint":
                yield f"CHECK ({node['condition']})"
            case "PrimaryKeyConstraint":
                yield f"PRIMARY KEY ({_key(node)})"
            case "UniqueConstraint":
                yield f"UNIQUE ({_key(node)})"
            case "ForeignKeyConstraint":
                raise NotImplementedByServerError("foreign keys are not offered")


def _key(node: Node) -> str:
    names = str(node["columns"]).removeprefix("[").removesuffix("]").split(", ")
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def _table_comment(plan: Plan) -> str:
    return str(plan[0]["tableSpec"][0].get("comment") or "")


def _default(value: Any) -> str:  # noqa: ANN401  (JSON)
    return str(value[0]["originalSQL"])


def _top_level(node: Node) -> str:
    if node.get("path") is not None:
        raise NotImplementedByServerError("fields of a column cannot be added in SQL")
    if node.get("position") is not None:
        raise NotImplementedByServerError("a new column comes last: leave out FIRST and AFTER")
    return str(node["colName"])


def _names(cursor: Cursor) -> list[str]:
    in_parentheses = cursor.skip("(")
    names = [_whole(cursor.names())]
    while cursor.skip(","):
        names.append(_whole(cursor.names()))
    if in_parentheses:
        cursor.expect(")")
    return names


def _whole(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        raise InvalidRequestError("fields of a column cannot be altered in SQL")
    return names[0]
