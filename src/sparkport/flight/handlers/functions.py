"""Describing table functions before they run."""

from __future__ import annotations

from sparkport.flight.functions import decoded_parameters, find_table_function
from sparkport.flight.request import Request
from sparkport.flight.site import Site
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flights
from sparkport.protocol.contract import NamedFunctionRequest
from sparkport.protocol.ticket import Ticket


def named_flight_info(site: Site, request: Request, wanted: NamedFunctionRequest) -> bytes:
    """Return the schema that a call would have, with a ticket that makes the call."""
    path, function = find_table_function(site, request, wanted.name)
    parameters = decoded_parameters(function, wanted.parameters)
    arrow_schema = function.schema_for_parameters(request.call, parameters)
    ticket = Ticket(path, function=True, parameters=wanted.parameters)
    sealed = site.sealer.seal(ticket, request.call.principal)
    address = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=str(path).encode())
    return flights.encode_info(
        arrow_schema,
        address.SerializeToString(),
        endpoints=[flights.endpoint(sealed, site.endpoint_location)],
    )
