"""Queries that do not end: they hold up neither tables nor the machine, whatever their clients do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest

from sparkport.protocol import flight_pb2 as pb
from sparkport.spark.query.worker import CANCEL_SECONDS
from tests.flight_client import Flight, table_of

from .lake import LakeServer, await_gone, command, descendants, is_gone, kill, local_table, wait_until

pytestmark = pytest.mark.timeout(400)

# Each row takes Java longer than any test: it tries every way to cut the text into groups.
_ENDLESS = "SELECT id FROM range(0, 2, 1, 2) WHERE concat(repeat('a', 60), id) RLIKE '^(.*a){25}$'"
_SCAN_SECONDS = 15.0  # a few hundred milliseconds on an idle machine; without isolation it is for ever
_SECRET = "not-for-children"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    """Return a server with `query` switched on, two task slots, and a table."""
    folder = tmp_path_factory.mktemp("lake")
    local_table(folder / "warehouse" / "shop.db" / "old", pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
    with LakeServer(
        folder,
        *("--master", "local[2]"),
        env={"SPARKPORT_TOKEN": _SECRET},
    ) as running:
        assert len(running.rows("shop", "old")) == 3
        with running.flight() as flight:
            _await_queries(flight)
        yield running


def test_endless_queries_leave_the_tables_alone_and_end_with_their_clients(server: LakeServer) -> None:
    """Scans and writes go on while they run; soon after their clients have left, the processors are free."""
    (java,) = _query_java(server)
    with server.flight() as one, server.flight() as other:
        calls = [_begin(flight, _ENDLESS) for flight in (one, other)]
        _await_busy(java, seconds=2.0)
        _check_tables(server)
        for call in calls:
            call.cancel()
        left = time.monotonic()
    _check_tables(server)
    await_gone([java])

    assert time.monotonic() - left < CANCEL_SECONDS + 10
    with server.flight() as flight:
        _await_queries(flight)


def test_a_client_that_leaves_early_cancels_a_query_that_can_be_cancelled(server: LakeServer) -> None:
    """Spark ends such a query by itself, and other queries go on."""
    (java,) = _query_java(server)
    with server.flight() as flight:
        call = _begin(flight, "SELECT sum(a.id * b.id) AS s FROM range(1000000000) a, range(1000000000) b")
        _await_busy(java, seconds=1.0)
        call.cancel()
        assert _rows(flight, "SELECT 1 AS one") == [{"one": 1}]

    assert not is_gone(java)


def test_the_process_for_queries_may_be_killed(server: LakeServer) -> None:
    """The next query starts it again; the tables do not notice."""
    (java,) = _query_java(server)
    (python,) = _query_process(server)
    kill(python)
    await_gone([python, java])
    _check_tables(server)

    with server.flight() as flight:
        _await_queries(flight)


def test_no_process_of_the_server_gets_its_token(server: LakeServer) -> None:
    """Neither Java nor the workers that run functions of users, of both Sparks."""
    processes = descendants(server.process.pid)

    environments = [found for process in processes if (found := _environment(process))]

    assert len(environments) >= 3
    assert not any(_SECRET.encode() in environment for environment in environments)


def _environment(process: int) -> bytes:
    """Return the environment of a process, nothing if it has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_all_processes_end_with_the_server(server: LakeServer) -> None:
    """Also when it is killed and cannot tell them. The last test: it leaves no server."""
    (java,) = _query_java(server)
    (python,) = _query_process(server)
    kill(server.process.pid)

    await_gone([java, python])


def _query_process(server: LakeServer) -> list[int]:
    return [pid for pid in descendants(server.process.pid) if "sparkport.spark.query.worker" in command(pid)]


def _query_java(server: LakeServer) -> list[int]:
    return [pid for python in _query_process(server) for pid in descendants(python) if pid in server.java()]


def _ticket(flight: Flight, sql: str) -> bytes:
    body = msgspec.msgpack.encode({"name": "sparkport.query", "parameters": [sql]})
    (answer,) = flight.action("table_function_flight_info", body)
    return pb.FlightInfo.FromString(answer).endpoint[0].ticket.ticket


def _begin(flight: Flight, sql: str) -> Any:
    ticket = pb.Ticket(ticket=_ticket(flight, sql)).SerializeToString()
    return flight.stream("DoGet", ticket, timeout=200)


def _rows(flight: Flight, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table_of(list(_begin(flight, sql))).to_pylist()
    return rows


def _await_queries(flight: Flight) -> None:
    """Wait for the Spark of the queries, whose start counts as time of the first of them."""

    def answered() -> bool:
        try:
            return _rows(flight, "SELECT min(n) AS m FROM shop.old") == [{"m": 1}]
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
                raise
            return False

    wait_until(answered, "queries are not answered", seconds=200)


def _check_tables(server: LakeServer) -> None:
    begun = time.monotonic()
    count = len(server.rows("shop", "old"))
    server.insert("shop", "old", pa.table({"n": pa.array([2], pa.int64())}))

    assert len(server.rows("shop", "old")) == count + 1
    assert time.monotonic() - begun < 2 * _SCAN_SECONDS


def _await_busy(process: int, *, seconds: float) -> None:
    """Wait until a process has used so much time of the processors."""
    begun = _cpu_seconds(process)
    wait_until(lambda: _cpu_seconds(process) > begun + seconds, "the query does not run")


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
