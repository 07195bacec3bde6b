"""What one call may cost: bytes and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
from pyarrow import flight

import sparkport
from sparkport.catalog import Call, ScanOptions
from sparkport.flight.transport.limits import ServerLimits
from sparkport.memory import MemoryCatalog
from sparkport.protocol import flight_pb2 as pb
from sparkport.toolkit import CatalogBuilder
from tests.conftest import TOKEN
from tests.flight_client import SERVICE, Flight, path_descriptor, refusal


def test_message_over_the_limit_is_refused() -> None:
    """A message larger than the limit is RESOURCE_EXHAUSTED and the server goes on."""
    limits = ServerLimits(message_bytes=1 << 20)
    with (
        sparkport.Server(
            {"db1": MemoryCatalog()}, port=0, token=TOKEN, limits=limits, grace_seconds=0
        ) as server,
        Flight(server.location, TOKEN) as client,
    ):
        large = {"catalog_name": "x" * (2 << 20)}
        assert refusal(lambda: client.action("list_schemas", large))[0] == "RESOURCE_EXHAUSTED"
        assert len(client.action("list_schemas", {"catalog_name": "db1"})) == 1


def test_compressed_message_is_refused_unread(server: sparkport.Server) -> None:
    """A small message that unpacks to a huge one is refused before it is unpacked."""
    request = pb.Action(type="list_schemas", body=b"\0" * (16 << 20)).SerializeToString()
    address = server.location.removeprefix("grpc://")
    with grpc.insecure_channel(address, compression=grpc.Compression.Gzip) as channel:
        call: Callable[..., Any] = channel.unary_stream(SERVICE + "DoAction")

        assert refusal(lambda: list(call(request, timeout=10))) == (
            "UNIMPLEMENTED",
            "Compression algorithm 'gzip' is disabled.",
        )


def test_large_headers_are_refused(client: Flight) -> None:
    """Headers above the limit are RESOURCE_EXHAUSTED and the server goes on."""
    large = [("x-large", "x" * 100_000)]

    assert refusal(lambda: client.list_flights(headers=large))[0] == "RESOURCE_EXHAUSTED"
    assert client.list_flights() == []


def test_deadline_stops_a_scan() -> None:
    """A scan that takes longer than the caller's deadline ends with DEADLINE_EXCEEDED on both sides."""
    stopped = threading.Event()

    def endless(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del options

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                while True:
                    call.check()
                    time.sleep(0.01)
                    yield pa.record_batch({"n": pa.array([1])})
            finally:
                stopped.set()

        return pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())

    catalog = (
        CatalogBuilder().schema("s").table("t", scan=endless, arrow_schema=pa.schema([("n", pa.int64())]))
    )
    with (
        sparkport.Server({"db1": catalog.build()}, port=0, token=TOKEN, grace_seconds=0) as server,
        Flight(server.location, TOKEN) as client,
    ):
        (ticket,) = client.scan(path_descriptor("db1", "s", "t"), [0])
        request = pb.Ticket(ticket=ticket).SerializeToString()
        code, _ = refusal(lambda: list(client.stream("DoGet", request, timeout=0.3)))
        assert code == "DEADLINE_EXCEEDED"
        assert stopped.wait(5)
        assert len(client.action("list_schemas", {"catalog_name": "db1"})) == 1


def test_aged_connection_is_replaced_without_a_failure() -> None:
    """Calls go on over one connection after the other, and a stream outlives the age of its own."""

    def slow(call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        del options

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(15):
                call.wait_cancelled(0.2)
                yield pa.record_batch({"n": pa.array([number] * 100_000)})

        return pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches())

    columns = pa.schema([("n", pa.int64())])
    catalog = CatalogBuilder().schema("s").table("t", scan=slow, arrow_schema=columns)
    limits = ServerLimits(connection_age_seconds=0.5, connection_idle_seconds=0.5)
    with (
        sparkport.Server({"db1": catalog.build()}, port=0, token=TOKEN, limits=limits) as server,
        Flight(server.location, TOKEN) as client,
        flight.connect(server.location) as arrow,
    ):
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        (ticket,) = client.scan(path_descriptor("db1", "s", "t"), [0])
        rows = 0
        for chunk in arrow.do_get(flight.Ticket(ticket), options):
            rows += chunk.data.num_rows
            for _ in range(20):
                assert len(client.list_flights()) == 1
                assert len(list(arrow.list_flights(options=options))) == 1

        assert rows == 1_500_000
