"""Measure the front against a bare pyarrow.flight server.

Same data, same client (pyarrow.flight), rounds interleaved in one run. Both servers
are processes of their own on loopback. A ratio above 1 means that sparkport is faster.

    python benchmarks/front.py [--rounds 15] [--quick]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import flight

BATCH_BYTES = 1 << 20
STREAM_BYTES = 5_000_000_000


def int_batch() -> pa.RecordBatch:
    rows = BATCH_BYTES // 32
    return pa.record_batch({name: pa.array(range(rows), pa.int64()) for name in "abcd"})


def text_batch() -> pa.RecordBatch:
    rows = BATCH_BYTES // 56
    return pa.record_batch(
        {
            "name": pa.array([f"customer-{i:08d}" for i in range(rows)]),
            "note": pa.array([f"order {i:07d} shipped on time" for i in range(rows)]),
        }
    )


def repeated(batch: pa.RecordBatch, rows: int) -> pa.Table:
    """Return about `rows` rows made of the same batch, so that the data fits in memory."""
    return pa.Table.from_batches([batch] * -(-rows // batch.num_rows))


def long_stream() -> pa.RecordBatchReader:
    """Return a stream that is far larger than memory should grow."""
    batch = int_batch()
    return pa.RecordBatchReader.from_batches(
        batch.schema, itertools.repeat(batch, STREAM_BYTES // batch.nbytes)
    )


class Bare(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow is untyped
    """The rival: pyarrow's own server with nothing around it."""

    def __init__(self, tables: dict[bytes, pa.Table]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables = tables

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        del context
        return flight.RecordBatchStream(self.tables[ticket.ticket])

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        del context, descriptor
        writer.begin(reader.schema)
        kept = [chunk.data for chunk in reader]
        writer.write_metadata(str(sum(batch.num_rows for batch in kept)).encode())

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[flight.Result]:
        del context, action
        yield flight.Result(b"\x82\xafcatalog_version\x01\xa8is_fixed\xc2")


def serve_bare(ints: int, texts: int) -> None:
    server = Bare({b"ints": repeated(int_batch(), ints), b"texts": repeated(text_batch(), texts)})
    print(f"ready grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


def serve_sparkport(ints: int, texts: int) -> None:
    from sparkport import CatalogBuilder, Server
    from sparkport.app.process.allocation import keep_freed_memory
    from sparkport.app.process.logs import LogFormat, LogLevel, configure_logs
    from sparkport.catalog import Call, CreateSchemaOptions, CreateTableOptions
    from sparkport.memory import MemoryCatalog

    configure_logs(LogFormat.JSON, LogLevel.WARNING)
    keep_freed_memory()  # as `sparkport serve` does
    tables = (
        CatalogBuilder()
        .schema("bench")
        .table("ints", repeated(int_batch(), ints))
        .table("texts", repeated(text_batch(), texts))
        .table("stream", arrow_schema=int_batch().schema, reader=long_stream)
        .build()
    )
    memory, wide, call = MemoryCatalog(), MemoryCatalog(), Call()
    memory.create_schema(call, "bench", CreateSchemaOptions())
    columns = pa.schema([(f"column_{i}", pa.int64()) for i in range(20)])
    many = wide.create_schema(call, "bench", CreateSchemaOptions())
    for i in range(1000):
        many.create_table(call, f"table_{i}", columns, CreateTableOptions())
    server = Server({"tables": tables, "memory": memory, "wide": wide}, port=0, authenticate=False)
    server.start()
    print(f"ready {server.location}", flush=True)
    server.wait()


class Process:
    """A server process and its client."""

    def __init__(self, name: str, ints: int, texts: int) -> None:
        command = [sys.executable, __file__, "--serve", name, "--ints", str(ints), "--texts", str(texts)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.client = flight.connect(self.process.stdout.readline().split()[1])

    def resident(self) -> int:
        """Return the memory of the process in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096

    def stop(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


def read_all(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    return int(sum(chunk.data.nbytes for chunk in client.do_get(ticket)))


def sparkport_ticket(client: flight.FlightClient, table: str) -> flight.Ticket:
    descriptor = flight.FlightDescriptor.for_path("tables", "bench", table)
    return client.get_flight_info(descriptor).endpoints[0].ticket


def ingest(client: flight.FlightClient, batches: int, options: flight.FlightCallOptions | None) -> int:
    batch = int_batch()
    descriptor = flight.FlightDescriptor.for_path("memory", "bench", "sink")
    writer, reader = client.do_exchange(descriptor, options)
    writer.begin(batch.schema)
    for _ in range(batches):
        writer.write_batch(batch)
    writer.done_writing()
    reader.read_chunk()
    writer.close()
    return batches * int(batch.nbytes)


def fresh_sink(client: flight.FlightClient) -> None:
    """Replace the table that takes the rows, so that both servers forget earlier rounds."""
    request = {
        "catalog_name": "memory",
        "schema_name": "bench",
        "table_name": "sink",
        "arrow_schema": int_batch().schema.serialize().to_pybytes(),
        "on_conflict": "replace",
    }
    list(client.do_action(flight.Action("create_table", msgspec.msgpack.encode(request))))


def actions(client: flight.FlightClient, count: int) -> int:
    action = flight.Action("catalog_version", b"\x81\xaccatalog_name\xa6memory")
    options = flight.FlightCallOptions(
        headers=[(b"airport-action-name", b"catalog_version")]
    )  # as DuckDB does
    for _ in range(count):
        list(client.do_action(action, options))
    return count


def rate(work: Callable[[], int]) -> float:
    started = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - started)


def compare(
    name: str,
    unit: str,
    scale: float,
    ours: Callable[[], int],
    bare: Callable[[], int],
    rounds: int,
    before: Callable[[], None] = lambda: None,
) -> None:
    pairs = []
    for index in range(rounds + 1):
        before()
        # Who goes first alternates, and the first round only warms up.
        pair = (rate(ours), rate(bare)) if index % 2 else (rate(bare), rate(ours))[::-1]
        if index:
            pairs.append(pair)
    our_rate = statistics.median(pair[0] for pair in pairs) / scale
    bare_rate = statistics.median(pair[1] for pair in pairs) / scale
    low, ratio, high = statistics.quantiles((a / b for a, b in pairs), n=4)
    rates = f"{our_rate:,.0f} {unit} | {bare_rate:,.0f} {unit}"
    print(f"| {name} | {rates} | {ratio:.2f} ({low:.2f} - {high:.2f}) |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data")
    parser.add_argument("--serve", choices=["bare", "sparkport"], help=argparse.SUPPRESS)
    parser.add_argument("--ints", type=int, default=10_000_000)
    parser.add_argument("--texts", type=int, default=4_000_000)
    arguments = parser.parse_args()
    if arguments.serve:
        {"bare": serve_bare, "sparkport": serve_sparkport}[arguments.serve](arguments.ints, arguments.texts)
        return
    share = 10 if arguments.quick else 1
    sizes = (arguments.ints // share, arguments.texts // share)
    bare, ours = Process("bare", *sizes), Process("sparkport", *sizes)
    try:
        run(ours, bare, arguments.rounds, share)
    finally:
        bare.stop()
        ours.stop()


def run(ours: Process, bare: Process, rounds: int, share: int) -> None:
    print("| what | sparkport | bare pyarrow.flight | ratio (quartiles) |\n|---|---|---|---|")
    for table, title in (("ints", "DoGet, 10 M rows x 4 int64"), ("texts", "DoGet, 4 M rows x 2 strings")):
        ticket = sparkport_ticket(ours.client, table)
        other = flight.Ticket(table.encode())
        compare(
            title,
            "MB/s",
            1e6,
            lambda ticket=ticket: read_all(ours.client, ticket),  # type: ignore[misc]
            lambda other=other: read_all(bare.client, other),  # type: ignore[misc]
            rounds,
        )
    headers = [(b"airport-operation", b"insert"), (b"return-chunks", b"0")]
    options = flight.FlightCallOptions(headers=headers)
    batches = 320 // share
    compare(
        "DoExchange ingest, 1 MiB batches",
        "MB/s",
        1e6,
        lambda: ingest(ours.client, batches, options),
        lambda: ingest(bare.client, batches, None),
        rounds,
        before=lambda: fresh_sink(ours.client),
    )
    calls = 3000 // share
    compare(
        "DoAction, one client",
        "calls/s",
        1,
        lambda: actions(ours.client, calls),
        lambda: actions(bare.client, calls),
        rounds,
    )
    listing = flight.Action("list_schemas", b"\x81\xaccatalog_name\xa4wide")
    list(ours.client.do_action(listing))
    times = []
    for _ in range(20):
        started = time.perf_counter()
        list(ours.client.do_action(listing))
        times.append(time.perf_counter() - started)
    print(f"\nlist_schemas, 1,000 tables x 20 columns, warm: {statistics.median(times) * 1000:.1f} ms")
    read_all(ours.client, sparkport_ticket(ours.client, "ints"))
    before = highest = ours.resident()
    streamed = 0
    for index, chunk in enumerate(ours.client.do_get(sparkport_ticket(ours.client, "stream"))):
        streamed += chunk.data.nbytes
        if index % 100 == 0:
            highest = max(highest, ours.resident())
    print(f"server memory over one {streamed / 1e9:.1f} GB stream: +{(highest - before) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
