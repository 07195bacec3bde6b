"""Describe table functions before they run."""

from __future__ import annotations

from sparkport.errors import InvalidRequestError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions.calls import find_table_function, function_call, function_call_by_name
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights, schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.airport.function_requests import FunctionInfoRequest
from sparkport.protocol.descriptor import FunctionAddress
from sparkport.protocol.json_dialect.requests import NamedFunctionRequest
from sparkport.protocol.ticket import Ticket


def flight_info(context: ServerContext, request: Request, body: FunctionInfoRequest) -> bytes:
    """Describe the result of a call from DuckDB, under the descriptor of the request."""
    address = descriptor.decode(body.descriptor, context.default_catalog(request))
    if not isinstance(address, FunctionAddress):
        raise InvalidRequestError("the descriptor does not name a function")
    run = function_call(context, request, address, body.parameters)
    columns = schemas.to_duckdb_types(run.arrow_schema(request.call, body.incoming))
    return flights.encode_info(schemas.add_airport_metadata(columns, None, statistics=False), body.descriptor)


def named_flight_info(context: ServerContext, request: Request, body: NamedFunctionRequest) -> bytes:
    """Describe the result of a call by name, with a ticket that runs it."""
    path = find_table_function(context, request, body.name)
    run = function_call_by_name(context, request, path, body.parameters, body.named)
    arrow_schema = run.arrow_schema(request.call)
    ticket = Ticket(path, function=True, parameters=body.parameters, named_parameters=body.named)
    signed = context.signer.sign(ticket, request.call.principal)
    address = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=str(path).encode())
    return flights.encode_info(
        arrow_schema,
        address.SerializeToString(),
        endpoints=[flights.endpoint(signed, context.endpoint_location)],
    )
