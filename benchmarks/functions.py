"""Measure functions: a scalar echo against a bare pyarrow.flight server, a table function against a table.

The same client (pyarrow.flight) for all, rounds interleaved in one run, each server a process
of its own on loopback. A scalar function is called as DuckDB does it: 2048 rows are sent, and
their result is awaited before the next.

    python benchmarks/functions.py [--rounds 9] [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import grpc
import msgspec
import pyarrow as pa
from pyarrow import flight

ROWS = 10_000_000
VECTOR = 2048
BATCH_ROWS = 1 << 15


class Bare(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """The rival: pyarrow's own server, sending back what it gets."""

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        del context, descriptor
        writer.begin(reader.schema)
        for chunk in reader:
            writer.write_batch(chunk.data)


def serve_bare(rows: int) -> None:
    del rows
    server = Bare("grpc://127.0.0.1:0")
    print(f"ready grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


def serve_grpcio(rows: int) -> None:
    """Send frames back unread: what is left of a call when the server does nothing with it."""
    from concurrent.futures import ThreadPoolExecutor

    del rows

    def send_back(frames: Iterator[bytes], context: object) -> Iterator[bytes]:
        del context
        next(frames)  # the descriptor
        yield from frames

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
            del handler_call_details
            return grpc.stream_stream_rpc_method_handler(send_back)

    server = grpc.server(ThreadPoolExecutor(4), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"ready grpc://127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def serve_sparkport(rows: int) -> None:
    from sparkport import App, Server
    from sparkport.app.process.allocation import keep_freed_memory
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs

    configure_logs(LogFormat.JSON, LogLevel.WARNING)
    keep_freed_memory()  # as `sparkport serve` does
    app = App(schema="bench")
    batch = pa.record_batch({name: pa.array(range(BATCH_ROWS), pa.int64()) for name in "abcd"})
    count = -(-rows // BATCH_ROWS)

    @app.scalar_function()
    def echo(n: Annotated[pa.Array, pa.int64()]) -> Annotated[pa.Array, pa.int64()]:
        return n

    @app.table_function(columns=batch.schema)
    def stream(batches: int) -> Iterator[pa.RecordBatch]:
        for _ in range(batches):
            yield batch

    app.add_table(pa.Table.from_batches([batch] * count), name="table")
    server = Server(app, port=0, authenticate=False)
    server.start()
    print(f"ready {server.location}", flush=True)
    server.wait()


SERVERS = {"bare": serve_bare, "grpcio": serve_grpcio, "sparkport": serve_sparkport}


class Process:
    """A server process and its client."""

    def __init__(self, name: str, rows: int) -> None:
        command = [sys.executable, __file__, "--serve", name, "--rows", str(rows)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.client = flight.connect(self.process.stdout.readline().split()[1])

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


def function_descriptor(client: flight.FlightClient, name: str) -> flight.FlightDescriptor:
    """Return the descriptor of a function in the listing, as DuckDB finds it."""
    request = flight.Action("list_schemas", msgspec.msgpack.encode({"catalog_name": "lakehouse"}))
    (answer,) = client.do_action(request)
    for data in _unpacked(_unpacked(answer.body.to_pybytes())["schemas"][0]["contents"]["serialized"]):
        info = flight.FlightInfo.deserialize(data)
        if info.descriptor.path and name.encode() in info.descriptor.path:
            return info.descriptor
    raise LookupError(name)


def _unpacked(data: bytes) -> Any:  # noqa: ANN401
    size, compressed = msgspec.msgpack.decode(data)
    return msgspec.msgpack.decode(pa.Codec("zstd").decompress(compressed, size, asbytes=True))


def echo(client: flight.FlightClient, descriptor: flight.FlightDescriptor, rows: int) -> int:
    """Send rows in vectors of DuckDB's size and wait for each answer; return the bytes sent."""
    batch = pa.record_batch({"n": pa.array(range(VECTOR), pa.int64())})
    headers = [(b"airport-operation", b"scalar_function"), (b"return-chunks", b"1")]
    writer, reader = client.do_exchange(descriptor, flight.FlightCallOptions(headers=headers))
    writer.begin(batch.schema)
    count = -(-rows // VECTOR)
    for _ in range(count):
        writer.write_batch(batch)
        assert reader.read_chunk().data.num_rows == VECTOR
    writer.done_writing()
    writer.close()
    return count * int(batch.nbytes)


def read_all(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    return int(sum(chunk.data.nbytes for chunk in client.do_get(ticket)))


def function_ticket(client: flight.FlightClient, batches: int) -> flight.Ticket:
    body = msgspec.msgpack.encode({"name": "stream", "parameters": [batches]})
    (answer,) = client.do_action(flight.Action("table_function_flight_info", body))
    return flight.FlightInfo.deserialize(answer.body.to_pybytes()).endpoints[0].ticket


def table_ticket(client: flight.FlightClient) -> flight.Ticket:
    descriptor = flight.FlightDescriptor.for_path("bench", "table")
    return client.get_flight_info(descriptor).endpoints[0].ticket


def rate(work: Callable[[], int]) -> float:
    started = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - started)


def compare(name: str, ours: Callable[[], int], other: Callable[[], int], rounds: int) -> None:
    pairs = []
    for index in range(rounds + 1):
        # Who goes first alternates, and the first round only warms up.
        pair = (rate(ours), rate(other)) if index % 2 else (rate(other), rate(ours))[::-1]
        if index:
            pairs.append(pair)
    mine, theirs = (statistics.median(pair[which] for pair in pairs) / 1e6 for which in (0, 1))
    low, ratio, high = statistics.quantiles((a / b for a, b in pairs), n=4)
    print(
        f"| {name} | {mine:,.0f} MB/s | {theirs:,.0f} MB/s | {ratio:.2f} ({low:.2f} - {high:.2f}) |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--serve", choices=list(SERVERS), help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = parser.parse_args()
    if arguments.serve:
        SERVERS[arguments.serve](arguments.rows)
        return
    rows = arguments.rows // (10 if arguments.quick else 1)
    bare, grpcio, ours = (Process(name, rows) for name in SERVERS)
    try:
        print("| what | function | rival | ratio (quartiles) |\n|---|---|---|---|")
        own, any_name = function_descriptor(ours.client, "echo"), flight.FlightDescriptor.for_path("echo")
        compare(
            "scalar echo of int64 in batches of 2048, rival: bare pyarrow.flight",
            lambda: echo(ours.client, own, rows),
            lambda: echo(bare.client, any_name, rows),
            arguments.rounds,
        )
        compare(
            "the same, by a grpcio server that sends back what it gets, unread",
            lambda: echo(grpcio.client, any_name, rows),
            lambda: echo(bare.client, any_name, rows),
            arguments.rounds,
        )
        batches = -(-rows // BATCH_ROWS)
        compare(
            "table function, rows x 4 int64, rival: DoGet of the same rows from memory",
            lambda: read_all(ours.client, function_ticket(ours.client, batches)),
            lambda: read_all(ours.client, table_ticket(ours.client)),
            arguments.rounds,
        )
    finally:
        for server in (bare, grpcio, ours):
            server.stop()


if __name__ == "__main__":
    main()
