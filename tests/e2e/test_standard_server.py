"""The same services on `grpc.server`: the same answers and limits, and what it cannot tell."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
import structlog
from grpc_health.v1 import health_pb2

import sparkport
from sparkport.flight.transport import server as transport
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.flight.transport.limits import ServerLimits
from sparkport.flight.transport.rpc import Patience
from sparkport.flight.transport.standard_server import StandardServer
from sparkport.memory import MemoryCatalog
from tests.conftest import TOKEN
from tests.flight_client import Flight, path_descriptor, refusal

from .small_service import Served, silent_reader
from .usage import eventually

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
TABLE = path_descriptor("db1", "s", "t")
ROWS = pa.table({"n": [1, 2, 3]})
BOTH = ["direct", "standard"]


@pytest.fixture
def served() -> Iterator[Served]:
    """Serve with `grpc.server`, and stop at the end."""
    running = Served(server=StandardServer)
    yield running
    running.stop()


def health_method(served: Served, name: str) -> Any:
    """Return a method of the health service."""
    make = served.channel.unary_unary if name == "Check" else served.channel.unary_stream
    return make(
        f"/grpc.health.v1.Health/{name}",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )


@pytest.mark.parametrize("choice", BOTH)
def test_flight_works_on_both(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for number in range(100):
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
def test_busy_handler_is_told_that_its_client_is_gone(served: Served, how: str) -> None:
    """A handler that is busy with something else learns that nobody waits any more."""
    call = served.begin("hold", timeout=0.2 if how == "deadline" else 30)
    assert served.handlers.entered.wait(20)
    if how == "cancel":
        call.cancel()
    elif how == "disconnect":
        served.channel.close()

    assert served.handlers.told.wait(5)


def test_calls_over_the_limit_are_refused() -> None:
    """There is room again when the others are over, and health is told all the time."""
    served = Served(max_calls=2, server=StandardServer)
    calls = [served.begin("hold") for _ in range(2)]
    assert eventually(lambda: served.handlers.running == 2)
    refused = served.refusal("echo")
    check = health_method(served, "Check")
    status = check(health_pb2.HealthCheckRequest(service=""), timeout=10).status
    served.handlers.release.set()
    answers = [call.result(timeout=20) for call in calls]

    assert refused == ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!")
    assert status == SERVING
    assert answers == [b"", b""]
    assert eventually(lambda: served.server._calls._counted == 0)
    assert served.call("echo", b"room") == b"room"
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
    assert eventually(lambda: not served.server._calls._shares._calls)
    second.close()


def test_client_that_sends_nothing_is_dismissed() -> None:
    """The call ends in time, but with CANCELLED: `grpc.server` can tell no reason from another thread."""
    served = Served(patience=Patience(request=30, stream=0.5), server=StandardServer)
    method: Any = served.channel.stream_stream("/test/lockstep")
    messages: queue.Queue[bytes | None] = queue.Queue()
    answers = method(iter(messages.get, None), timeout=30)
    messages.put(b"m")
    assert next(answers) == b"m"

    assert refusal(lambda: next(answers))[0] == "CANCELLED"
    assert served.handlers.told.wait(5)
    messages.put(None)
    served.stop()


@pytest.mark.parametrize("name", ["large", "flood"])
def test_client_that_reads_nothing_is_dismissed(name: str) -> None:
    """A client that does not take what it asked for loses its call in time, and with it the memory."""
    served = Served(patience=Patience(request=30, stream=1.0), server=StandardServer)
    with silent_reader(served.address, f"/test/{name}"):
        assert served.handlers.told.wait(20)

        assert eventually(lambda: not served.server._calls._running)
        assert not served.server._calls._shares._calls
        assert served.call("echo", b"still here") == b"still here"
    served.stop()


def test_health_is_watched(served: Served) -> None:
    """Those who watch get each change, and the end when the server stops."""
    watch = health_method(served, "Watch")(health_pb2.HealthCheckRequest(service=""))
    first = next(watch).status
    served.health.stop()
    rest: list[int] = []
    with pytest.raises(grpc.RpcError):
        rest.extend(answer.status for answer in watch)

    assert (first, rest) == (SERVING, [NOT_SERVING])
    assert (watch.code().name, watch.details()) == ("UNAVAILABLE", "the server is stopping")


def test_stop_lets_running_calls_finish(served: Served) -> None:
    """A call that runs when the server is told to stop is answered."""
    call = served.begin("hold")
    assert served.handlers.entered.wait(20)
    stopped = served.server.stop(20)
    assert not stopped.is_set()
    served.handlers.release.set()

    assert call.result(timeout=20) == b""
    assert stopped.wait(20)


def test_stop_cancels_calls_after_the_grace_period(served: Served) -> None:
    """A handler that heeds nothing is told, and its client gets an error."""
    call = served.begin("hold")
    assert served.handlers.entered.wait(20)
    stopped: threading.Event = served.server.stop(0.1)

    assert served.handlers.told.wait(20)
    assert call.exception(timeout=20) is not None
    served.handlers.release.set()
    assert stopped.wait(20)


def test_taken_port_is_an_error(served: Served) -> None:
    """The error is the same as that of the other server."""
    another = StandardServer(CallLimits(), [("grpc.so_reuseport", 0)])
    with pytest.raises(OSError, match=f"^cannot listen on {served.address}; is the port taken"):
        another.add_insecure_port(served.address)


@pytest.mark.parametrize(
    ("version", "chosen"),
    [
        ("1.79.9", "StandardServer"),
        ("1.80.0", "DirectServer"),
        ("1.85.1", "DirectServer"),
        ("1.86.0rc1", "StandardServer"),
    ],
)
def test_untried_version_of_grpc_gets_its_own_server(
    version: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log says which version is there and which were tried."""
    monkeypatch.delenv("SPARKPORT_GRPC_SERVER", raising=False)
    monkeypatch.setattr(grpc, "__version__", version)
    with structlog.testing.capture_logs() as logs:
        server_class = transport._server_class()

    assert server_class.__name__ == chosen
    assert [line["event"].partition(" that ")[0] for line in logs] == (
        [f"grpcio {version} is not one of the versions 1.80 to 1.85"] if chosen == "StandardServer" else []
    )


def test_misspelled_choice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error does not choose a server."""
    monkeypatch.setenv("SPARKPORT_GRPC_SERVER", "slow")
    with pytest.raises(ValueError, match="'auto', 'direct' or 'standard', not 'slow'"):
        transport._server_class()
