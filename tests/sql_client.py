"""A client of Flight SQL that shows every message: what ADBC and JDBC send, without their drivers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf.message import Message

from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from tests.flight_client import Flight, Headers, table_of


def wrapped(message: Message) -> bytes:
    """Return a message in an Any."""
    url = f"type.googleapis.com/{message.DESCRIPTOR.full_name}"
    return sql.Any(type_url=url, value=message.SerializeToString()).SerializeToString()


def descriptor(message: Message) -> bytes:
    """Return the flight descriptor of a command."""
    return pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=wrapped(message)).SerializeToString()


def run(flight: Flight, command: Message, headers: Headers = ()) -> pa.Table:
    """Describe a command, read all its endpoints, and return the rows."""
    info = flight.flight_info(descriptor(command), headers)
    arrow_schema = pa.ipc.read_schema(pa.py_buffer(info.schema))
    parts = [table_of(flight.get(endpoint.ticket.ticket, headers)) for endpoint in info.endpoint]
    for part in parts:
        assert part.schema.equals(arrow_schema), (part.schema, arrow_schema)
    return pa.concat_tables(parts) if parts else arrow_schema.empty_table()


def schema(flight: Flight, command: Message) -> pa.Schema:
    """Return the columns of a command."""
    answer = pb.SchemaResult.FromString(flight.unary("GetSchema", descriptor(command)))
    return pa.ipc.read_schema(pa.py_buffer(answer.schema))


def sql_info(flight: Flight, ids: Sequence[int] = ()) -> dict[int, object]:
    """Return what the server tells of itself."""
    rows = run(flight, sql.CommandGetSqlInfo(info=ids)).to_pylist()
    return {row["info_name"]: row["value"] for row in rows}
