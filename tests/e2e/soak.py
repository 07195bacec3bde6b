"""Sixteen clients of all kinds on one server for as long as one likes, and what is left of them."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import threading
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass

import grpc
import pyarrow as pa
import pytest

from sparkport.client import Client, connect
from sparkport.errors import CancelledError, ConflictError, RowNotFoundError
from sparkport.protocol import flight_pb2 as pb
from sparkport.protocol import flight_sql_pb2 as sql
from tests import sql_client
from tests.flight_client import Flight, batch_frames, path_descriptor

from .serving import Process
from .usage import MB, Usage, eventually, usage

SECONDS = float(os.environ.get("SPARKPORT_SOAK", "20"))
ARGUMENTS = ("--http", "--http-port", "0", "--transaction-idle", "20")
"""What a server needs that others do not."""

SCHEMA = "soak"
BIG_ROWS = 200_000
BIG = pa.table({"id": pa.array(range(BIG_ROWS), pa.int64()), "text": ["x" * 40] * BIG_ROWS})
ACCOUNTS = pa.table({"id": pa.array(range(8), pa.int64()), "amount": pa.array([100] * 8, pa.int64())})
SMALL = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"name {n}" for n in range(20)]})
_PATIENCE = 100.0
_FIRST_PART = 0.4
_LEAST_SECONDS = 5.0
# Pools of threads grow with the most that was ever asked of them at once.
_MORE_THREADS = 16
_MORE_FILES = 16
_MORE_MEMORY = 1.15
_MORE_BYTES = 48 * MB

EMPTY = (
    "sparkport_statements_running",
    "sparkport_streams_open",
    "sparkport_open_transactions",
    "sparkport_spark_jobs_running",
    "sparkport_spark_jobs_queued",
    "sparkport_staging_bytes",
    "sparkport_spool_bytes",
    "sparkport_rows_memory_bytes",
)
"""What there is nothing of while nobody does anything."""


@dataclass(frozen=True)
class Target:
    """A server in a process of its own."""

    location: str
    console: str
    token: str
    catalog: str
    pid: int

    def client(self) -> Client:
        """Call it in the JSON dialect."""
        return connect(self.location, token=self.token, timeout=_PATIENCE)

    def flight(self, *, airport: bool = True) -> Flight:
        """Call it as DuckDB does, or as another client, over a connection of its own."""
        return Flight(self.location, self.token, airport=airport, alone=True)

    def get(self, path: str, body: object = None) -> bytes:
        """Call its HTTP port."""
        headers = {"authorization": f"Bearer {self.token}", "x-sparkport-console": "1"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.console + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                found: bytes = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(path, error.code, error.read()) from None
        return found

    def is_ready(self) -> bool:
        """Say whether it can do its work."""
        try:
            self.get("/readyz")
        except AssertionError:
            return False
        return True

    def metrics(self) -> dict[str, float]:
        """Return the numbers that have no labels."""
        lines = self.get("/metrics").decode().splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")
        }


class Worker(ABC):
    """One client, which goes on until it is told to stop or finds something wrong."""

    def __init__(self, target: Target, number: int) -> None:
        self.target = target
        self.number = number
        self.done = 0
        self.random = random.Random(number)
        self.failure: BaseException | None = None

    def run(self, stop: threading.Event) -> None:
        """Work."""
        try:
            while not stop.is_set():
                self.step()
                self.done += 1
        except BaseException as error:  # noqa: BLE001  (the test shows it)
            self.failure = error
            stop.set()

    @abstractmethod
    def step(self) -> None:
        """Do one thing. Raises whatever is wrong."""
        raise NotImplementedError


class AirportReader(Worker):
    """Reads the large table as DuckDB does."""

    def step(self) -> None:
        """Read all of it over one connection."""
        with self.target.flight() as flight:
            for _ in range(3):
                rows = flight.read(path_descriptor(self.target.catalog, SCHEMA, "big"), 2)
                assert rows.num_rows == BIG_ROWS


class AirportWriter(Worker):
    """Inserts as DuckDB does, into a table that is made anew from time to time."""

    def step(self) -> None:
        """Fill a table, count its rows, drop it."""
        name = f"written_{self.number}"
        address = path_descriptor(self.target.catalog, SCHEMA, name)
        with self.target.flight() as flight, self.target.client() as client:
            flight.create_table(self.target.catalog, SCHEMA, name, SMALL.schema)
            for _ in range(10):
                assert flight.insert(address, SMALL) == SMALL.num_rows
            assert flight.read(address, 2).num_rows == 10 * SMALL.num_rows
            client.drop_table(SCHEMA, name)


class JsonWriter(Worker):
    """Inserts, updates and deletes rows of a table that it shares with another."""

    def step(self) -> None:
        """Change rows, unless the other was first."""
        with self.target.client() as client:
            for _ in range(5):
                client.insert(SCHEMA, "shared", SMALL.slice(0, 3))
                rows = client.scan(SCHEMA, "shared").read_all()
                ids = rows.column(rows.num_columns - 1)
                with suppress(ConflictError, RowNotFoundError):
                    client.update(
                        SCHEMA, "shared", ids.slice(0, 2).to_pylist(), rows.slice(0, 2).select([0, 1])
                    )
                with suppress(ConflictError):
                    client.delete(SCHEMA, "shared", ids.slice(0, max(3, rows.num_rows - 10)).to_pylist())


class Banker(Worker):
    """Moves amounts between rows of two tables in transactions, and sees to it that none is lost."""

    def step(self) -> None:
        """Move something, or give up in the middle; the sum that a transaction sees never changes."""
        regret = suppress(ConflictError, _RegretError)
        with self.target.client() as client, regret, client.transaction() as inside:
            tables = [inside.scan(SCHEMA, name).read_all() for name in ("left", "right")]
            amounts = [table.column("amount").to_pylist() for table in tables]
            assert sum(map(sum, amounts)) == 2 * 8 * 100, amounts
            for sign, name, table in zip((1, -1), ("left", "right"), tables, strict=True):
                at = self.random.randrange(8)
                row = table.slice(at, 1)
                amount = pa.array([row.column("amount")[0].as_py() + sign], pa.int64())
                changed = pa.table({"id": row.column("id"), "amount": amount})
                inside.update(SCHEMA, name, row.column(row.num_columns - 1).to_pylist(), changed)
            if self.random.random() < 0.25:
                raise _RegretError


class _RegretError(Exception):
    """A client that changes its mind."""


class SqlClient(Worker):
    """Runs SQL as the drivers of Flight SQL do."""

    def step(self) -> None:
        """Ask, change, and ask with a statement that is wrong."""
        name = f"{SCHEMA}.sql_{self.number}"
        with self.target.flight(airport=False) as flight:
            sql_client.update(flight, f"CREATE TABLE {name} (n BIGINT)")
            for number in range(4):
                assert sql_client.update(flight, f"INSERT INTO {name} VALUES ({number}), ({number})") == 2
            query = sql.CommandStatementQuery(query=f"SELECT n, count(*) AS c FROM {name} GROUP BY n")
            assert {row["c"] for row in sql_client.run(flight, query).to_pylist()} == {2}
            with suppress(grpc.RpcError):
                sql_client.update(flight, f"INSERT INTO {name} SELECT nothing FROM nowhere")
            sql_client.update(flight, f"DROP TABLE {name}")


class Browser(Worker):
    """Looks at the console."""

    def step(self) -> None:
        """Ask for its pages, run SQL, and leave one answer half read."""
        target = self.target
        for path in ("/metrics", "/api/statements", "/api/pulse", "/api/databases", "/readyz"):
            target.get(path)
        lines = target.get("/api/sql", {"sql": f"SELECT count(*) AS n FROM {SCHEMA}.big"}).splitlines()
        assert json.loads(lines[-1])["done"] == 1, lines[-1]
        self._leave(f"SELECT * FROM {SCHEMA}.big")

    def _leave(self, text: str) -> None:
        body = json.dumps({"sql": text})
        host, _, port = self.target.console.partition("://")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=_PATIENCE) as connection:
            head = (
                "POST /api/sql HTTP/1.1",
                f"host: {host}:{port}",
                "x-sparkport-console: 1",
                f"authorization: Bearer {self.target.token}",
                f"content-length: {len(body)}",
            )
            connection.sendall("\r\n".join((*head, "", body)).encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 200")


class Canceller(Worker):
    """Ends its own scans by their ids: they are the ones of its table."""

    def step(self) -> None:
        """Begin to read, and cancel that; by then the rows may all be on their way."""
        with self.target.client() as client, self.target.client() as other:
            name = f"own_{self.number}"
            reader = client.scan(SCHEMA, name)
            reader.read_next_batch()
            for statement in other.statements():
                if statement["ended"] is None and statement["table"].endswith(f"/{name}"):
                    other.cancel(statement["id"])
                    break
            with suppress(CancelledError):
                reader.read_all()


class Quitter(Worker):
    """Breaks off whatever it has begun, by closing its connection."""

    def step(self) -> None:
        """Leave in the middle of a scan, of an INSERT, and of a transaction; send noise to the port."""
        catalog = self.target.catalog
        flight = self.target.flight()
        (ticket, *_) = flight.scan(path_descriptor(catalog, SCHEMA, "big"), [0, 1])
        stream = flight.stream("DoGet", pb.Ticket(ticket=ticket).SerializeToString())
        next(stream)
        exchange = flight.exchange("insert")
        exchange.open(path_descriptor(catalog, SCHEMA, "kept"), SMALL.schema)
        exchange.send(batch_frames(SMALL)[0])
        flight.channel.close()
        client = self.target.client()
        flight = self.target.flight(airport=False)
        flight.action("create_transaction", b'{"auto_commit": true}')
        flight.channel.close()
        client.close()
        host, _, port = self.target.location.partition("://")[2].partition(":")
        with socket.create_connection((host, int(port)), timeout=_PATIENCE) as connection:
            connection.sendall(self.random.randbytes(100))


KINDS: tuple[type[Worker], ...] = (
    AirportReader,
    AirportWriter,
    JsonWriter,
    Banker,
    SqlClient,
    Browser,
    Canceller,
    Quitter,
)


def prepare(target: Target) -> None:
    """Wait for Spark, if there is one, and make the tables."""
    assert eventually(target.is_ready, _PATIENCE)
    with target.client() as client:
        client.create_schema(SCHEMA)
        own = [f"own_{number}" for number, kind in enumerate(KINDS * 2) if kind is Canceller]
        tables = {"left": ACCOUNTS, "right": ACCOUNTS, **dict.fromkeys(["big", *own], BIG)}
        for name, rows in tables.items():
            client.create_table(SCHEMA, name, rows.schema)
            client.insert(SCHEMA, name, rows)
        for name in ("shared", "kept"):
            client.create_table(SCHEMA, name, SMALL.schema)


def work(target: Target, seconds: float) -> dict[str, int]:
    """Let two clients of each kind work; return how much each has done. Raises what one of them has met."""
    workers = [kind(target, number) for number, kind in enumerate(KINDS * 2)]
    stop = threading.Event()
    threads = [threading.Thread(target=worker.run, args=(stop,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(2 * _PATIENCE)
        assert not thread.is_alive(), "a client waits for ever"
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure
    return {f"{type(worker).__name__} {worker.number}": worker.done for worker in workers}


def at_rest(target: Target, nothing_of: tuple[str, ...] = EMPTY) -> Usage:
    """Wait until the server does nothing, and return what it uses then."""
    left: dict[str, float] = {}

    def is_idle() -> bool:
        with target.flight() as flight:  # transactions that nobody uses are looked for with the next call
            flight.action("catalog_version", {"catalog_name": target.catalog})
        numbers = target.metrics()
        left.clear()
        left.update({name: numbers[name] for name in nothing_of if numbers[name]})
        return not left

    assert eventually(is_idle, 60), left
    return usage(target.pid)


@dataclass(frozen=True)
class Report:
    """What the clients have done, and what the server used before and after it."""

    done: dict[str, int]
    before: Usage
    after: Usage

    def check(self) -> None:
        """Raise AssertionError if the server keeps more than it had."""
        assert min(self.done.values()) > 0, self
        assert self.after.threads <= self.before.threads + _MORE_THREADS, self
        assert self.after.files <= self.before.files + _MORE_FILES, self
        assert self.after.memory <= self.before.memory * _MORE_MEMORY + _MORE_BYTES, self


def soak(target: Target, seconds: float) -> Report:
    """Let the clients work for a while, twice: what is kept from the first time may be needed."""
    prepare(target)
    work(target, max(_LEAST_SECONDS, seconds * _FIRST_PART))
    # That takes as long as transactions may be idle.
    before = at_rest(target, tuple(name for name in EMPTY if name != "sparkport_open_transactions"))
    done = work(target, max(_LEAST_SECONDS, seconds * (1 - _FIRST_PART)))
    return Report(done, before, at_rest(target))


def check_soak(server: Process, token: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Let the clients work on a server, tell what they did, and see to it that nothing is left of them."""
    location = server.location
    console = re.search(r"^console at (\S+)$", server.text, re.MULTILINE)
    assert console is not None, server.text
    report = soak(Target(location, console.group(1), token, "lakehouse", server.process.pid), SECONDS)
    with capsys.disabled():
        print(f"\n{report}")  # noqa: T201  (the figures of a long run are worth to be kept)
    assert "Traceback" not in server.text
    report.check()
