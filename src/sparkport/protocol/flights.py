"""FlightInfo and endpoints: how the server describes a table to a client."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pyarrow as pa

from sparkport.catalog.lookup import TablePath
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import msgpack, schemas

_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call"
REUSE_CONNECTION = "arrow-flight-reuse-connection://?"


def app_metadata(path: TablePath, comment: str) -> bytes:
    """Return what the Airport client wants to know of a table beside its schema.

    `path.catalog` must be the name that the client attached.
    """
    return msgpack.encode(
        {
            "type": "table",
            "schema": path.schema,
            "catalog": path.catalog,
            "name": path.table,
            "comment": comment or None,
            "input_schema": None,
            "action_name": None,
            "description": None,
            "extra_data": None,
        }
    )


def encode_info(
    arrow_schema: pa.Schema,
    descriptor: bytes,
    *,
    metadata: bytes = b"",
    endpoints: Sequence[pb.FlightEndpoint] = (),
    total_records: int | None = None,
) -> bytes:
    """Return a FlightInfo message."""
    return pb.FlightInfo(
        schema=schemas.encode(arrow_schema),
        flight_descriptor=pb.FlightDescriptor.FromString(descriptor),
        endpoint=endpoints,
        total_records=-1 if total_records is None else total_records,
        total_bytes=-1,
        app_metadata=metadata,
    ).SerializeToString()


def parquet_location(files: Sequence[str]) -> str:
    """Return the location that tells the Airport client to read Parquet files itself."""
    arguments = {
        "arg_0": pa.array([list(files)], pa.list_(pa.string())),
        # Names and types are those of the files: folders such as `a=1` add no column.
        "hive_partitioning": pa.array([False]),
    }
    sink = pa.BufferOutputStream()
    batch = pa.record_batch(arguments)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    call = {"function_name": "read_parquet", "data": sink.getvalue().to_pybytes()}
    return f"data:{_FUNCTION_CALL};base64,{base64.b64encode(msgpack.encode(call)).decode()}"


def endpoint(ticket: bytes, location: str = REUSE_CONNECTION, app_metadata: bytes = b"") -> pb.FlightEndpoint:
    """Return an endpoint; the client takes its first location and needs one."""
    return pb.FlightEndpoint(
        ticket=pb.Ticket(ticket=ticket), location=[pb.Location(uri=location)], app_metadata=app_metadata
    )


def encode_endpoints(endpoints: Sequence[pb.FlightEndpoint]) -> bytes:
    """Return the answer to the `endpoints` action."""
    return msgpack.encode([one.SerializeToString() for one in endpoints])
