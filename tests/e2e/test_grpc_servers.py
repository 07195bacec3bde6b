"""Both gRPC servers, by handlers that do little: the same answers, limits and ends of calls."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2

import sparkport
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.flight.transport.direct_server import DirectServer
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.rpc import Patience
from sparkport.flight.transport.standard_server import StandardServer
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .small_service import Served, ServerClass, silent_reader
from .usage import eventually

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
TABLE = path_descriptor("db1", "s", "t")
ROWS = pa.table({"n": [1, 2, 3]})
NOTICED_SECONDS = {DirectServer: 1.2, StandardServer: 5.0}


@pytest.fixture(params=[DirectServer, StandardServer], ids=["direct", "standard"])
def server_class(request: pytest.FixtureRequest) -> ServerClass:
    """Return the class of the server."""
    chosen: ServerClass = request.param
    return chosen


@pytest.fixture
def served(server_class: ServerClass) -> Iterator[Served]:
    """Serve, and stop at the end."""
    running = Served(server=server_class)
    yield running
    running.stop()


def shares(served: Served) -> dict[Any, int]:
    """Return how many calls each caller and each connection has."""
    counts: dict[Any, int] = getattr(served.server, "_calls", served.server)._shares._calls
    return counts


@pytest.mark.parametrize("choice", ["direct", "standard"])
def test_flight_works(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing, writing, scanning, refusing strangers and large messages are the same on both servers."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", choice)
    limits = ServerLimits(message_bytes=1 << 20)
    with (
        sparkport.Server({"db1": MemoryCatalog()}, port=0, token=TOKEN, limits=limits, grace_seconds=0) as db,
        Flight(db.location, TOKEN) as client,
        Flight(db.location, "wrong") as stranger,
    ):
        client.create_schema("db1", "s")
        client.create_table("db1", "s", "t", ROWS.schema)
        written = client.insert(TABLE, ROWS)
        rows = client.read(TABLE, 1)
        listed = [list(info.flight_descriptor.path)[1:3] for info in client.list_flights()]
        refused = refusal(stranger.list_flights)
        large = refusal(lambda: client.action("list_schemas", {"catalog_name": "x" * (2 << 20)}))
        unknown = refusal(lambda: client.unary("NoSuchMethod", b""))
        poll = refusal(lambda: client.unary("PollFlightInfo", b""))

    assert type(db._grpc._server).__name__ == f"{choice.capitalize()}Server"
    assert written == 3
    assert rows.select(["n"]).to_pylist() == ROWS.to_pylist()
    assert listed == [["s", "t"]]
    assert refused[0] == "UNAUTHENTICATED"
    assert large[0] == "RESOURCE_EXHAUSTED"
    assert unknown == ("UNIMPLEMENTED", "Method not found!")
    assert poll[0] == "UNIMPLEMENTED"


def test_messages_go_back_and_forth_in_lockstep(served: Served) -> None:
    """A stream is answered message by message, for as long as the client goes on."""
    method: Any = served.channel.stream_stream("/test/lockstep")
    messages: queue.Queue[bytes | None] = queue.Queue()
    answers = method(iter(messages.get, None), timeout=30)
    for number in range(500):
        messages.put(b"%d" % number)
        assert next(answers) == b"%d" % number
    messages.put(None)

    assert list(answers) == []


def test_headers_and_trailers_are_carried(served: Served) -> None:
    """Text and bytes in headers reach the handler, and go back before and after its answer."""
    method: Any = served.channel.unary_unary("/test/headers")
    _, call = method.with_call(b"m", metadata=[("x-text", "a"), ("x-data-bin", b"\0\xff")], timeout=30)

    assert dict(call.initial_metadata())["x-text"] == "a"
    assert dict(call.trailing_metadata())["x-data-bin"] == b"\0\xff"


def test_failures_of_handlers_are_statuses(served: Served) -> None:
    """Whatever a handler does wrong ends its call, tells nothing of the inside, and harms no other."""
    method: Any = served.channel.stream_unary("/test/echo")

    assert served.refusal("fail") == ("UNKNOWN", "the server failed")
    assert served.refusal("nothing") == ("UNIMPLEMENTED", "Method not found!")
    assert refusal(lambda: method(iter([]), timeout=20)) == (
        "UNIMPLEMENTED",
        '"/test/echo" requires exactly one request message.',
    )
    assert served.call("echo", b"still here") == b"still here"


@pytest.mark.parametrize("how", ["cancel", "deadline", "disconnect"])
def test_busy_handler_is_told_that_its_client_is_gone(
    served: Served, server_class: ServerClass, how: str
) -> None:
    """A handler that is busy with something else learns in time that nobody waits any more."""
    call = served.begin("hold", timeout=0.2 if how == "deadline" else 30)
    assert served.handlers.entered.wait(20)
    if how == "cancel":
        call.cancel()
    elif how == "disconnect":
        served.channel.close()

    assert served.handlers.told.wait(NOTICED_SECONDS[server_class])


def test_calls_over_the_limit_are_refused(server_class: ServerClass) -> None:
    """There is room for as many again when the others are over, and health is told all the time."""
    served = Served(max_calls=2, server=server_class)
    idle = served.check_health()
    calls = [served.begin("hold") for _ in range(2)]
    assert eventually(lambda: served.handlers.running == 2)
    refused = served.refusal("echo")
    busy = served.check_health()
    served.handlers.release.set()
    answers = [call.result(timeout=20) for call in calls]
    assert eventually(lambda: served.server.running_calls() == 0)
    served.handlers.release.clear()
    calls = [served.begin("hold") for _ in range(2)]
    assert eventually(lambda: served.handlers.running == 2)
    refused_again = served.refusal("echo")
    served.handlers.release.set()
    answers += [call.result(timeout=20) for call in calls]

    assert refused == refused_again == ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!")
    assert (idle, busy) == (SERVING, SERVING)
    assert answers == [b""] * 4
    served.stop()


def test_each_connection_and_each_caller_has_a_share(served: Served) -> None:
    """One connection has at most 4 calls, one caller 6 on all of his, and others go on meanwhile."""
    alice, bob = [("x-principal", "alice")], [("x-principal", "bob")]
    second = grpc.insecure_channel(served.address, options=[("grpc.use_local_subchannel_pool", 1)])
    begin: Any = second.unary_unary("/test/hold")
    echo: Callable[..., bytes] = second.unary_unary("/test/echo")
    calls = [served.begin("hold", metadata=alice) for _ in range(4)]
    assert eventually(lambda: served.handlers.running == 4)
    over_connection = refusal(lambda: served.call("echo", metadata=alice))
    calls += [begin.future(b"", metadata=alice) for _ in range(2)]
    assert eventually(lambda: served.handlers.running == 6)
    over_caller = refusal(lambda: echo(b"", metadata=alice, timeout=20))
    other = echo(b"bob", metadata=bob, timeout=20)
    served.handlers.release.set()
    answers = [call.result(timeout=20) for call in calls]

    assert over_connection == (
        "RESOURCE_EXHAUSTED",
        "4 calls are running on this connection, which is the limit",
    )
    assert over_caller == ("RESOURCE_EXHAUSTED", "6 calls of this caller are running, which is the limit")
    assert other == b"bob"
    assert answers == [b""] * 6
    assert eventually(lambda: not shares(served))
    assert served.call("echo", b"room", metadata=alice) == b"room"
    second.close()


@pytest.mark.parametrize("name", ["large", "flood"])
def test_client_that_reads_nothing_is_dismissed(server_class: ServerClass, name: str) -> None:
    """A client that does not take what it asked for loses its call in time, and with it the memory."""
    served = Served(patience=Patience(request=30, stream=1.0), server=server_class)
    with silent_reader(served.address, f"/test/{name}"):
        assert served.handlers.told.wait(20)

        assert eventually(lambda: served.server.running_calls() == 0)
        assert not shares(served)
        assert served.call("echo", b"still here") == b"still here"
    served.stop()


@pytest.mark.parametrize("service", ["", "other"])
def test_watches_end_when_the_server_stops(served: Served, service: str) -> None:
    """An open watch learns that nothing is served any more, and does not keep the server from stopping."""
    watch = served.watch_health(service)
    first = next(watch).status
    began = time.monotonic()
    served.health.stop()
    stopped = served.server.stop(30)
    rest: list[int] = []
    with pytest.raises(grpc.RpcError):
        rest.extend(answer.status for answer in watch)

    assert stopped.wait(20)
    assert time.monotonic() - began < 20
    assert (first, rest) == ((UNKNOWN, []) if service else (SERVING, [NOT_SERVING]))
    assert (watch.code().name, watch.details()) == ("UNAVAILABLE", "the server is stopping")


def test_stop_lets_running_calls_finish(served: Served) -> None:
    """A call that runs when the server is told to stop is answered, and no other is taken."""
    call = served.begin("hold")
    assert served.handlers.entered.wait(20)
    stopped = served.server.stop(20)
    with grpc.insecure_channel(served.address) as late:
        method: Callable[..., bytes] = late.unary_unary("/test/echo")
        with pytest.raises(grpc.RpcError):
            method(b"", timeout=2)
    assert not stopped.is_set()
    served.handlers.release.set()

    assert call.result(timeout=20) == b""
    assert stopped.wait(20)


def test_taken_port_is_an_error(served: Served, server_class: ServerClass) -> None:
    """The error names the address and the likely cause."""
    another = server_class(CallLimits(), [("grpc.so_reuseport", 0)])
    with pytest.raises(OSError, match=f"^cannot listen on {served.address}; is the port taken"):
        another.add_port(served.address)
