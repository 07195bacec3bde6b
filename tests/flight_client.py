"""A Flight client that shows every byte: gRPC without Arrow's own client in between."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import msgspec
import pyarrow as pa

from sparkport.protocol import flight_pb2 as pb

SERVICE = "/arrow.flight.protocol.FlightService/"
AIRPORT = ("airport-user-agent", "airport/20250723")
ROWID = (1 << 64) - 1
TIMEOUT = 90.0

Headers = Sequence[tuple[str, str]]

_DESCRIPTOR, _HEADER, _APP_METADATA, _BODY = 1, 2, 3, 1000


class Flight:
    """Calls one server with one token; `airport=False` calls as any other Flight client.

    All clients of a process share one connection unless one is `alone`.
    """

    def __init__(
        self,
        location: str,
        token: str | None,
        *,
        airport: bool = True,
        alone: bool = False,
        tls: grpc.ChannelCredentials | None = None,
    ) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        options += [("grpc.use_local_subchannel_pool", 1)] if alone else []
        target = location.partition("://")[2]
        if tls is None:
            self.channel = grpc.insecure_channel(target, options=options)
        else:
            self.channel = grpc.secure_channel(target, tls, options=options)
        own = [AIRPORT] if airport else []
        self.headers: list[tuple[str, str]] = own + (
            [("authorization", f"Bearer {token}")] if token is not None else []
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def unary(self, method: str, request: bytes, headers: Headers = ()) -> bytes:
        """Call a method with one answer."""
        call: Callable[..., bytes] = self.channel.unary_unary(SERVICE + method)
        return call(request, metadata=(*self.headers, *headers), timeout=TIMEOUT)

    def stream(self, method: str, request: bytes, headers: Headers = (), timeout: float = TIMEOUT) -> Any:
        """Call a method with many answers and return the running call."""
        call: Callable[..., Any] = self.channel.unary_stream(SERVICE + method)
        return call(request, metadata=(*self.headers, *headers), timeout=timeout)

    def action(self, name: str, body: bytes | Mapping[str, object], headers: Headers = ()) -> list[bytes]:
        """Run an action and return the bodies of its results."""
        data = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
        request = pb.Action(type=name, body=data).SerializeToString()
        return [pb.Result.FromString(result).body for result in self.stream("DoAction", request, headers)]

    def get(self, ticket: bytes, headers: Headers = ()) -> list[bytes]:
        """Read the frames of a ticket."""
        return list(self.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString(), headers))

    def flight_info(self, descriptor: bytes, headers: Headers = ()) -> pb.FlightInfo:
        """Call GetFlightInfo."""
        return pb.FlightInfo.FromString(self.unary("GetFlightInfo", descriptor, headers))

    def list_flights(self, criteria: bytes = b"", headers: Headers = ()) -> list[pb.FlightInfo]:
        """Call ListFlights."""
        request = pb.Criteria(expression=criteria).SerializeToString()
        return [pb.FlightInfo.FromString(data) for data in self.stream("ListFlights", request, headers)]

    def exchange(self, operation: str, *, returning: bool = False, headers: Headers = ()) -> Exchange:
        """Open an exchange as the Airport client does."""
        own = [("airport-operation", operation), ("return-chunks", "1" if returning else "0")]
        return Exchange(self.channel, [*self.headers, *own, *headers])

    def insert(
        self, descriptor: bytes, rows: pa.Table, *, returning: bool = False, headers: Headers = ()
    ) -> int:
        """Insert rows and return the count that the server tells."""
        return self.write("insert", descriptor, rows, returning=returning, headers=headers)

    def write(
        self,
        operation: str,
        descriptor: bytes,
        rows: pa.Table,
        *,
        returning: bool = False,
        headers: Headers = (),
    ) -> int:
        """Run a whole statement and return the count that the server tells."""
        exchange = self.exchange(operation, returning=returning, headers=headers)
        exchange.open(descriptor, rows.schema)
        for frame in batch_frames(rows):
            exchange.send(frame)
            if returning:
                exchange.receive()
        exchange.half_close()
        return total_changed(exchange.rest()[-1])

    def scan(
        self,
        descriptor: bytes,
        column_ids: Sequence[int],
        *,
        filters: str = "",
        at: tuple[str, str] = ("", ""),
        headers: Headers = (),
    ) -> list[bytes]:
        """Plan a scan and return its tickets."""
        parameters = {
            "json_filters": filters,
            "column_ids": list(column_ids),
            "table_function_parameters": "",
            "table_function_input_schema": "",
            "at_unit": at[0],
            "at_value": at[1],
        }
        (body,) = self.action("endpoints", {"descriptor": descriptor, "parameters": parameters}, headers)
        return tickets(body)

    def read(self, descriptor: bytes, columns: int, headers: Headers = ()) -> pa.Table:
        """Read the first columns and the row id of a table."""
        parts = [
            table_of(self.get(ticket, headers))
            for ticket in self.scan(descriptor, [*range(columns), ROWID], headers=headers)
        ]
        return pa.concat_tables(parts)

    def create_table(
        self, catalog: str, schema: str, table: str, arrow_schema: pa.Schema, **options: object
    ) -> pb.FlightInfo:
        """Make a table and return how the server describes it."""
        body = {
            "catalog_name": catalog,
            "schema_name": schema,
            "table_name": table,
            "arrow_schema": bytes(arrow_schema.serialize()),
            **options,
        }
        (result,) = self.action("create_table", body)
        return pb.FlightInfo.FromString(result)

    def create_schema(self, catalog: str, schema: str) -> None:
        """Make a schema."""
        self.action("create_schema", {"catalog_name": catalog, "schema": schema})


class Exchange:
    """One DoExchange, message by message."""

    def __init__(self, channel: grpc.Channel, headers: Headers) -> None:
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        call: Callable[..., Any] = channel.stream_stream(SERVICE + "DoExchange")
        self.call = call(iter(self._requests.get, None), metadata=tuple(headers), timeout=TIMEOUT)

    def send(self, frame: bytes) -> None:
        """Send one message."""
        self._requests.put(frame)

    def receive(self) -> bytes:
        """Wait for one message."""
        frame: bytes = next(self.call)
        return frame

    def open(self, descriptor: bytes, arrow_schema: pa.Schema) -> pa.Schema:
        """Send descriptor and schema as the client does, and wait for the server's schema."""
        self.send(frame(descriptor=descriptor))
        self.send(frame(descriptor=descriptor, header=schema_header(arrow_schema)))
        return schema_of(self.receive())

    def half_close(self) -> None:
        """Say that nothing more comes."""
        self._requests.put(None)

    def rest(self) -> list[bytes]:
        """Read to the end."""
        return list(self.call)


def refusal(run: Callable[[], object]) -> tuple[str, str]:
    """Return code and message of a call that must fail."""
    try:
        run()
    except grpc.RpcError as error:
        return error.code().name, str(error.details())
    raise AssertionError("the call was not refused")


def path_descriptor(*parts: str) -> bytes:
    """Return a PATH descriptor."""
    return pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=parts).SerializeToString()


def cmd_descriptor(command: str | bytes) -> bytes:
    """Return a CMD descriptor."""
    data = command.encode() if isinstance(command, str) else command
    return pb.FlightDescriptor(type=pb.FlightDescriptor.CMD, cmd=data).SerializeToString()


def descriptor_of(info: pb.FlightInfo) -> bytes:
    """Return the descriptor that the client sends back from then on."""
    return info.flight_descriptor.SerializeToString()


def schema_in(info: pb.FlightInfo) -> pa.Schema:
    """Return the advertised columns."""
    return pa.ipc.read_schema(pa.py_buffer(info.schema))


def tickets(body: bytes) -> list[bytes]:
    """Return the tickets in the answer to `endpoints`."""
    return [pb.FlightEndpoint.FromString(data).ticket.ticket for data in msgspec.msgpack.decode(body)]


def fields(data: bytes) -> dict[int, bytes]:
    """Cut a FlightData message into its fields, by number."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        length, at = _varint(data, at)
        assert tag & 7 == 2, "FlightData has only length-delimited fields"
        found[tag >> 3] = data[at : at + length]
        at += length
    return found


def frame(
    *,
    descriptor: bytes | None = None,
    header: bytes = b"",
    app_metadata: bytes = b"",
    body: bytes | None = None,
) -> bytes:
    """Build a FlightData message."""
    parts: list[tuple[int, bytes | None]] = [
        (_DESCRIPTOR, descriptor),
        (_HEADER, header or None),
        (_APP_METADATA, app_metadata or None),
        (_BODY, body),
    ]
    return b"".join(
        _number(number << 3 | 2) + _number(len(value)) + value for number, value in parts if value is not None
    )


def schema_header(arrow_schema: pa.Schema) -> bytes:
    """Return the IPC message of a schema without its prefix."""
    return bytes(arrow_schema.serialize())[8:]


def batch_frames(rows: pa.Table | pa.RecordBatch) -> list[bytes]:
    """Return the messages that follow the schema message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [
        frame(header=message.metadata.to_pybytes(), body=message.body.to_pybytes())
        for message in list(messages)[1:]
    ]


def table_of(frames: Sequence[bytes]) -> pa.Table:
    """Return the rows of a stream: its schema message, then its batches."""
    return pa.ipc.open_stream(pa.py_buffer(b"".join(_encapsulated(frames)))).read_all()


def schema_of(data: bytes) -> pa.Schema:
    """Return the columns of a schema message."""
    return pa.ipc.open_stream(pa.py_buffer(b"".join(_encapsulated([data])))).schema


def total_changed(data: bytes) -> int:
    """Return the count of the metadata-only message that ends an exchange."""
    found = fields(data)
    assert list(found) == [_APP_METADATA], "the count is a message of its own"
    answer: dict[str, int] = msgspec.msgpack.decode(found[_APP_METADATA])
    assert list(answer) == ["total_changed"]
    return answer["total_changed"]


def is_batch(data: bytes) -> bool:
    """Say whether a message carries rows."""
    return _BODY in fields(data)


def has_metadata(data: bytes) -> bool:
    """Say whether a message carries app_metadata."""
    return _APP_METADATA in fields(data)


def with_descriptor(data: bytes, descriptor: bytes) -> bytes:
    """Return a recorded message with another descriptor, if it has one."""
    found = fields(data)
    if _DESCRIPTOR not in found:
        return data
    old = found[_DESCRIPTOR]
    prefix = frame(descriptor=old)
    assert data.startswith(prefix), "the descriptor comes first"
    return frame(descriptor=descriptor) + data[len(prefix) :]


def _encapsulated(frames: Sequence[bytes]) -> Iterator[bytes]:
    for data in frames:
        found = fields(data)
        if _HEADER in found:
            header = found[_HEADER]
            padding = b"\0" * (-len(header) % 8)
            yield b"\xff\xff\xff\xff" + (len(header) + len(padding)).to_bytes(4, "little") + header + padding
            yield found.get(_BODY, b"")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
