"""Find, describe and run functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sparkport.catalog.call import Call
from sparkport.catalog.functions import ScalarFunction, TableFunction, TableInOutFunction
from sparkport.catalog.lookup import TablePath, find_schema
from sparkport.catalog.parameters import bound
from sparkport.catalog.scan import ScanOptions
from sparkport.catalog.tables import Schema
from sparkport.catalog.user_code import UserCodeBoundary
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
from sparkport.protocol import msgpack, schemas
from sparkport.protocol.airport import predicates
from sparkport.protocol.airport.functions import Form, forms
from sparkport.protocol.descriptor import FunctionAddress, FunctionKind
from sparkport.protocol.ipc import arrow_row
from sparkport.protocol.ticket import Ticket

AnyFunction = ScalarFunction | TableFunction | TableInOutFunction

_MAX_PARAMETER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function that returns a table, with the values it is called with."""

    path: TablePath
    function: TableFunction | TableInOutFunction
    parameters: tuple[Any, ...]

    def arrow_schema(self, call: Call, incoming: pa.Schema | None = None) -> pa.Schema:
        """Return the columns of the result, as the function declares them."""
        with UserCodeBoundary(call, "function", str(self.path)):
            if isinstance(self.function, TableFunction):
                arrow_schema = self.function.schema_for_parameters(call, self.parameters)
            elif incoming is None:
                raise UnsupportedOperationError("function", str(self.path), "calls without a table")
            else:
                arrow_schema = self.function.schema_for_input(call, self.parameters, incoming)
            if not len(arrow_schema):
                raise TypeError("the result has no columns")
        return arrow_schema


def function_at(
    context: ServerContext, request: Request, address: FunctionAddress
) -> tuple[AnyFunction, Form]:
    """Return a listed function and the form in which it is called.

    Raises NotFoundError, and PreconditionError if its parameters have changed since.
    """
    path = address.path
    schema = find_schema(request.call, context.catalog(request, path.catalog), path.schema)
    functions = functions_of(request.call, schema, address.kind)
    candidates = [function for function in functions if function.name == path.table]
    for function in candidates:
        for form in forms(address.kind, function.signature):
            if form.tag() == address.form:
                return function, form
    if candidates:
        raise PreconditionError(
            f"the parameters of function '{path}' have changed since it was attached;"
            " DETACH and ATTACH the database again to see them"
        )
    raise NotFoundError("function", str(path), [function.name for function in functions])


def functions_of(call: Call, schema: Schema, kind: FunctionKind) -> Sequence[AnyFunction]:
    """Return the functions of one kind."""
    return schema.scalar_functions(call) if kind is FunctionKind.SCALAR else schema.table_functions(call)


def function_call(
    context: ServerContext, request: Request, address: FunctionAddress, parameters: bytes
) -> FunctionCall:
    """Return the call of the function at a descriptor, with a row of parameters."""
    function, form = function_at(context, request, address)
    if not isinstance(function, TableFunction | TableInOutFunction):
        raise InvalidRequestError(f"function '{address.path}' does not return a table")
    positional, named = form.values(arrow_row.decode(parameters))
    signature = function.signature
    values = bound(function.name, signature.parameters, positional, named, variadic=signature.variadic)
    return FunctionCall(address.path, function, values)


def function_call_by_name(
    context: ServerContext, request: Request, path: TablePath, parameters: bytes, named_parameters: bytes
) -> FunctionCall:
    """Return the call of the function at `path`; of overloads, the first whose signature fits."""
    if len(parameters) + len(named_parameters) > _MAX_PARAMETER_BYTES:
        raise LimitExceededError(f"the parameters of a function must not exceed {_MAX_PARAMETER_BYTES} bytes")
    values = msgpack.decode(parameters, list[Any])
    named = msgpack.decode(named_parameters, dict[str, Any])
    schema = find_schema(request.call, context.catalog(request, path.catalog), path.schema)
    candidates = [
        function
        for function in schema.table_functions(request.call)
        if function.name.lower() == path.table.lower()
    ]
    refused: InvalidRequestError | None = None
    for function in candidates:
        signature = function.signature
        try:
            parameter_values = bound(
                function.name, signature.parameters, values, named, variadic=signature.variadic
            )
        except InvalidRequestError as error:
            refused = refused or error
            continue
        return FunctionCall(path, function, parameter_values)
    raise refused or NotFoundError("table function", path.table)


def find_table_function(context: ServerContext, request: Request, name: str) -> TablePath:
    """Return the path of a table function of the default catalog, by `name` or `schema.name`.

    Raises NotFoundError, which suggests a similar name.
    """
    catalog = context.default_catalog(request)
    names: list[str] = []
    for schema in context.catalog(request, catalog).schemas(request.call):
        for function in schema.table_functions(request.call):
            if name.lower() in {function.name.lower(), f"{schema.name}.{function.name}".lower()}:
                return TablePath(catalog, schema.name, function.name)
            names.append(function.name)
    raise NotFoundError("table function", name, names)


def deliver(context: ServerContext, request: Request, ticket: Ticket) -> Iterator[bytes]:
    """Run the function of a ticket and stream its rows."""
    assert ticket.path is not None
    call = request.call
    run = _of_ticket(context, request, ticket, ticket.path)
    arrow_schema = run.arrow_schema(call)
    assert isinstance(run.function, TableFunction)
    sent = schemas.to_duckdb_types(arrow_schema) if ticket.duckdb_types else arrow_schema
    options = ScanOptions(columns=ticket.columns, filter=predicates.decode(ticket.filters))
    boundary = UserCodeBoundary(call, "function", str(run.path))
    with boundary:
        reader = run.function.execute(call, run.parameters, options)
    try:
        yield from encoded(scan_shaper(sent, ticket.columns, boundary), _checked_rows(call, boundary, reader))
    finally:
        reader.close()


def _of_ticket(context: ServerContext, request: Request, ticket: Ticket, path: TablePath) -> FunctionCall:
    if ticket.form:
        address = FunctionAddress(path, FunctionKind.TABLE, ticket.form)
        return function_call(context, request, address, ticket.parameters)
    return function_call_by_name(context, request, path, ticket.parameters, ticket.named_parameters)


def _checked_rows(
    call: Call, boundary: UserCodeBoundary, reader: pa.RecordBatchReader
) -> Iterator[pa.RecordBatch]:
    rows = iter(reader)
    while True:
        with boundary:
            batch = next(rows, None)
        if batch is None:
            call.check_cancelled()  # or a function that stops for that would seem to have ended
            return
        call.check()
        call.meter.rows_out += batch.num_rows
        yield batch
