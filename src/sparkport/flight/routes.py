"""The API: for each action how to decode its body, handle it and encode the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import CatalogVersion
from sparkport.catalog.transactions import TransactionState
from sparkport.catalog.user_code import UserCodeBoundary
from sparkport.errors import LimitExceededError, NotImplementedByServerError
from sparkport.flight.context import ServerContext
from sparkport.flight.handlers import (
    ddl,
    discovery,
    functions,
    metadata,
    rows,
    scans,
    statements,
    transactions,
)
from sparkport.flight.presentation.tables import LocatedTable, airport_info
from sparkport.flight.request import Request
from sparkport.flight.route import Route
from sparkport.flight.sql_actions import SQL_ACTIONS
from sparkport.flight.statement_registry import StatementView
from sparkport.flight.transactions import active_in, statement_in
from sparkport.protocol import msgpack
from sparkport.protocol.airport import function_requests, listing, requests
from sparkport.protocol.json_dialect import requests as json_requests

_MAX_BODY_BYTES = 32 << 20  # decoding holds the GIL


@dataclass(frozen=True, slots=True)
class Either:
    """An action whose name both dialects share; the body decides which one it is."""

    is_airport: Callable[[bytes], bool]
    airport: Route[Any, Any]
    json: Route[Any, Any]

    @property
    def description(self) -> str:
        """The description of the action."""
        return self.airport.description

    def run(self, context: ServerContext, request: Request, data: bytes) -> bytes | None:
        """Run the action in the dialect of the body."""
        route = self.airport if self.is_airport(data) else self.json
        return route.run(context, request, data)


def _as_is(request: Request, body: object, answer: bytes) -> bytes:
    del request, body
    return answer


def _no_result(request: Request, body: object, answer: object) -> None:
    del request, body, answer


def _version(request: Request, body: object, version: CatalogVersion) -> bytes:
    del request, body
    return msgpack.encode(listing.version_info(version))


def _identifier(request: Request, body: object, transaction_id: str | None) -> bytes:
    del request, body
    return msgpack.encode({"identifier": transaction_id})


def _empty_contents(request: Request, body: object, schema: object) -> bytes:
    del request, body, schema
    return msgpack.encode(listing.contents([]))


def _airport_table(
    request: Request,
    body: requests.CreateTableRequest | requests.AlterTableRequest,
    located: LocatedTable | None,
) -> bytes | None:
    """Describe the table; there is no result if it was missing and `ignore_not_found` is set."""
    return None if located is None else airport_info(request, located.table, body.catalog, located.schema)


def _alter(
    description: str, decode: Callable[[bytes], requests.AlterTableRequest]
) -> Route[requests.AlterTableRequest, LocatedTable | None]:
    return Route(description, decode, ddl.alter_table, _airport_table)


def _created_schema(request: Request, body: json_requests.JsonCreateSchemaRequest, schema: object) -> bytes:
    del request, schema
    return json_requests.encode({"schema_name": body.request.schema})


def _dropped_schema(request: Request, body: requests.DropSchemaRequest, tables: int) -> bytes:
    del request
    answer: dict[str, object] = {"schema_name": body.schema}
    if body.options.cascade:
        answer["tables_dropped"] = tables
    return json_requests.encode(answer)


def _created_table(request: Request, body: requests.CreateTableRequest, located: LocatedTable) -> bytes:
    columns = len(without_rowid(current_arrow_schema(request.call, located.table)))
    return json_requests.encode({"schema_name": body.schema, "table_name": body.table, "columns": columns})


def _dropped_table(request: Request, body: requests.DropTableRequest, nothing: None) -> bytes:
    del request, nothing
    return json_requests.encode({"schema_name": body.schema, "table_name": body.table})


def _changed_column(
    request: Request, body: requests.AlterTableRequest, located: LocatedTable | None
) -> bytes:
    del request, located
    return json_requests.encode(
        {
            "schema_name": body.schema,
            "table_name": body.table,
            "column_name": json_requests.changed_column(body.change),
        }
    )


def _deleted_rows(request: Request, body: object, written: rows.Written) -> bytes:
    del request, body
    return json_requests.encode_delete(written.affected, written.rows, written.version)


def _transaction(request: Request, body: object, transaction_id: str) -> bytes:
    del request, body
    return json_requests.encode({"transaction_id": transaction_id})


def _transaction_state(request: Request, transaction_id: str, state: TransactionState) -> bytes:
    del request
    return json_requests.encode({"transaction_id": transaction_id, "state": str(state)})


def _compressed(request: Request, body: object, table: pa.Table) -> bytes:
    del request, body
    return json_requests.encode_compressed(table)


def _statements(request: Request, body: object, views: list[StatementView]) -> bytes:
    del request, body
    return json_requests.encode({"statements": views})


def _statement(request: Request, body: object, view: StatementView) -> bytes:
    del request, body
    return json_requests.encode({"statement": view})


_AIRPORT: dict[str, Route[Any, Any]] = {
    "list_schemas": Route("List schemas and tables", requests.catalog, discovery.list_schemas, _as_is),
    "catalog_version": Route(
        "Return the catalog version", requests.catalog, discovery.catalog_version, _version
    ),
    "flight_info": Route(
        "Describe a table, optionally at a time point", requests.flight_info, scans.flight_info, _as_is
    ),
    "column_statistics": Route(
        "Return statistics of a column", requests.column_statistics, scans.column_statistics, _as_is
    ),
    "create_schema": Route("Create a schema", requests.create_schema, ddl.create_schema, _empty_contents),
    "drop_schema": Route("Drop a schema", requests.drop_schema, ddl.drop_schema, _no_result),
    "create_table": Route("Create a table", requests.create_table, ddl.create_airport_table, _airport_table),
    "drop_table": Route("Drop a table", requests.drop_table, ddl.drop_table, _no_result),
    "add_column": _alter("Add a column", requests.add_column),
    "remove_column": _alter("Drop a column", requests.remove_column),
    "rename_column": _alter("Rename a column", requests.rename_column),
    "rename_table": _alter("Rename a table", requests.rename_table),
    "change_column_type": _alter("Change the type of a column", requests.change_column_type),
    "set_default": _alter("Set the default of a column", requests.set_default),
    "set_not_null": _alter("Set a column NOT NULL", requests.set_not_null),
    "drop_not_null": _alter("Drop NOT NULL from a column", requests.drop_not_null),
    "add_field": _alter("Add a field to a struct column", requests.add_field),
    "rename_field": _alter("Rename a field of a struct column", requests.rename_field),
    "remove_field": _alter("Drop a field of a struct column", requests.remove_field),
    "add_constraint": _alter("Add a constraint", requests.add_constraint),
}

_SHARED: dict[str, Either] = {
    "create_transaction": Either(
        lambda data: not json_requests.is_json(data),
        Route("Begin a transaction", requests.catalog, transactions.create_transaction, _identifier),
        Route("Begin a transaction", json_requests.begin, transactions.begin, _transaction),
    ),
    "endpoints": Either(
        lambda data: msgpack.has_key(data, "descriptor"),
        Route("Plan a scan", requests.endpoints, scans.endpoints, _as_is),
        Route("Plan a scan", json_requests.endpoints, scans.named_endpoints, _as_is),
    ),
    "table_function_flight_info": Either(
        lambda data: msgpack.has_key(data, "descriptor"),
        Route(
            "Describe the result of a table function", function_requests.info, functions.flight_info, _as_is
        ),
        Route(
            "Describe the result of a table function",
            json_requests.table_function,
            functions.named_flight_info,
            _as_is,
        ),
    ),
}

_JSON: dict[str, Route[Any, Any]] = {
    "CreateSchema": Route(
        "Create a schema (JSON)",
        json_requests.create_schema,
        ddl.create_schema_if_missing,
        _created_schema,
        active_in,
    ),
    "DropSchema": Route(
        "Drop a schema (JSON)", json_requests.drop_schema, ddl.drop_schema, _dropped_schema, active_in
    ),
    "CreateTable": Route(
        "Create a table (JSON)", json_requests.create_table, ddl.create_table, _created_table, active_in
    ),
    "DropTable": Route(
        "Drop a table (JSON)", json_requests.drop_table, ddl.drop_table, _dropped_table, active_in
    ),
    "AlterTableAddColumn": Route(
        "Add a column (JSON)", json_requests.add_column, ddl.alter_table, _changed_column, active_in
    ),
    "AlterTableDropColumn": Route(
        "Drop a column (JSON)", json_requests.drop_column, ddl.alter_table, _changed_column, active_in
    ),
    "delete": Route(
        "Delete rows by id (JSON)", json_requests.delete, rows.delete, _deleted_rows, statement_in
    ),
    "get_transaction_status": Route(
        "Return the state of a transaction",
        json_requests.transaction_id,
        transactions.status,
        _transaction_state,
    ),
    "commit_transaction": Route(
        "Commit a transaction", json_requests.transaction_id, transactions.commit, _transaction_state
    ),
    "rollback_transaction": Route(
        "Roll back a transaction", json_requests.transaction_id, transactions.rollback, _transaction_state
    ),
    "GetCatalogs": Route("List catalogs", json_requests.metadata, metadata.catalogs, _compressed),
    "GetDbSchemas": Route("List schemas", json_requests.metadata, metadata.db_schemas, _compressed),
    "GetTables": Route("List tables", json_requests.metadata, metadata.tables, _compressed),
    "GetTableTypes": Route("List table types", json_requests.metadata, metadata.table_types, _compressed),
    "list_statements": Route(
        "List the statements that run, and the last ones that have ended",
        bytes,
        statements.list_statements,
        _statements,
    ),
    "cancel_statement": Route(
        "Cancel a statement by its id", json_requests.statement_id, statements.cancel_statement, _statement
    ),
}

_ROUTES: dict[str, Route[Any, Any] | Either] = {**_AIRPORT, **_SHARED, **_JSON, **SQL_ACTIONS}

# These have exactly one result if they succeed.
ONE_RESULT = frozenset(
    {"list_schemas", "catalog_version", "create_transaction", "flight_info", "endpoints"}
    | {"column_statistics", "create_schema", "create_table", "table_function_flight_info"}
)

DESCRIPTIONS = {name: route.description for name, route in _ROUTES.items()}


def run(name: str, context: ServerContext, request: Request, data: bytes) -> bytes | None:
    """Run an action by name. Raises NotImplementedByServerError for an unknown one."""
    route = _ROUTES.get(name)
    if route is not None:
        if len(data) > _MAX_BODY_BYTES:
            raise LimitExceededError(
                f"the data of action '{name}' has {len(data)} bytes, the limit is {_MAX_BODY_BYTES} bytes"
            )
        return route.run(context, request, data)
    action = context.visible_actions(request.call).get(name)
    if action is None:
        raise NotImplementedByServerError(f"unknown action '{name}'")
    with UserCodeBoundary(request.call, "action", name):
        return action.run(request.call, data)
