"""The API: each action with how its body is read, what it does and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.guard import Guard
from sparkport.catalog.lookup import current_arrow_schema
from sparkport.catalog.rowid import without_rowid
from sparkport.catalog.tables import Catalog, CatalogVersion
from sparkport.catalog.transactions import TransactionState
from sparkport.errors import LimitExceededError, NotImplementedByServerError
from sparkport.flight.context import ServerContext
from sparkport.flight.handlers import ddl, discovery, functions, metadata, rows, scans, transactions
from sparkport.flight.presentation.tables import Found, airport_info
from sparkport.flight.request import Request
from sparkport.flight.transactions import active_in, statement_in
from sparkport.protocol import function_requests, json_requests, listing, msgpack, requests

_MAX_BODY_BYTES = 32 << 20  # nobody else runs while it is decoded

V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Route(Generic[V, R]):
    """One DoAction. `encode` returns the body of the only result, or None for no result.

    All three run within `scope`, if there is one: what the call's transaction means for them.
    """

    description: str
    decode: Callable[[bytes], V]
    handle: Callable[[ServerContext, Request, V], R]
    encode: Callable[[Request, V, R], bytes | None]
    scope: Callable[[Call, Catalog], AbstractContextManager[None]] | None = None

    def run(self, site: ServerContext, request: Request, body: bytes) -> bytes | None:
        """Answer one request."""
        if self.scope is None:
            return self._answer(site, request, body)
        with self.scope(request.call, site.catalog(request, "")):
            return self._answer(site, request, body)

    def _answer(self, site: ServerContext, request: Request, body: bytes) -> bytes | None:
        wanted = self.decode(body)
        request.note.add_path(*_names(wanted))
        return self.encode(request, wanted, self.handle(site, request, wanted))


@dataclass(frozen=True, slots=True)
class Either:
    """A name that two dialects share; the body tells which one speaks."""

    is_airport: Callable[[bytes], bool]
    airport: Route[Any, Any]
    contract: Route[Any, Any]

    @property
    def description(self) -> str:
        """What both mean."""
        return self.airport.description

    def run(self, site: ServerContext, request: Request, body: bytes) -> bytes | None:
        """Answer one request in its own dialect."""
        route = self.airport if self.is_airport(body) else self.contract
        return route.run(site, request, body)


def _names(wanted: object) -> tuple[str, ...]:
    """Return what a decoded request names: a schema or a table."""
    match wanted:
        case json_requests.CreateSchemaOnce(request=inner):
            return _names(inner)
        case requests.CreateSchemaRequest() | requests.DropSchemaRequest():
            return wanted.catalog, wanted.schema
        case requests.CreateTableRequest() | requests.DropTableRequest() | requests.AlterTableRequest():
            return wanted.catalog, wanted.schema, wanted.table
        case json_requests.DeleteRequest() | json_requests.NamedEndpointsRequest():
            return wanted.schema, wanted.table
        case _:
            return ()


def _as_is(request: Request, wanted: object, answer: bytes) -> bytes:
    del request, wanted
    return answer


def _no_result(request: Request, wanted: object, answer: object) -> None:
    del request, wanted, answer


def _version(request: Request, wanted: object, version: CatalogVersion) -> bytes:
    del request, wanted
    return msgpack.encode(listing.version_info(version))


def _identifier(request: Request, wanted: object, transaction_id: str | None) -> bytes:
    del request, wanted
    return msgpack.encode({"identifier": transaction_id})


def _empty_contents(request: Request, wanted: object, schema: object) -> bytes:
    del request, wanted, schema
    return msgpack.encode(listing.contents([]))


def _airport_table(
    request: Request, wanted: requests.CreateTableRequest | requests.AlterTableRequest, found: Found | None
) -> bytes | None:
    """Describe the new state of a table; nothing where a missing table was forgiven."""
    return None if found is None else airport_info(request, found.table, wanted.catalog, found.schema)


def _alter(
    description: str, decode: Callable[[bytes], requests.AlterTableRequest]
) -> Route[requests.AlterTableRequest, Found | None]:
    return Route(description, decode, ddl.alter_table, _airport_table)


def _schema_made(request: Request, wanted: json_requests.CreateSchemaOnce, schema: object) -> bytes:
    del request, schema
    return json_requests.encode({"schema_name": wanted.request.schema})


def _schema_dropped(request: Request, wanted: requests.DropSchemaRequest, tables: int) -> bytes:
    del request
    answer: dict[str, object] = {"schema_name": wanted.schema}
    if wanted.options.cascade:
        answer["tables_dropped"] = tables
    return json_requests.encode(answer)


def _table_made(request: Request, wanted: requests.CreateTableRequest, found: Found) -> bytes:
    columns = len(without_rowid(current_arrow_schema(request.call, found.table)))
    return json_requests.encode(
        {"schema_name": wanted.schema, "table_name": wanted.table, "columns": columns}
    )


def _table_dropped(request: Request, wanted: requests.DropTableRequest, nothing: None) -> bytes:
    del request, nothing
    return json_requests.encode({"schema_name": wanted.schema, "table_name": wanted.table})


def _column_changed(request: Request, wanted: requests.AlterTableRequest, found: Found | None) -> bytes:
    del request, found
    return json_requests.encode(
        {
            "schema_name": wanted.schema,
            "table_name": wanted.table,
            "column_name": json_requests.changed_column(wanted.change),
        }
    )


def _deleted(request: Request, wanted: object, written: rows.Written) -> bytes:
    del request, wanted
    return json_requests.encode_delete(written.affected, written.rows, written.version)


def _begun(request: Request, wanted: object, transaction_id: str) -> bytes:
    del request, wanted
    return json_requests.encode({"transaction_id": transaction_id})


def _state(request: Request, transaction_id: str, state: TransactionState) -> bytes:
    del request
    return json_requests.encode({"transaction_id": transaction_id, "state": str(state)})


def _compressed(request: Request, wanted: object, table: pa.Table) -> bytes:
    del request, wanted
    return json_requests.encode_compressed(table)


_AIRPORT: dict[str, Route[Any, Any]] = {
    "list_schemas": Route("List schemas and tables", requests.catalog, discovery.list_schemas, _as_is),
    "catalog_version": Route("Tell the version", requests.catalog, discovery.catalog_version, _version),
    "flight_info": Route(
        "Describe a table, perhaps as it was", requests.flight_info, scans.flight_info, _as_is
    ),
    "column_statistics": Route(
        "Tell the range of a column", requests.column_statistics, scans.column_statistics, _as_is
    ),
    "create_schema": Route("Make a schema", requests.create_schema, ddl.create_schema, _empty_contents),
    "drop_schema": Route("Drop a schema", requests.drop_schema, ddl.drop_schema, _no_result),
    "create_table": Route("Make a table", requests.create_table, ddl.create_table, _airport_table),
    "drop_table": Route("Drop a table", requests.drop_table, ddl.drop_table, _no_result),
    "add_column": _alter("Add a column", requests.add_column),
    "remove_column": _alter("Drop a column", requests.remove_column),
    "rename_column": _alter("Rename a column", requests.rename_column),
    "rename_table": _alter("Rename a table", requests.rename_table),
    "change_column_type": _alter("Change the type of a column", requests.change_column_type),
    "set_default": _alter("Set the default of a column", requests.set_default),
    "set_not_null": _alter("Forbid nulls in a column", requests.set_not_null),
    "drop_not_null": _alter("Allow nulls in a column", requests.drop_not_null),
    "add_field": _alter("Add a field to a struct column", requests.add_field),
    "rename_field": _alter("Rename a field of a struct column", requests.rename_field),
    "remove_field": _alter("Drop a field of a struct column", requests.remove_field),
    "add_constraint": _alter("Add a constraint", requests.add_constraint),
}

_BOTH: dict[str, Either] = {
    "create_transaction": Either(
        lambda body: not json_requests.is_json(body),
        Route("Begin a transaction", requests.catalog, transactions.create_transaction, _identifier),
        Route("Begin a transaction", json_requests.begin, transactions.begin, _begun),
    ),
    "endpoints": Either(
        lambda body: msgpack.has_key(body, "descriptor"),
        Route("Plan a scan", requests.endpoints, scans.endpoints, _as_is),
        Route("Plan a scan", json_requests.endpoints, scans.named_endpoints, _as_is),
    ),
    "table_function_flight_info": Either(
        lambda body: msgpack.has_key(body, "descriptor"),
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

_CONTRACT: dict[str, Route[Any, Any]] = {
    "CreateSchema": Route(
        "Make a schema (JSON)", json_requests.create_schema, ddl.create_schema_once, _schema_made, active_in
    ),
    "DropSchema": Route(
        "Drop a schema (JSON)", json_requests.drop_schema, ddl.drop_schema, _schema_dropped, active_in
    ),
    "CreateTable": Route(
        "Make a table (JSON)", json_requests.create_table, ddl.create_table, _table_made, active_in
    ),
    "DropTable": Route(
        "Drop a table (JSON)", json_requests.drop_table, ddl.drop_table, _table_dropped, active_in
    ),
    "AlterTableAddColumn": Route(
        "Add a column (JSON)", json_requests.add_column, ddl.alter_table, _column_changed, active_in
    ),
    "AlterTableDropColumn": Route(
        "Drop a column (JSON)", json_requests.drop_column, ddl.alter_table, _column_changed, active_in
    ),
    "delete": Route("Delete rows by id (JSON)", json_requests.delete, rows.delete, _deleted, statement_in),
    "get_transaction_status": Route(
        "Tell the state of a transaction", json_requests.transaction_id, transactions.status, _state
    ),
    "commit_transaction": Route(
        "Keep what a transaction wrote", json_requests.transaction_id, transactions.commit, _state
    ),
    "rollback_transaction": Route(
        "Drop what a transaction staged", json_requests.transaction_id, transactions.rollback, _state
    ),
    "GetCatalogs": Route("List catalogs", json_requests.metadata, metadata.catalogs, _compressed),
    "GetDbSchemas": Route("List schemas", json_requests.metadata, metadata.db_schemas, _compressed),
    "GetTables": Route("List tables", json_requests.metadata, metadata.tables, _compressed),
    "GetTableTypes": Route("List kinds of tables", json_requests.metadata, metadata.table_types, _compressed),
}

_ROUTES: dict[str, Route[Any, Any] | Either] = {**_AIRPORT, **_BOTH, **_CONTRACT}

# These have exactly one result whenever they succeed.
ONE_RESULT = frozenset(
    {"list_schemas", "catalog_version", "create_transaction", "flight_info", "endpoints"}
    | {"column_statistics", "create_schema", "create_table", "table_function_flight_info"}
)

DESCRIPTIONS = {name: route.description for name, route in _ROUTES.items()}


def run(name: str, site: ServerContext, request: Request, body: bytes) -> bytes | None:
    """Answer an action by name. Raises NotImplementedByServerError for an unknown one."""
    route = _ROUTES.get(name)
    if route is not None:
        if len(body) > _MAX_BODY_BYTES:
            raise LimitExceededError(
                f"the body of action '{name}' has {len(body)} bytes, the limit is {_MAX_BODY_BYTES} bytes"
            )
        return route.run(site, request, body)
    action = site.actions.get(name)
    if action is None:
        raise NotImplementedByServerError(f"unknown action '{name}'")
    with Guard(request.call, "action", name):
        return action.run(request.call, body)
