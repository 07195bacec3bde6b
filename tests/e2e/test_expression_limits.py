"""Expressions of hostile clients against a real server: it stays small and answers everybody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pyarrow as pa
import pytest

from sparkport.protocol import flight_pb2 as pb
from tests.flight_client import TIMEOUT, Flight, descriptor_of, path_descriptor, refusal

from .serving import Process

# Both would go on for minutes, or for gigabytes, if nobody ended them.
SLOW = "levenshtein(t || 'a', t || 'b') > 0"
LARGE = "length(list_reduce([" + ", ".join("t" * 40) + "], (x, y) -> x || x || y)) > 0"
LONG_TEXT = "xy" * 200_000
# Of another client, each with a CHECK of its own, while the workers are busy.
OTHERS_INSERTS = 3
CALM = path_descriptor("lakehouse", "s", "calm")


@pytest.fixture(scope="module")
def server() -> Iterator[Process]:
    """Run a server with the engine in memory."""
    with Process("serve", "--port", "0", "--no-auth") as process:
        with Flight(process.location, None) as client:
            client.create_schema("lakehouse", "s")
            client.create_table(
                "lakehouse", "s", "calm", pa.schema([("n", pa.int64())]), check_constraints=["n > 0"]
            )
        yield process


@pytest.fixture
def client(server: Process) -> Iterator[Flight]:
    """Return a client."""
    with Flight(server.location, None) as client:
        yield client


@pytest.fixture
def hostile(client: Flight, request: pytest.FixtureRequest) -> bytes:
    """Return the descriptor of a table with one row of much text, and no constraint."""
    name = request.node.name
    info = client.create_table("lakehouse", "s", name, column_of_text())
    client.insert(descriptor_of(info), pa.table({"t": [LONG_TEXT]}))
    return descriptor_of(info)


class Watch:
    """What a server and its workers take, and how much others get done, while something goes on."""

    def __init__(self, server: Process) -> None:
        self._pid = server.process.pid
        self._location = server.location
        self._over = threading.Event()
        self.start_megabytes = _resident(self._pid)
        self.server_megabytes = 0
        self.worker_megabytes = 0
        self.inserts = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at the server, and insert into a table of its own, as long as the block runs."""
        threads = [threading.Thread(target=self._measure), threading.Thread(target=self._insert)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _measure(self) -> None:
        while not self._over.wait(0.05):
            self.server_megabytes = max(self.server_megabytes, _resident(self._pid))
            self.worker_megabytes = max([self.worker_megabytes, *map(_resident, _workers(self._pid))])

    def _insert(self) -> None:
        with Flight(self._location, None) as other:
            while not self._over.wait(0.02):
                other.insert(CALM, pa.table({"n": [1]}))
                self.inserts += 1


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(status.partition("VmRSS:")[2].partition("kB")[0] or 0) // 1024


def _workers(pid: int) -> list[int]:
    """Return the processes that a server has started, from all its threads."""
    children = []
    for entry in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in entry.read_text(encoding="ascii").split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return children


def _is_busy(pid: int) -> bool:
    """Say whether a process computes."""
    try:
        before = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11]
        time.sleep(0.3)
        after = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(after) - int(before) > 5


def _alter(descriptor: bytes, **options: object) -> dict[str, object]:
    name = pb.FlightDescriptor.FromString(descriptor).path[2]
    return {"catalog": "lakehouse", "schema": "s", "name": name, **options}


def _attacks(client: Flight, table: bytes, expression: str) -> list[Callable[[], object]]:
    """Return three ways to make a server evaluate an expression."""
    name = pb.FlightDescriptor.FromString(table).path[2]
    column = bytes(pa.schema([("t", pa.bool_())]).serialize())
    check = _alter(table, constraint=f"CHECK ({expression})")
    using = _alter(table, column_schema=column, expression=expression)
    checked = path_descriptor("lakehouse", "s", f"{name}_checked")
    return [
        lambda: client.action("add_constraint", check),
        lambda: client.action("change_column_type", using),
        lambda: client.insert(checked, pa.table({"t": [LONG_TEXT]})),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "reason"), [(SLOW, "took longer than 10 seconds"), (LARGE, "needs more than 512 MB")]
)
def test_costly_expressions_end_and_nobody_waits_for_them(
    server: Process, client: Flight, hostile: bytes, expression: str, reason: str
) -> None:
    """They are refused within their limits of time and memory, while others go on writing."""
    name = pb.FlightDescriptor.FromString(hostile).path[2]
    client.create_table("lakehouse", "s", f"{name}_checked", column_of_text(), check_constraints=[expression])
    attacks = _attacks(client, hostile, expression)
    watch = Watch(server)
    longest = 0.0
    rounds: list[list[tuple[str, str]]] = []

    # An attack may be over before anybody else has a turn: then it is made again.
    with watch.watching(), ThreadPoolExecutor(len(attacks)) as threads:
        while watch.inserts < OTHERS_INSERTS and len(rounds) < 5:
            started = time.monotonic()
            rounds.append(list(threads.map(refusal, attacks)))
            longest = max(longest, time.monotonic() - started)

    answers = [answer for answers in rounds for answer in answers]
    assert {code for code, _ in answers} == {"RESOURCE_EXHAUSTED"}
    assert all(reason in message for _, message in answers), answers
    assert longest < 30
    assert watch.inserts >= OTHERS_INSERTS
    assert watch.server_megabytes - watch.start_megabytes < 200
    assert watch.worker_megabytes < 900


def test_expression_ends_with_its_client(server: Process, hostile: bytes) -> None:
    """Nothing is computed for a client that has gone."""
    with Flight(server.location, None) as leaving:
        call = _slow_call(leaving, hostile)
        _wait_for(lambda: any(map(_is_busy, _workers(server.process.pid))))
        call.cancel()
        with pytest.raises(grpc.RpcError):
            list(call)

        started = time.monotonic()
        _wait_for(lambda: not any(map(_is_busy, _workers(server.process.pid))))
    assert time.monotonic() - started < 4


@pytest.mark.slow
def test_workers_end_with_the_server() -> None:
    """Neither an idle worker nor a busy one outlives a server that is killed."""
    with Process("serve", "--port", "0", "--no-auth") as server, Flight(server.location, None) as client:
        client.create_schema("lakehouse", "s")
        table = descriptor_of(client.create_table("lakehouse", "s", "t", column_of_text()))
        client.insert(table, pa.table({"t": [LONG_TEXT]}))
        calls = [_slow_call(client, table, timeout=6), _slow_call(client, table, timeout=6)]
        _wait_for(lambda: sum(map(_is_busy, _workers(server.process.pid))) == len(calls))
        workers = _workers(server.process.pid)
        server.process.kill()

        _wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("current_setting('home_directory')", "function 'current_setting' does not exist or cannot be used"),
        (
            "repeat('x', 800000000)",
            "function 'repeat' cannot be used in an expression: the size of its result is not limited",
        ),
        ("lower(" * 300 + "'x'" + ")" * 300, "is nested deeper than 200 levels"),
    ],
    ids=["setting", "any-size", "deep"],
)
def test_expression_is_refused_before_it_is_computed(
    server: Process, client: Flight, hostile: bytes, expression: str, text: str
) -> None:
    """What is not allowed in a CHECK, USING or DEFAULT is INVALID_ARGUMENT, and costs nothing."""
    column = pa.field("d", pa.string(), metadata={"default": expression})
    added = _alter(hostile, column_schema=bytes(pa.schema([column]).serialize()))
    created = {"check_constraints": [f"{expression} = t"]}
    check, using, _ = _attacks(client, hostile, f"{expression} = t")
    watch = Watch(server)

    with watch.watching():
        answers = [
            refusal(check),
            refusal(using),
            refusal(lambda: client.action("add_column", added)),
            refusal(lambda: client.create_table("lakehouse", "s", "never", column_of_text(), **created)),
        ]

    assert {code for code, _ in answers} == {"INVALID_ARGUMENT"}
    assert all(text in message for _, message in answers), answers
    assert watch.server_megabytes - watch.start_megabytes < 100
    assert watch.worker_megabytes < 250


def column_of_text() -> pa.Schema:
    """Return the columns of a small table."""
    return pa.schema([("t", pa.string())])


def _slow_call(client: Flight, table: bytes, timeout: float = TIMEOUT) -> Any:
    """Start to add a CHECK that takes minutes."""
    body = msgspec.msgpack.encode(_alter(table, constraint=f"CHECK ({SLOW})"))
    request = pb.Action(type="add_constraint", body=body).SerializeToString()
    return client.stream("DoAction", request, timeout=timeout)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
