"""A client of Flight SQL that shows every message: what ADBC and JDBC send, without their drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message

from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from tests.flight_client import (
    SERVICE,
    TIMEOUT,
    Flight,
    Headers,
    batch_frames,
    frame,
    schema_header,
    table_of,
)


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


def action(flight: Flight, name: str, message: Message, headers: Headers = ()) -> list[bytes]:
    """Run an action of Flight SQL and return what is in the Any of each result."""
    results = flight.action(name, wrapped(message), headers)
    return [sql.Any.FromString(result).value for result in results]


def put(flight: Flight, command: Message, rows: pa.Table | None = None, headers: Headers = ()) -> bytes:
    """Send a command with rows, or with its descriptor alone, and return the metadata of the answer."""
    if rows is None:
        frames = [frame(descriptor=descriptor(command))]
    else:
        first = frame(descriptor=descriptor(command), header=schema_header(rows.schema))
        frames = [first, *batch_frames(rows)]
    call: Callable[..., Any] = flight.channel.stream_stream(SERVICE + "DoPut")
    (answer,) = call(iter(frames), metadata=(*flight.headers, *headers), timeout=TIMEOUT)
    return pb.PutResult.FromString(answer).app_metadata


def update(flight: Flight, text: str, **fields: bytes) -> int:
    """Run a statement that returns no rows and return its count."""
    answer = put(flight, sql.CommandStatementUpdate(query=text, **fields))
    return sql.DoPutUpdateResult.FromString(answer).record_count


def query(flight: Flight, text: str, headers: Headers = (), **fields: bytes) -> list[dict[str, object]]:
    """Run a query and return its rows."""
    rows: list[dict[str, object]] = run(
        flight, sql.CommandStatementQuery(query=text, **fields), headers
    ).to_pylist()
    return rows


def prepare(flight: Flight, text: str) -> sql.ActionCreatePreparedStatementResult:
    """Prepare a statement."""
    (result,) = action(
        flight, "CreatePreparedStatement", sql.ActionCreatePreparedStatementRequest(query=text)
    )
    return sql.ActionCreatePreparedStatementResult.FromString(result)
