"""Functions: finding, describing and running them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.guard import Guard
from sparkport.catalog.lookup import TablePath, find_schema
from sparkport.catalog.parameters import bound
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Schema
from sparkport.errors import (
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    PreconditionError,
    UnsupportedOperationError,
)
from sparkport.flight.context import ServerContext
from sparkport.flight.presentation.streams import encoded, scan_shaper
from sparkport.flight.request import Request
from sparkport.protocol import arrow_row, msgpack, predicates, schemas
from sparkport.protocol.descriptor import FunctionAddress, FunctionKind
from sparkport.protocol.functions import Form, forms
from sparkport.protocol.ticket import Ticket

AnyFunction = ScalarFunction | TableFunction | TableInOutFunction

_MAX_PARAMETER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Prepared:
    """A function that returns a table, with the values it is called with."""

    path: TablePath
    function: TableFunction | TableInOutFunction
    parameters: tuple[Any, ...]

    def arrow_schema(self, call: Call, incoming: pa.Schema | None = None) -> pa.Schema:
        """Return the columns of the result, as the function declares them."""
        with Guard(call, "function", str(self.path)):
            if isinstance(self.function, TableFunction):
                arrow_schema = self.function.schema_for_parameters(call, self.parameters)
            elif incoming is None:
                raise UnsupportedOperationError("function", str(self.path), "calls without a table")
            else:
                arrow_schema = self.function.schema_for_input(call, self.parameters, incoming)
            if not len(arrow_schema):
                raise TypeError("the result has no columns")
        return arrow_schema


def function_at(site: ServerContext, request: Request, address: FunctionAddress) -> tuple[AnyFunction, Form]:
    """Return a function of a listing, in the form that was listed.

    Raises NotFoundError, and PreconditionError if its parameters are other ones by now.
    """
    path = address.path
    schema = find_schema(request.call, site.catalog(request, path.catalog), path.schema)
    functions = functions_of(request.call, schema, address.kind)
    alike = [function for function in functions if function.name == path.table]
    for function in alike:
        for form in forms(address.kind, function.signature):
            if form.tag() == address.form:
                return function, form
    if alike:
        raise PreconditionError(
            f"the parameters of function '{path}' have changed since it was attached;"
            " DETACH and ATTACH the database again to see them"
        )
    raise NotFoundError("function", str(path), [function.name for function in functions])


def functions_of(call: Call, schema: Schema, kind: FunctionKind) -> Sequence[AnyFunction]:
    """Return the functions of one kind."""
    return schema.scalar_functions(call) if kind is FunctionKind.SCALAR else schema.table_functions(call)


def prepared(site: ServerContext, request: Request, address: FunctionAddress, parameters: bytes) -> Prepared:
    """Return the call that DuckDB means by a descriptor and a row of parameters."""
    function, form = function_at(site, request, address)
    if not isinstance(function, TableFunction | TableInOutFunction):
        raise InvalidRequestError(f"function '{address.path}' does not return a table")
    positional, named = form.values(arrow_row.decode(parameters))
    signature = function.signature
    values = bound(function.name, signature.parameters, positional, named, variadic=signature.variadic)
    return Prepared(address.path, function, values)


def prepared_by_name(
    site: ServerContext, request: Request, path: TablePath, parameters: bytes, named_parameters: bytes
) -> Prepared:
    """Return the call of the function at `path`; of several with one name, the first that fits."""
    if len(parameters) + len(named_parameters) > _MAX_PARAMETER_BYTES:
        raise LimitExceededError(f"parameters of a function have at most {_MAX_PARAMETER_BYTES} bytes")
    values = msgpack.decode(parameters, list[Any])
    named = msgpack.decode(named_parameters, dict[str, Any])
    schema = find_schema(request.call, site.catalog(request, path.catalog), path.schema)
    alike = [one for one in schema.table_functions(request.call) if one.name.lower() == path.table.lower()]
    refused: InvalidRequestError | None = None
    for function in alike:
        signature = function.signature
        try:
            fitting = bound(function.name, signature.parameters, values, named, variadic=signature.variadic)
        except InvalidRequestError as error:
            refused = refused or error
            continue
        return Prepared(path, function, fitting)
    raise refused or NotFoundError("table function", path.table)


def find_table_function(site: ServerContext, request: Request, name: str) -> TablePath:
    """Return where a table function of the default catalog is, by its name or by schema.name.

    Raises NotFoundError, with a hint at a similar name.
    """
    catalog = site.default_catalog(request)
    known: list[str] = []
    for schema in site.catalog(request, catalog).schemas(request.call):
        for function in schema.table_functions(request.call):
            names = {function.name.lower(), f"{schema.name}.{function.name}".lower()}
            if name.lower() in names:
                return TablePath(catalog, schema.name, function.name)
            known.append(function.name)
    raise NotFoundError("table function", name, known)


def deliver(site: ServerContext, request: Request, ticket: Ticket) -> Iterator[bytes]:
    """Run the function of a ticket and stream its rows."""
    assert ticket.path is not None
    call = request.call
    run = _of_ticket(site, request, ticket, ticket.path)
    arrow_schema = run.arrow_schema(call)
    assert isinstance(run.function, TableFunction)
    shown = schemas.present(arrow_schema) if ticket.presented else arrow_schema
    options = ScanOptions(columns=ticket.columns, filter=predicates.decode(ticket.filters))
    guard = Guard(call, "function", str(run.path))
    with guard:
        reader = run.function.execute(call, run.parameters, options)
    try:
        yield from encoded(scan_shaper(shown, ticket.columns, guard), _guarded_rows(call, guard, reader))
    finally:
        reader.close()


def _of_ticket(site: ServerContext, request: Request, ticket: Ticket, path: TablePath) -> Prepared:
    if ticket.form:
        address = FunctionAddress(path, FunctionKind.TABLE, ticket.form)
        return prepared(site, request, address, ticket.parameters)
    return prepared_by_name(site, request, path, ticket.parameters, ticket.named_parameters)


def _guarded_rows(call: Call, guard: Guard, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    rows = iter(reader)
    while True:
        with guard:
            batch = next(rows, None)
        if batch is None:
            return
        call.check()
        yield batch
