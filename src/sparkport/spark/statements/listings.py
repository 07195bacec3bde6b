"""SHOW, DESCRIBE and EXPLAIN: what the catalog has and how queries run, as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.guards import Privilege
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import Catalog
from sparkport.errors import NotImplementedByServerError
from sparkport.spark.query.function import Plan
from sparkport.spark.statements.definitions import kind_of
from sparkport.spark.statements.names import Names
from sparkport.spark.statements.tokens import cursor_of
from sparkport.spark.table import DeltaTable
from sparkport.sql.tokens import Cursor

_SCHEMAS = pa.schema([("namespace", pa.string())])
_TABLES = pa.schema([("namespace", pa.string()), ("tableName", pa.string()), ("isTemporary", pa.bool_())])
_COLUMN_NAMES = pa.schema([("col_name", pa.string())])
_DESCRIPTION = pa.schema([("col_name", pa.string()), ("data_type", pa.string()), ("comment", pa.string())])
_PLAN = pa.schema([("plan", pa.string())])
_REASONS = {
    "SetCommand": "settings cannot be changed, but for SET TIME ZONE 'Europe/Berlin'",
}


class Explainer(Protocol):
    """Explains queries."""

    def explain(self, call: Call, sql: str) -> str:
        """Return the plan of a query."""
        raise NotImplementedError


def listed(call: Call, catalog: Catalog, names: Names, sql: str, plan: Plan, queries: Explainer) -> pa.Table:
    """Return the rows of a SHOW, DESCRIBE or EXPLAIN. Raises NotImplementedByServerError for others."""
    cursor = cursor_of(sql)
    match kind_of(plan):
        case "ExplainCommand":
            cursor.at += 1
            _ = cursor.skip("EXTENDED") or cursor.skip("FORMATTED") or cursor.skip("COST")
            return pa.table({"plan": [queries.explain(call, cursor.rest())]}, _PLAN)
        case "ShowNamespacesCommand" | "ShowNamespaces":
            cursor.at += 2
            pattern = _pattern(cursor)
            found = [schema.name for schema in catalog.schemas(call)]
            return pa.table({"namespace": sorted(filter(pattern.fullmatch, found))}, _SCHEMAS)
        case "ShowTables":
            cursor.at += 2
            path = cursor.names() if cursor.skip("IN") or cursor.skip("FROM") else ()
            pattern = _pattern(cursor)
            schema = names.schema(path)
            tables = sorted(filter(pattern.fullmatch, (table.name for table in schema.tables(call))))
            rows = [{"namespace": schema.name, "tableName": name, "isTemporary": False} for name in tables]
            return pa.Table.from_pylist(rows, _TABLES)
        case "ShowColumns":
            cursor.at += 3
            path = cursor.names()
            if cursor.skip("IN") or cursor.skip("FROM"):
                path = (*cursor.names(), path[-1])
            columns = without_rowid(names.table(path, Privilege.BROWSE).arrow_schema)
            return pa.table({"col_name": columns.names}, _COLUMN_NAMES)
        case "DescribeRelation":
            cursor.at += 1
            cursor.skip("TABLE")
            _ = cursor.skip("EXTENDED") or cursor.skip("FORMATTED")
            table = names.table(cursor.names(), Privilege.BROWSE)
            cursor.end()
            return pa.Table.from_pylist(list(_described(table)), _DESCRIPTION)
        case kind:
            reason = _REASONS.get(kind, f"statements of the kind {kind} are not offered")
            raise NotImplementedByServerError(reason)


def _described(table: DeltaTable) -> Iterable[dict[str, str | None]]:
    """Yield the columns in the words of Spark and Arrow, then comment and constraints."""
    columns = without_rowid(table.arrow_schema)
    for field in columns:
        details = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        not_null = "" if field.nullable else " not null"
        default = f" default {details['default']}" if details.get("default") else ""
        yield _row(field.name, f"{field.type}{not_null}{default}", details.get("comment"))
    if table.comment:
        yield _row("# Comment", table.comment)
    constraints = table.constraints
    if constraints.primary_key:
        yield _row("# Primary Key", ", ".join(constraints.primary_key))
    for key in constraints.unique_keys:
        yield _row("# Unique", ", ".join(key))
    for check in constraints.checks:
        yield _row("# Check", check)


def _row(name: str, value: str, comment: str | None = None) -> dict[str, str | None]:
    return {"col_name": name, "data_type": value, "comment": comment}


def _pattern(cursor: Cursor) -> re.Pattern[str]:
    """Read the pattern of a SHOW: * stands for any text, | for or, in any letter case."""
    cursor.skip("LIKE")
    token = cursor.token
    if token is None:
        return re.compile(".*", re.DOTALL)
    cursor.at += 1
    cursor.end()
    choices = [".*".join(map(re.escape, choice.split("*"))) for choice in token.text[1:-1].split("|")]
    return re.compile("|".join(choices), re.IGNORECASE | re.DOTALL)
