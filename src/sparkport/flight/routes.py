"""The API: each action with how its body is read, what it does and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sparkport.catalog.tables import CatalogVersion, Schema
from sparkport.errors import NotImplementedByServerError
from sparkport.flight.handlers import ddl, discovery, scans, transactions
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.protocol import listing, msgpack, requests

V = TypeVar("V")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Route(Generic[V, R]):
    """One DoAction. `encode` returns the body of the only result, or None for no result."""

    description: str
    decode: Callable[[bytes], V]
    handle: Callable[[Site, Request, V], R]
    encode: Callable[[R], bytes | None]

    def run(self, site: Site, request: Request, body: bytes) -> bytes | None:
        """Answer one request."""
        return self.encode(self.handle(site, request, self.decode(body)))


def _as_is(answer: bytes) -> bytes:
    return answer


def _no_result(answer: object) -> None:
    del answer


def _version(version: CatalogVersion) -> bytes:
    return msgpack.encode(listing.version_info(version))


def _identifier(transaction_id: str | None) -> bytes:
    return msgpack.encode({"identifier": transaction_id})


def _empty_contents(schema: Schema) -> bytes:
    del schema
    return msgpack.encode(listing.contents([]))


def _optional(answer: bytes | None) -> bytes | None:
    return answer


def _alter(
    description: str, decode: Callable[[bytes], requests.AlterTableRequest]
) -> Route[requests.AlterTableRequest, bytes | None]:
    return Route(description, decode, ddl.alter_table, _optional)


_ROUTES: dict[str, Route[Any, Any]] = {
    "list_schemas": Route("List schemas and tables", requests.catalog, discovery.list_schemas, _as_is),
    "catalog_version": Route("Tell the version", requests.catalog, discovery.catalog_version, _version),
    "create_transaction": Route(
        "Begin a transaction", requests.catalog, transactions.create_transaction, _identifier
    ),
    "flight_info": Route(
        "Describe a table, perhaps as it was", requests.flight_info, scans.flight_info, _as_is
    ),
    "endpoints": Route("Plan a scan", requests.endpoints, scans.endpoints, _as_is),
    "column_statistics": Route(
        "Tell the range of a column", requests.column_statistics, scans.column_statistics, _as_is
    ),
    "create_schema": Route("Make a schema", requests.create_schema, ddl.create_schema, _empty_contents),
    "drop_schema": Route("Drop a schema", requests.drop_schema, ddl.drop_schema, _no_result),
    "create_table": Route("Make a table", requests.create_table, ddl.create_table, _as_is),
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


# These have exactly one result whenever they succeed.
ONE_RESULT = frozenset(
    {"list_schemas", "catalog_version", "create_transaction", "flight_info", "endpoints"}
    | {"column_statistics", "create_schema", "create_table"}
)

DESCRIPTIONS = {name: route.description for name, route in _ROUTES.items()}


def run(name: str, site: Site, request: Request, body: bytes) -> bytes | None:
    """Answer an action by name. Raises NotImplementedByServerError for an unknown one."""
    route = _ROUTES.get(name)
    if route is None:
        raise NotImplementedByServerError(f"unknown action '{name}'")
    return route.run(site, request, body)
