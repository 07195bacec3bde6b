"""Which requests are statements, and of which kind, by what their log lines say."""

from __future__ import annotations

from sparkport.flight.access_log import AccessLog

__all__ = ["CONSOLE", "dialect_of", "kind_of"]

CONSOLE = "Console"
"""The method of what the page over HTTP runs."""

_ACTIONS = {
    "create_schema": "create schema",
    "drop_schema": "drop schema",
    "create_table": "create table",
    "drop_table": "drop table",
    "add_column": "alter table",
    "remove_column": "alter table",
    "rename_column": "alter table",
    "rename_table": "alter table",
    "change_column_type": "alter table",
    "set_default": "alter table",
    "set_not_null": "alter table",
    "drop_not_null": "alter table",
    "add_field": "alter table",
    "rename_field": "alter table",
    "remove_field": "alter table",
    "add_constraint": "alter table",
    "CreateSchema": "create schema",
    "DropSchema": "drop schema",
    "CreateTable": "create table",
    "DropTable": "drop table",
    "AlterTableAddColumn": "alter table",
    "AlterTableDropColumn": "alter table",
    "delete": "delete",
    "commit_transaction": "commit",
    "EndTransaction": "commit",
}
_OPERATIONS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "scalar_function": "function",
    "table_function_in_out": "function",
    "Ingest": "insert",
}
_SQL = frozenset({"StatementQuery", "StatementUpdate", "PreparedQuery", "PreparedUpdate"})
_READS = frozenset({"select", "with", "from", "values", "explain", "describe", "show", "table", "("})


def kind_of(log: AccessLog) -> str:
    """Return the kind of a statement; empty for a request that is none, such as one for metadata."""
    operation = log.details.get("operation", "")
    if log.text:
        return _kind_of_sql(log)
    match log.method:
        case "DoGet" | "Console":
            return log.details.get("reads", "")
        case "DoPut" | "DoExchange":
            return _OPERATIONS.get(operation, "")
        case "DoAction":
            return _ACTIONS.get(log.details.get("action", ""), "")
        case _:
            return ""


def dialect_of(log: AccessLog, *, is_airport: bool) -> str:
    """Return the dialect of a request."""
    if log.method == CONSOLE:
        return "console"
    if is_airport:
        return "airport"
    operation = log.details.get("operation", "")
    return "flight-sql" if log.text or operation in _SQL or operation == "Ingest" else "json"


def _kind_of_sql(log: AccessLog) -> str:
    """Return `query`, `plan` for one that is only described, or the word with which another begins."""
    word = log.text.lstrip()[:24].split(maxsplit=1)[:1]
    name = word[0].lower().strip(";") if word else ""
    if log.method == "DoGet":
        return "query"
    if name in _READS or name.startswith("(") or log.method in {"GetSchema", "DoAction"}:
        return "query" if log.method == CONSOLE else "plan"
    return name if name.isalpha() else "statement"
