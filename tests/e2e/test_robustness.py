"""Clients that leave, stall or die, many at once; and a server that is told to stop or is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

import sparkport
from sparkport.catalog import Call, ScanOptions
from sparkport.flight.transport.limits import ServerLimits
from sparkport.protocol import flight_pb2 as pb
from sparkport.toolkit import CatalogBuilder
from tests import flight_client as wire
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .serving import Process
from .usage import wait_idle

COLUMNS = pa.schema([("n", pa.int64())])
ROWS = pa.table({"n": list(range(1000))})
TABLE = path_descriptor("db1", "s", "t")
REPOSITORY = Path(__file__).parents[2]

WRITER = """
import sys, time
import pyarrow as pa
from tests import flight_client as wire

with wire.Flight(sys.argv[1], sys.argv[2]) as client:
    exchange = client.exchange("insert")
    rows = pa.table({"n": list(range(1000))})
    exchange.open(wire.path_descriptor("db1", "s", "t"), rows.schema)
    for _ in range(5):
        exchange.send(wire.batch_frames(rows)[0])
    time.sleep(0.5)
    print("sent", flush=True)
    time.sleep(60)
"""

SLOW_APP = """
import time
import pyarrow as pa
from sparkport import CatalogBuilder

COLUMNS = pa.schema([("n", pa.int64())])


def scan(call, options):
    def batches():
        for number in range(10):
            time.sleep(0.15)
            yield pa.record_batch({"n": pa.array([number] * 200_000)})

    return pa.RecordBatchReader.from_batches(COLUMNS, batches())


catalog = CatalogBuilder().schema("s").table("slow", scan=scan, arrow_schema=COLUMNS)
"""


@pytest.fixture
def table(client: Flight) -> Flight:
    """Make an empty table `s.t`."""
    client.create_schema("db1", "s")
    client.create_table("db1", "s", "t", COLUMNS)
    return client


def eventually(condition: object, seconds: float = 5.0) -> bool:
    """Wait until a condition holds."""
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Endless:
    """A table whose scan never ends by itself and tells when it was ended."""

    def __init__(self) -> None:
        self.running = 0
        self.catalog = CatalogBuilder().schema("s").table("t", scan=self.scan, arrow_schema=COLUMNS).build()

    def scan(self, call: Call, options: ScanOptions) -> pa.RecordBatchReader:
        """Return batches for ever."""
        del call, options
        return pa.RecordBatchReader.from_batches(COLUMNS, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self.running += 1
        try:
            while True:
                yield pa.record_batch({"n": pa.array(range(200_000))})
        finally:
            self.running -= 1


def test_cancelled_scan_ends_on_the_server() -> None:
    """A client that stops reading ends the scan within two seconds."""
    endless = Endless()
    with (
        sparkport.Server({"db1": endless.catalog}, port=0, token=TOKEN, grace_seconds=0.2) as server,
        Flight(server.location, TOKEN) as client,
    ):
        (ticket,) = client.scan(TABLE, [0])
        call = client.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString())
        next(call)
        next(call)
        assert endless.running == 1
        call.cancel()
        assert eventually(lambda: endless.running == 0, 2.0)


def test_closed_connection_ends_its_scans() -> None:
    """A client whose connection goes away ends its scans too."""
    endless = Endless()
    with sparkport.Server({"db1": endless.catalog}, port=0, token=TOKEN, grace_seconds=0.2) as server:
        with Flight(server.location, TOKEN) as client:
            (ticket,) = client.scan(TABLE, [0])
            call = client.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString())
            next(call)
            next(call)
        assert eventually(lambda: endless.running == 0, 2.0)


def test_stalled_reader_does_not_block_others() -> None:
    """Clients that do not read on hold up nobody else."""
    endless = Endless()
    with (
        sparkport.Server({"db1": endless.catalog}, port=0, token=TOKEN, grace_seconds=0.2) as server,
        Flight(server.location, TOKEN) as stalled,
        Flight(server.location, TOKEN) as other,
    ):
        (ticket,) = stalled.scan(TABLE, [0])
        request = pb.Ticket(ticket=ticket).SerializeToString()
        calls = [stalled.stream("DoGet", request) for _ in range(8)]
        for call in calls:
            next(call)
        started = time.monotonic()
        for _ in range(20):
            other.action("list_schemas", {"catalog_name": "db1"})
        assert time.monotonic() - started < 5
        for call in calls:
            call.cancel()


@pytest.mark.parametrize("returning", [False, True])
def test_cancelled_insert_leaves_nothing(server: sparkport.Server, table: Flight, returning: bool) -> None:
    """An exchange that is cancelled after its rows were sent commits none of them."""
    for _ in range(20):
        exchange = table.exchange("insert", returning=returning)
        exchange.open(TABLE, COLUMNS)
        exchange.send(wire.batch_frames(ROWS)[0])
        if returning:
            exchange.receive()
        exchange.call.cancel()
    wait_idle(server, table)

    assert table.read(TABLE, 1).num_rows == 0
    assert table.insert(TABLE, ROWS) == 1000


def test_cancelled_insert_leaves_nothing_on_a_busy_server(server: sparkport.Server, table: Flight) -> None:
    """A cancellation counts also when the thread that brings it has to wait for its turn."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        exchange = table.exchange("insert")
        exchange.open(TABLE, COLUMNS)
        exchange.send(wire.batch_frames(ROWS)[0])
        exchange.call.cancel()
    wait_idle(server, table)
    over.set()
    for thread in threads:
        thread.join()

    assert table.read(TABLE, 1).num_rows == 0


def test_insert_past_its_deadline_leaves_nothing(server: sparkport.Server, table: Flight) -> None:
    """An exchange whose deadline passes before its end commits nothing."""
    headers = (*table.headers, ("airport-operation", "insert"), ("return-chunks", "0"))
    hold = threading.Event()

    def frames() -> Iterator[bytes]:
        yield wire.frame(descriptor=TABLE, header=wire.schema_header(COLUMNS))
        yield wire.batch_frames(ROWS)[0]
        hold.wait(10)

    with grpc.insecure_channel(server.location.removeprefix("grpc://")) as channel:
        start = channel.stream_stream(wire.SERVICE + "DoExchange")  # type: ignore[var-annotated]
        code, _ = refusal(lambda: list(start(frames(), metadata=headers, timeout=0.3)))
    hold.set()
    wait_idle(server, table)

    assert code == "DEADLINE_EXCEEDED"
    assert table.read(TABLE, 1).num_rows == 0


@pytest.mark.slow
def test_killed_client_leaves_nothing(server: sparkport.Server, table: Flight) -> None:
    """A client process that is killed in the middle of an INSERT leaves no row."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, server.location, TOKEN],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "sent\n"
        writer.kill()
    wait_idle(server, table)

    assert table.read(TABLE, 1).num_rows == 0
    assert table.insert(TABLE, ROWS) == 1000


def test_fifty_clients_at_once(server: sparkport.Server, table: Flight) -> None:
    """Fifty clients that insert and read at the same time lose and double no row."""
    part = ROWS.slice(0, 20)

    def work(number: int) -> int:
        with Flight(server.location, TOKEN) as client:
            mine = pa.table({"n": [number * 100 + i for i in range(part.num_rows)]})
            changed = sum(client.insert(TABLE, mine) for _ in range(3))
            client.action("list_schemas", {"catalog_name": "db1"})
            assert client.read(TABLE, 1).num_rows >= changed
            return changed

    with ThreadPoolExecutor(50) as pool:
        changed = list(pool.map(work, range(50)))
    rows = table.read(TABLE, 1)

    assert changed == [60] * 50
    assert rows.num_rows == 3000
    assert len(set(rows["rowid"].to_pylist())) == 3000
    assert sorted(rows["n"].to_pylist()) == sorted([n * 100 + i for n in range(50) for i in range(20)] * 3)


def test_more_calls_than_threads_are_refused_not_hung() -> None:
    """Calls above the limit are RESOURCE_EXHAUSTED at once, and free again when others end."""
    endless = Endless()
    limits = ServerLimits(concurrent_calls=4, calls_per_caller=4, calls_per_connection=4)
    with (
        sparkport.Server(
            {"db1": endless.catalog}, port=0, token=TOKEN, grace_seconds=0.2, limits=limits
        ) as server,
        Flight(server.location, TOKEN) as client,
    ):
        (ticket,) = client.scan(TABLE, [0])
        calls = [client.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString()) for _ in range(4)]
        for call in calls:
            next(call)
        assert refusal(client.list_flights)[0] == "RESOURCE_EXHAUSTED"
        for call in calls:
            call.cancel()
        assert eventually(lambda: endless.running == 0)
        assert eventually(lambda: _answers(client))


def _answers(client: Flight) -> bool:
    try:
        return len(client.list_flights()) == 1
    except grpc.RpcError:
        return False


@pytest.mark.slow
def test_sigterm_lets_a_running_scan_finish(tmp_path: Path) -> None:
    """A server that is told to stop delivers what it has begun, refuses new calls, and ends with 0."""
    (tmp_path / "slow.py").write_text(SLOW_APP)
    with (
        Process("serve", "--port", "0", "--no-auth", "--app", "slow:catalog", cwd=tmp_path) as process,
        Flight(process.location, None) as client,
    ):
        (ticket,) = client.scan(path_descriptor("lakehouse", "s", "slow"), [0])
        call = client.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString())
        frames = [next(call), next(call)]
        process.terminate()
        time.sleep(0.2)
        with Flight(process.location, None) as late:
            assert refusal(late.list_flights)[0] == "UNAVAILABLE"
        frames += list(call)
        assert process.finished() == 0

    assert wire.table_of(frames).num_rows == 2_000_000
    assert "Traceback" not in process.text


@pytest.mark.slow
def test_killed_server_can_start_again_on_its_port() -> None:
    """After kill -9, with a client connected, a new server starts on the same port."""
    with Process("serve", "--port", "0", "--no-auth") as first, Flight(first.location, None) as client:
        client.action("list_schemas", {"catalog_name": "lakehouse"})
        port = first.location.rpartition(":")[2]
        first.process.kill()
        first.finished()
        with Process("serve", "--port", port, "--no-auth") as second, Flight(second.location, None) as again:
            assert len(again.action("list_schemas", {"catalog_name": "lakehouse"})) == 1
