"""What callers without a token can make a server spend: memory, threads, file handles."""

from __future__ import annotations

import contextlib
import queue
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from tests.conftest import TOKEN
from tests.flight_client import SERVICE, Flight, refusal

from .serving import Process
from .usage import MB, eventually, usage

HEALTH = "/grpc.health.v1.Health/"
FLIGHT = "arrow.flight.protocol.FlightService"
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
SERVING = health_pb2.HealthCheckResponse.SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """Serve the memory engine in a process of its own."""
    with Process("serve", "--port", "0", "--token", TOKEN, "--log-level", "warning") as server:
        assert server.location
        yield server


@pytest.fixture
def channel(process: Process) -> Iterator[grpc.Channel]:
    """Connect without a token."""
    with grpc.insecure_channel(process.location.removeprefix("grpc://"), options=UNLIMITED) as channel:
        yield channel


def name_of(size: int) -> bytes:
    """Return a health request for a service with a long name."""
    return health_pb2.HealthCheckRequest(service="x" * size).SerializeToString()


def half_open(channel: grpc.Channel, method: str, headers: tuple[tuple[str, str], ...] = ()) -> Any:
    """Begin a call and never send its message."""
    call: Any = channel.stream_stream(method)
    return call(iter(queue.Queue[bytes]().get, None), metadata=headers)


def check(process: Process, service: str = "") -> int:
    """Ask for the health as a probe does: on a connection of its own."""
    with grpc.insecure_channel(process.location.removeprefix("grpc://")) as probe:
        method: Any = probe.unary_unary(HEALTH + "Check")
        request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        answer = health_pb2.HealthCheckResponse.FromString(method(request, timeout=10))
        return int(answer.status)


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_long_names_are_refused_and_forgotten(process: Process, channel: grpc.Channel, method: str) -> None:
    """Twenty health requests of 40 MB are refused, and the server keeps none of their names.

    The bound leaves room for what the allocator keeps of freed memory, of a few messages.
    """
    call: Any = channel.unary_stream(HEALTH + method)
    request = name_of(40 * MB)
    before = usage(process.process.pid).memory
    codes = {refusal(lambda: list(call(request, timeout=20)))[0] for _ in range(20)}

    assert codes == {"RESOURCE_EXHAUSTED"}
    assert usage(process.process.pid).memory < before + 500 * MB


def test_names_of_services_are_fixed(process: Process, channel: grpc.Channel) -> None:
    """The server itself and the Flight service have a health; any other name has none."""
    watch: Any = channel.unary_stream(HEALTH + "Watch")
    unknown = watch(name_of(10), timeout=10)
    first = health_pb2.HealthCheckResponse.FromString(next(unknown))
    unknown.cancel()

    assert [check(process, ""), check(process, FLIGHT)] == [SERVING, SERVING]
    assert refusal(lambda: check(process, "other"))[0] == "NOT_FOUND"
    assert first.status == UNKNOWN


def test_damaged_health_request_is_refused(channel: grpc.Channel) -> None:
    """Bytes that are no health request are INVALID_ARGUMENT."""
    method: Any = channel.unary_unary(HEALTH + "Check")

    assert refusal(lambda: method(b"\xff\xff\xff", timeout=10))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_half_open_health_calls_cost_few_threads(
    process: Process, channel: grpc.Channel, method: str
) -> None:
    """A thousand health calls without a message take a dozen threads, and probes are answered meanwhile."""
    before = usage(process.process.pid).threads
    calls = [half_open(channel, HEALTH + method) for _ in range(1000)]
    assert eventually(lambda: sum(call.done() for call in calls) > 500)
    most = usage(process.process.pid).threads
    answers = [check(process) for _ in range(5)]
    assert eventually(lambda: all(call.done() for call in calls), 20)

    assert most <= before + 16
    assert answers == [SERVING] * 5
    assert {call.code().name for call in calls} <= {"RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"}
    assert eventually(lambda: usage(process.process.pid).threads <= before + 8)


def test_watches_are_few_and_the_newest_stay(process: Process, channel: grpc.Channel) -> None:
    """Of many watches the oldest end, so that nobody can keep others from watching."""
    watch: Any = channel.unary_stream(HEALTH + "Watch")
    watches: list[Any] = []
    before = usage(process.process.pid).threads
    for _ in range(40):
        watches.append(watch(health_pb2.HealthCheckRequest().SerializeToString()))
        assert health_pb2.HealthCheckResponse.FromString(next(watches[-1])).status == SERVING
    ended = [call for call in watches if call.done()]

    assert eventually(watches[0].done)
    assert watches[0].code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not watches[-1].done()
    assert len(ended) >= 20
    assert usage(process.process.pid).threads <= before + 8
    for call in watches:
        call.cancel()


@pytest.mark.parametrize("method", ["DoAction", "DoGet", "DoPut", "DoExchange", "GetFlightInfo", "Handshake"])
def test_half_open_calls_without_a_token_end_at_once(
    process: Process, channel: grpc.Channel, method: str
) -> None:
    """A stranger's call is refused before it has sent a message, and leaves no thread behind."""
    before = usage(process.process.pid)
    calls = [half_open(channel, SERVICE + method) for _ in range(300)]

    assert eventually(lambda: all(call.done() for call in calls), 20)
    assert {call.code().name for call in calls} <= {"UNAUTHENTICATED", "RESOURCE_EXHAUSTED"}
    assert eventually(lambda: usage(process.process.pid).threads <= before.threads + 8)


def test_half_open_call_ends_in_time() -> None:
    """A call with a token whose one message does not come is DEADLINE_EXCEEDED, and its thread is free."""
    headers = (("authorization", f"Bearer {TOKEN}"),)
    with (
        Process("serve", "--port", "0", "--token", TOKEN, "--request-timeout", "1") as process,
        grpc.insecure_channel(process.location.removeprefix("grpc://")) as channel,
    ):
        before = usage(process.process.pid).threads
        started = time.monotonic()
        calls = [
            half_open(channel, SERVICE + method, headers)
            for method in ("DoAction", "DoGet", "GetFlightInfo", "ListFlights", "DoPut", "DoExchange")
        ]
        codes = [call.code().name for call in calls]
        took = time.monotonic() - started

        assert codes == ["DEADLINE_EXCEEDED"] * 6
        assert "within 1 second" in calls[0].details()
        assert took < 10
        assert eventually(lambda: usage(process.process.pid).threads <= before + 4)


@contextlib.contextmanager
def connections(location: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections that say nothing."""
    host, _, port = location.removeprefix("grpc://").rpartition(":")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(count)]


def is_closed(connection: socket.socket) -> bool:
    """Say whether the server has closed a connection."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def test_connections_are_bounded() -> None:
    """More connections than the limit are closed at once; whoever is connected goes on."""
    with (
        Process("serve", "--port", "0", "--token", TOKEN, "--connections", "50") as process,
        Flight(process.location, TOKEN) as client,
    ):
        assert client.list_flights() == []
        before = usage(process.process.pid).files
        with connections(process.location, 300) as many:
            assert eventually(lambda: sum(map(is_closed, many)) >= 251)
            during = usage(process.process.pid).files

            assert client.list_flights() == []
        assert during <= before + 60
        assert eventually(lambda: usage(process.process.pid).files <= before + 4)


def test_connections_leave_files_for_the_server() -> None:
    """Where few files may be open, the connections take at most half of them, and the log says so."""
    limited = ("bash", "-c", 'ulimit -n 256; exec "$@"', "--")
    with (
        Process("serve", "--port", "0", "--token", TOKEN, wrapper=limited) as process,
        Flight(process.location, TOKEN) as client,
    ):
        assert client.list_flights() == []
        with connections(process.location, 300) as many:
            assert eventually(lambda: sum(map(is_closed, many)) >= 172)
            during = usage(process.process.pid).files

            assert client.list_flights() == []
    assert during < 220
    assert "ulimit -n" in process.text


def test_file_limit_is_raised_where_it_can_be() -> None:
    """A server that is started with a low soft limit raises it to the hard one."""
    limited = ("bash", "-c", 'ulimit -Sn 256; exec "$@"', "--")
    with Process("serve", "--port", "0", "--token", TOKEN, wrapper=limited) as process:
        assert process.location
        with open(f"/proc/{process.process.pid}/limits") as limits:  # noqa: PTH123
            (line,) = (line for line in limits if line.startswith("Max open files"))
    soft, hard = line.split()[3:5]

    assert soft == hard


def test_idle_connections_are_closed() -> None:
    """A connection without calls is closed in time, and a client's next call opens another."""
    with (
        Process("serve", "--port", "0", "--token", TOKEN, "--connection-idle", "1") as process,
        Flight(process.location, TOKEN) as client,
    ):
        assert client.list_flights() == []
        during = usage(process.process.pid).files

        assert eventually(lambda: usage(process.process.pid).files < during)
        assert client.list_flights() == []
