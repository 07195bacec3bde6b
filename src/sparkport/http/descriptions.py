"""What the console shows of databases, schemas and tables."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sparkport.catalog.call import Call
from sparkport.catalog.functions import TableFunction
from sparkport.catalog.lookup import FUNCTIONS_SCHEMA, current_arrow_schema, find_schema, find_table
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Catalog, ConstrainedTable, Table, VersionedTable
from sparkport.errors import NotFoundError, SparkportError
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.catalog_listing import list_each
from sparkport.http.json_rows import columns_of, json_columns

__all__ = ["describe_table", "list_databases"]

_MAX_HISTORY = 1000


def list_databases(context: ServerContext, call: Call) -> list[dict[str, Any]]:
    """Return all databases with their schemas and the names of their tables."""

    def contents(catalog: Catalog) -> list[dict[str, Any]]:
        shown = []
        for schema in catalog.schemas(call):
            tables: list[dict[str, Any]] = []
            with suppress(NotFoundError):  # dropped in the meantime, as tables may be
                shown.append({"name": schema.name, "comment": schema.comment, "tables": tables})
                for table in schema.tables(call):
                    with suppress(NotFoundError):
                        tables.append({"name": table.name, "comment": table.comment})
        return shown

    listed = list_each(context.visible_catalogs(call), contents)
    return [{"name": name, "schemas": schemas} for name, schemas in listed]


def describe_table(
    context: ServerContext, call: Call, database: str, schema: str, table: str
) -> dict[str, Any]:
    """Return what is known of a table without reading its rows. Raises NotFoundError."""
    catalog = context.named_catalog(call, database)
    found = find_table(call, find_schema(call, catalog, schema), table)
    columns = without_rowid(current_arrow_schema(call, found))
    shown = columns_of(columns)
    for column, field in zip(shown, columns, strict=True):
        column["comment"] = (field.metadata or {}).get(b"comment", b"").decode(errors="replace")
    return {
        "name": found.name,
        "comment": found.comment,
        "columns": [
            {**column, "nullable": field.nullable} for column, field in zip(shown, columns, strict=True)
        ],
        "constraints": _constraints(found),
        **_snapshot(call, found),
        "detail": _function_row(call, catalog, "detail", f"{schema}.{found.name}"),
        "history": _function_rows(call, catalog, "history", f"{schema}.{found.name}"),
    }


def _snapshot(call: Call, table: Table) -> dict[str, Any]:
    if not isinstance(table, VersionedTable):
        return {"version": None, "rows": None}
    snapshot = table.snapshot(call, None)
    # An engine may put an id of the table before the number.
    return {"version": snapshot.time_point.value.rpartition(":")[2], "rows": snapshot.row_count}


def _constraints(table: Table) -> list[str]:
    if not isinstance(table, ConstrainedTable):
        return []
    constraints = table.constraints
    texts = [f"PRIMARY KEY ({', '.join(constraints.primary_key)})"] if constraints.primary_key else []
    texts += [f"UNIQUE ({', '.join(names)})" for names in constraints.unique_keys]
    return texts + [f"CHECK ({check})" for check in constraints.checks]


def _function_row(call: Call, catalog: Catalog, name: str, table: str) -> dict[str, Any]:
    rows = _function_rows(call, catalog, name, table)
    return rows[0] if rows else {}


def _function_rows(call: Call, catalog: Catalog, name: str, table: str) -> list[dict[str, Any]]:
    """Return what a function of the engine says about a table; nothing where there is no such function."""
    schema = catalog.schema(call, FUNCTIONS_SCHEMA)
    functions = [] if schema is None else schema.table_functions(call)
    function = next((one for one in functions if one.name == name), None)
    if not isinstance(function, TableFunction):
        return []
    rows: list[dict[str, Any]] = []
    try:
        reader = function.execute(call, [table], ScanOptions())
        for batch in call.checked(reader):
            values = json_columns(batch)
            rows += [
                {column: cells[index] for column, cells in zip(batch.schema.names, values, strict=True)}
                for index in range(batch.num_rows)
            ]
            if len(rows) >= _MAX_HISTORY:
                break
    except SparkportError:  # a table of another format has neither
        return []
    return rows[:_MAX_HISTORY]
