"""Table functions by name: finding, describing and running them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkport.catalog.functions import TableFunction
from sparkport.catalog.lookup import TablePath, find_schema
from sparkport.catalog.scan import ScanOptions
from sparkport.errors import InvalidRequestError, NotFoundError
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.flight.streams import encoded
from sparkport.protocol import msgpack
from sparkport.protocol.ticket import Ticket


def find_table_function(site: Site, request: Request, name: str) -> tuple[TablePath, TableFunction]:
    """Return a table function of the default catalog by its name, or by schema.name.

    Raises NotFoundError, with a hint at a similar name.
    """
    catalog = site.default_catalog(request)
    known: list[str] = []
    for schema in site.catalog(request, catalog).schemas(request.call):
        for function in schema.table_functions(request.call):
            names = {function.name.lower(), f"{schema.name}.{function.name}".lower()}
            if name.lower() in names:
                return TablePath(catalog, schema.name, function.name), function
            known.append(function.name)
    raise NotFoundError("table function", name, known)


def decoded_parameters(function: TableFunction, data: bytes) -> list[Any]:
    """Return the parameters of a call. Raises InvalidRequestError for too few or too many."""
    parameters = msgpack.decode(data, list[Any])
    wanted = len(function.signature.parameters)
    enough = len(parameters) >= wanted if function.signature.variadic else len(parameters) == wanted
    if not enough:
        more = " or more" if function.signature.variadic else ""
        raise InvalidRequestError(
            f"function '{function.name}' takes {wanted}{more} parameters, not {len(parameters)}"
        )
    return parameters


def deliver(site: Site, request: Request, ticket: Ticket) -> Iterator[bytes]:
    """Run the function of a ticket and stream its rows."""
    assert ticket.path is not None
    function = _function_at(site, request, ticket.path)
    parameters = decoded_parameters(function, ticket.parameters)
    arrow_schema = function.schema_for_parameters(request.call, parameters)
    reader = function.execute(request.call, parameters, ScanOptions())
    try:
        yield from encoded(arrow_schema, request.call.checked(reader))
    finally:
        reader.close()


def _function_at(site: Site, request: Request, path: TablePath) -> TableFunction:
    """Return the very function that a ticket was made for, whatever other schemas and catalogs have."""
    schema = find_schema(request.call, site.catalog(request, path.catalog), path.schema)
    functions = {function.name: function for function in schema.table_functions(request.call)}
    if path.table not in functions:
        raise NotFoundError("table function", path.table, functions)
    return functions[path.table]
