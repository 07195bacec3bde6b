"""Statements in SQL over a channel."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sparkport.client.channel import FlightChannel, Headers
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import schemas
from sparkport.protocol.flight_sql import commands as sql_commands
from sparkport.protocol.ipc import flight_data
from sparkport.protocol.ipc.flight_data import Decoder

__all__ = ["run"]


def run(channel: FlightChannel, headers: Headers, text: str) -> pa.RecordBatchReader | int:
    """Return the rows of a query, or how many rows another statement has changed."""
    command = sql_commands.encode_query(text)
    address = pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=command)
    info = channel.flight_info(address.SerializeToString(), headers)
    if not info.endpoint:
        return max(0, info.total_records)
    arrow_schema = schemas.decode(info.schema)
    return pa.RecordBatchReader.from_batches(arrow_schema, _batches(channel, headers, info))


def _batches(channel: FlightChannel, headers: Headers, info: pb.FlightInfo) -> Iterator[pa.RecordBatch]:
    for endpoint in info.endpoint:
        frames = (flight_data.decode(frame) for frame in channel.get(endpoint.ticket.ticket, headers))
        for batch, _ in Decoder(frames):
            yield batch
