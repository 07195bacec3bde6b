"""The server's process: there before Spark is, unharmed when Spark dies, gone without a trace."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2

from sparkport.client import Client
from tests.flight_client import Flight, refusal

from .lake import IN_TASKS, LakeServer, SlowScan, await_gone, descendants, kill, local_table, wait_until

STOCK = pa.table({"item": ["pencil", "ruler"], "pieces": pa.array([10, 3], pa.int32())})
ROWS = [{"item": "pencil", "pieces": 10}, {"item": "ruler", "pieces": 3}]

pytestmark = pytest.mark.timeout(240)


def warehouse(folder: Path, slow_root: Path) -> Path:
    """Make a warehouse with a quick and a slow table."""
    local_table(folder / "warehouse" / "shop.db" / "stock", STOCK)
    shutil.copytree(slow_root, folder / "warehouse" / "shop.db" / "slow")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, slow_root: Path) -> Iterator[LakeServer]:
    """Return a server whose Spark the tests kill."""
    with LakeServer(warehouse(tmp_path_factory.mktemp("lake"), slow_root), *IN_TASKS) as running:
        yield running


def scanning(server: LakeServer, flight: Flight) -> SlowScan:
    """Begin a slow scan and wait until a task works on it."""
    scan = SlowScan(flight, "shop", "slow")
    wait_until(lambda: bool(server.spools()), "no task has begun")
    return scan


def running_scan(client: Client) -> dict[str, Any]:
    """Return the slow scan as the server lists it."""
    return next(one for one in client.statements() if one["table"] == "lakehouse/shop/slow")


def test_the_server_answers_while_spark_starts(server: LakeServer) -> None:
    """Health, refusals and the listing come from the server itself, with the columns of each table."""
    with Flight(server.location, "wrong") as stranger, server.client() as client:
        check: Callable[..., bytes] = stranger.channel.unary_unary("/grpc.health.v1.Health/Check")
        health = check(health_pb2.HealthCheckRequest().SerializeToString(), timeout=10)
        code, _ = refusal(stranger.list_flights)
        tables = server.tables()
        columns = client.arrow_schema("shop", "stock").names

    assert "Spark is up" not in server.text
    assert health_pb2.HealthCheckResponse.FromString(health).status == health_pb2.HealthCheckResponse.SERVING
    assert code == "UNAUTHENTICATED"
    assert tables == ["shop.slow", "shop.stock"]
    assert columns[:2] == ["item", "pieces"]


def test_what_needs_spark_waits_for_it_and_holds_up_nobody(server: LakeServer) -> None:
    """A scan and an ALTER sent meanwhile are answered once Spark is there, tables at once."""
    with server.client() as client, ThreadPoolExecutor() as threads:
        client.create_schema("early")
        client.create_table("early", "stock", STOCK.schema)
        altered = threads.submit(client.add_column, "early", "stock", pa.field("colour", pa.string()))
        read = threads.submit(server.rows, "shop", "stock")
        time.sleep(0.5)
        tables = server.tables()
        are_waiting = not altered.done() and not read.done()
        altered.result()
        columns = client.arrow_schema("early", "stock").names

    assert are_waiting
    assert tables == ["early.stock", "shop.slow", "shop.stock"]
    assert read.result() == ROWS
    assert columns[:3] == ["item", "pieces", "colour"]


def test_spark_that_dies_while_idle_is_replaced(server: LakeServer) -> None:
    """The listing goes on meanwhile, and later scans and statements do not notice."""
    server.await_log("Spark is up")
    java = server.await_java()
    kill(java)
    tables = server.tables()
    server.await_log("Spark was lost and is being restarted")
    rows = server.rows("shop", "stock")
    with server.client() as client:
        client.create_schema("idle")
        client.create_table("idle", "stock", STOCK.schema)
    count = server.insert("idle", "stock", STOCK)

    assert "shop.stock" in tables
    assert rows == ROWS
    assert count == 2
    assert server.rows("idle", "stock") == ROWS
    assert java not in server.java()


def test_spark_that_dies_under_a_scan_is_told_and_replaced(server: LakeServer) -> None:
    """The running call learns why it ended; everything else goes on, and nothing is left of the old Spark."""
    server.rows("shop", "stock")
    with server.flight() as flight:
        scan = scanning(server, flight)
        java = server.await_java()
        old = [java, *descendants(java)]
        kill(java)
        told = refusal(scan.rest)
    tables = server.tables()
    spools = server.spools()
    rows = server.rows("shop", "stock")
    with server.client() as client:
        client.create_schema("busy")
        client.create_table("busy", "stock", STOCK.schema)
    count = server.insert("busy", "stock", STOCK)

    assert told == ("UNAVAILABLE", "Spark stopped while it worked on this call; try again")
    assert "shop.stock" in tables
    assert spools == []
    assert rows == ROWS
    assert count == 2
    assert server.rows("busy", "stock") == ROWS
    await_gone(old)


def test_a_scan_whose_client_has_gone_ends(server: LakeServer) -> None:
    """Its task stops at once, and with it everything that it would have left behind."""
    server.rows("shop", "stock")
    with server.flight() as flight:
        scan = scanning(server, flight)
        scan.cancel()
        wait_until(lambda: not list(server.temporary.glob("sparkport-spool-*")), "rows are left", seconds=10)

    assert server.rows("shop", "stock") == ROWS


def test_a_cancelled_scan_ends_in_spark_too(server: LakeServer) -> None:
    """It is listed with its progress; its client gets CANCELLED within two seconds, and its task ends."""
    with server.flight() as flight, server.client() as client:
        scan = scanning(server, flight)
        wait_until(lambda: bool(running_scan(client)["progress"]), "Spark tells no progress")
        statement = running_scan(client)
        begun = time.monotonic()
        after = client.cancel(statement["id"])
        code, _ = refusal(lambda: list(scan.call))
        seconds = time.monotonic() - begun
        wait_until(lambda: not server.spools(), "the task goes on")

    assert (statement["state"], statement["read_mode"]) == ("running", "Spark tasks")
    assert statement["progress"]["total"] >= 1
    assert (code, after["state"]) == ("CANCELLED", "cancelled")
    assert seconds < 2


@pytest.mark.parametrize("moment", ["starting", "idle", "scanning"])
def test_a_server_told_to_stop_leaves_nothing(tmp_path: Path, slow_root: Path, moment: str) -> None:
    """It ends well at any moment: no process, no file and no complaint stays behind."""
    with LakeServer(warehouse(tmp_path, slow_root), *IN_TASKS) as server, server.flight() as flight:
        server.await_java()
        if moment != "starting":
            assert server.rows("shop", "stock") == ROWS
        scan = scanning(server, flight) if moment == "scanning" else None
        processes = descendants(server.process.pid)
        server.terminate()
        code = server.finished()
        told = refusal(scan.rest)[0] if scan else None

    assert code == 0
    assert told == ("UNAVAILABLE" if scan else None)
    assert processes
    await_gone(processes)
    assert list(server.temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tmp", "warehouse"]
    assert "Traceback" not in server.text
    assert "[error" not in server.text


def test_a_killed_server_takes_spark_with_it(tmp_path: Path, slow_root: Path) -> None:
    """Java and its workers end by themselves, and the next server removes the rows that nobody reads."""
    with LakeServer(warehouse(tmp_path, slow_root), *IN_TASKS) as server, server.flight() as flight:
        assert server.rows("shop", "stock") == ROWS
        scan = scanning(server, flight)
        processes = descendants(server.process.pid)
        kill(server.process.pid)
        server.finished()
        scan.cancel()
    await_gone(processes)
    with LakeServer(tmp_path) as server:
        assert server.location
        wait_until(lambda: not server.spools(), "the rows of the dead server are still there", seconds=20)
        server.terminate()

        assert server.finished() == 0
