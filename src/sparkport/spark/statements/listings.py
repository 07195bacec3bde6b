"""SHOW, DESCRIBE and EXPLAIN: what the catalog has and how queries run, as rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.guards import Privilege, view_of
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import HasTableKind, Table, TableKind
from sparkport.errors import NotImplementedByServerError
from sparkport.spark.functions.description import Detail, History
from sparkport.spark.query.function import Plan
from sparkport.spark.statements.definitions import kind_of
from sparkport.spark.statements.descriptions import (
    create_statement,
    described,
    described_column,
    described_columns,
    properties,
)
from sparkport.spark.statements.function_calls import run_function
from sparkport.spark.statements.names import Names
from sparkport.spark.statements.tokens import cursor_of
from sparkport.sql.tokens import Cursor

_SCHEMAS = pa.schema([("namespace", pa.string())])
_TABLES = pa.schema([("namespace", pa.string()), ("tableName", pa.string()), ("isTemporary", pa.bool_())])
_VIEWS = pa.schema([("namespace", pa.string()), ("viewName", pa.string()), ("isTemporary", pa.bool_())])
_COLUMN_NAMES = pa.schema([("col_name", pa.string())])
_CURRENT = pa.schema([("catalog", pa.string()), ("namespace", pa.string())])
_PLAN = pa.schema([("plan", pa.string())])
_REASONS = {
    "SetCommand": "this setting cannot be changed; SET alone tells which settings a session has",
}


class Explainer(Protocol):
    """Explains queries, and tells their columns."""

    def schema_for_parameters(self, call: Call, parameters: Sequence[Any]) -> pa.Schema:
        """Return the columns of a query."""
        raise NotImplementedError

    def explain(self, call: Call, sql: str) -> str:
        """Return the plan of a query."""
        raise NotImplementedError


def listed(
    call: Call, names: Names, sql: str, plan: Plan, queries: Explainer, functions: Sequence[TableFunction]
) -> pa.Table:
    """Return the rows of a SHOW, DESCRIBE or EXPLAIN. Raises NotImplementedByServerError for others.

    `functions` are those of the catalog, which DESCRIBE HISTORY and DETAIL run.
    """
    cursor = cursor_of(sql)
    match kind_of(plan):
        case "ExplainCommand":
            cursor.at += 1
            _ = cursor.skip("EXTENDED") or cursor.skip("FORMATTED") or cursor.skip("COST")
            return pa.table({"plan": [queries.explain(call, cursor.rest())]}, _PLAN)
        case "ShowNamespacesCommand" | "ShowNamespaces":
            cursor.at += 2
            pattern = _pattern(cursor)
            found = [schema.name for schema in view_of(call, names.catalog).schemas(call)]
            return pa.table({"namespace": sorted(filter(pattern.fullmatch, found))}, _SCHEMAS)
        case "ShowCurrentNamespaceCommand":
            row = {"catalog": names.statement.catalog, "namespace": names.schema_name(())}
            return pa.Table.from_pylist([row], _CURRENT)
        case "ShowTables" | "ShowViews":
            cursor.at += 2
            path = cursor.names() if cursor.skip("IN") or cursor.skip("FROM") else ()
            pattern = _pattern(cursor)
            schema = names.schema(path)
            shown = schema.tables(call) if kind_of(plan) == "ShowTables" else _views(schema.tables(call))
            found = sorted(filter(pattern.fullmatch, (table.name for table in shown)))
            columns = [[schema.name] * len(found), found, [False] * len(found)]
            return pa.table(columns, schema=_TABLES if kind_of(plan) == "ShowTables" else _VIEWS)
        case "ShowColumns":
            cursor.at += 3
            path = cursor.names()
            if cursor.skip("IN") or cursor.skip("FROM"):
                path = (*cursor.names(), path[-1])
            columns = without_rowid(current_arrow_schema(call, names.seen_table(path)))
            return pa.table({"col_name": columns.names}, _COLUMN_NAMES)
        case "DescribeDeltaHistory" | "DescribeDeltaDetailCommand":
            cursor.at += 1
            name = Detail.name if cursor.skip("DETAIL") else History.name
            cursor.skip("HISTORY")
            cursor.skip("TABLE")
            table = names.table(cursor.names(), Privilege.SELECT)
            cursor.end()
            return run_function(call, functions, name, [str(table)])
        case kind:
            return _described(call, names, cursor, kind, queries)


def _views(tables: Sequence[Table]) -> Sequence[Table]:
    return [t for t in tables if isinstance(t, HasTableKind) and t.table_kind is TableKind.VIEW]


def _described(call: Call, names: Names, cursor: Cursor, kind: str, queries: Explainer) -> pa.Table:
    match kind:
        case "ShowCreateTable":
            cursor.expect("SHOW", "CREATE", "TABLE")
            shown = names.table_or_view(cursor.names(), Privilege.BROWSE)
            cursor.end()
            return create_statement(shown)
        case "ShowTableProperties":
            cursor.expect("SHOW", "TBLPROPERTIES")
            table = names.table(cursor.names(), Privilege.BROWSE)
            return properties(table, _key(cursor))
        case "DescribeRelation" | "DescribeColumn":
            cursor.at += 1
            cursor.skip("TABLE")
            _ = cursor.skip("EXTENDED") or cursor.skip("FORMATTED")
            seen = names.seen_table(cursor.names())
            column = cursor.name() if kind == "DescribeColumn" else None
            cursor.end()
            return described(call, seen) if column is None else described_column(call, seen, column)
        case "DescribeQueryCommand":
            cursor.at += 1
            cursor.skip("QUERY")
            return described_columns(queries.schema_for_parameters(call, [cursor.rest()]))
        case _:
            reason = _REASONS.get(kind, f"statements of the kind {kind} are not offered")
            raise NotImplementedByServerError(reason)


def _key(cursor: Cursor) -> str | None:
    """Read the property that SHOW TBLPROPERTIES may ask for, a text or a name with dots."""
    if not cursor.skip("("):
        cursor.end()
        return None
    token = cursor.token
    if token is not None and token.text[:1] in "'\"":
        cursor.at += 1
        key = token.text[1:-1]
    else:
        key = ".".join(cursor.names())
    cursor.expect(")")
    cursor.end()
    return key


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
