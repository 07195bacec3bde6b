"""FlightInfo and endpoints: how the server describes tables and functions to a client."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa

from sparkport.catalog.lookup import TablePath
from sparkport.catalog.scan import ClientCall
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import msgpack, schemas
from sparkport.protocol.descriptor import FunctionKind

_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call"
REUSE_CONNECTION = "arrow-flight-reuse-connection://?"


def app_metadata(path: TablePath, comment: str, version: str | None = None) -> bytes:
    """Return what the Airport client wants to know of a table beside its schema.

    `path.catalog` must be the name that the client attached. `version` is for other clients: the snapshot
    that a scan reads.
    """
    more = {} if version is None else {"version": version}
    return _metadata("table", path, comment=comment or None, **more)


def function_metadata(
    kind: FunctionKind, path: TablePath, comment: str, input_schema: pa.Schema, extra: bytes | None
) -> bytes:
    """Return what the Airport client wants to know of a function beside its result."""
    return _metadata(
        kind,
        path,
        input_schema=schemas.encode(input_schema),
        description=comment or None,
        extra_data=extra,
    )


def _metadata(kind: str, path: TablePath, **more: object) -> bytes:
    nothing = dict.fromkeys(("comment", "input_schema", "action_name", "description", "extra_data"))
    names = {"type": str(kind), "schema": path.schema, "catalog": path.catalog, "name": path.table}
    return msgpack.encode({**names, **nothing, **more})


def encode_info(
    arrow_schema: pa.Schema,
    descriptor: bytes,
    *,
    metadata: bytes = b"",
    endpoints: Sequence[pb.FlightEndpoint] = (),
    total_records: int | None = None,
    is_ordered: bool = False,
) -> bytes:
    """Return a FlightInfo message."""
    return pb.FlightInfo(
        schema=schemas.encode(arrow_schema),
        flight_descriptor=pb.FlightDescriptor.FromString(descriptor),
        endpoint=endpoints,
        total_records=-1 if total_records is None else total_records,
        total_bytes=-1,
        ordered=is_ordered,
        app_metadata=metadata,
    ).SerializeToString()


def call_location(call: ClientCall) -> str:
    """Return the location that tells the Airport client to call a function of its own."""
    arguments = {f"arg_{index}": value for index, value in enumerate(call.arguments)} | dict(call.named)
    batch = pa.record_batch({name: pa.array([value]) for name, value in arguments.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    packed = {"function_name": call.function, "data": sink.getvalue().to_pybytes()}
    return f"data:{_FUNCTION_CALL};base64,{base64.b64encode(msgpack.encode(packed)).decode()}"


def endpoint(ticket: bytes, location: str = REUSE_CONNECTION, app_metadata: bytes = b"") -> pb.FlightEndpoint:
    """Return an endpoint; the client takes its first location and needs one."""
    return pb.FlightEndpoint(
        ticket=pb.Ticket(ticket=ticket), location=[pb.Location(uri=location)], app_metadata=app_metadata
    )


def local_endpoint(ticket: bytes, expires: int) -> pb.FlightEndpoint:
    """Return an endpoint without a location, which is the server that gave it out, and when it expires."""
    return pb.FlightEndpoint(ticket=pb.Ticket(ticket=ticket), expiration_time=pb.Timestamp(seconds=expires))


def encode_endpoints(endpoints: Sequence[pb.FlightEndpoint]) -> bytes:
    """Return the answer to the `endpoints` action."""
    return msgpack.encode([one.SerializeToString() for one in endpoints])
