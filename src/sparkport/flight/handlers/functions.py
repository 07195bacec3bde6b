"""Describing table functions before they run."""

from __future__ import annotations

from sparkport.errors import InvalidRequestError
from sparkport.flight.context import ServerContext
from sparkport.flight.functions.calls import find_table_function, prepared, prepared_by_name
from sparkport.flight.request import Request
from sparkport.protocol import descriptor, flights, schemas
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol.descriptor import FunctionAddress
from sparkport.protocol.function_requests import FunctionInfoRequest
from sparkport.protocol.json_requests import NamedFunctionRequest
from sparkport.protocol.ticket import Ticket


def flight_info(site: ServerContext, request: Request, wanted: FunctionInfoRequest) -> bytes:
    """Return the schema that a call of DuckDB would have, with the descriptor that was sent."""
    address = descriptor.decode(wanted.descriptor, site.default_catalog(request))
    if not isinstance(address, FunctionAddress):
        raise InvalidRequestError("the descriptor does not name a function")
    run = prepared(site, request, address, wanted.parameters)
    columns = schemas.present(run.arrow_schema(request.call, wanted.incoming))
    return flights.encode_info(
        schemas.add_airport_metadata(columns, None, statistics=False), wanted.descriptor
    )


def named_flight_info(site: ServerContext, request: Request, wanted: NamedFunctionRequest) -> bytes:
    """Return the schema that a call would have, with a ticket that makes the call."""
    path = find_table_function(site, request, wanted.name)
    run = prepared_by_name(site, request, path, wanted.parameters, wanted.named)
    arrow_schema = run.arrow_schema(request.call)
    ticket = Ticket(path, function=True, parameters=wanted.parameters, named_parameters=wanted.named)
    sealed = site.sealer.seal(ticket, request.call.principal)
    address = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=str(path).encode())
    return flights.encode_info(
        arrow_schema,
        address.SerializeToString(),
        endpoints=[flights.endpoint(sealed, site.endpoint_location)],
    )
