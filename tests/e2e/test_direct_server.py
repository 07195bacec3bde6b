"""The gRPC server itself, by handlers that do little: who is told what, when, and what is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from sparkport.flight import access_log
from sparkport.flight.transport import direct_server
from sparkport.flight.transport.rpc import Patience
from tests.flight_client import refusal

from .small_service import Served, silent_reader
from .usage import eventually

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

FORGETFUL = """
import grpc
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.flight.transport.direct_server import DirectServer

server = DirectServer(CallLimits(), [])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    try:
        channel.unary_unary("/a/b")(b"")
    except grpc.RpcError as error:
        print(error.code().name)
"""


@pytest.fixture
def served() -> Iterator[Served]:
    """Serve, and stop at the end."""
    one = Served()
    yield one
    one.handlers.release.set()
    one.channel.close()
    assert one.server.stop(0).wait(20)


def test_messages_go_back_and_forth_in_lockstep(served: Served) -> None:
    """A stream is answered message by message, for as long as the client goes on."""
    messages: list[bytes] = []
    method: Any = served.channel.stream_stream("/test/lockstep")
    more = threading.Semaphore(1)

    def numbers() -> Iterator[bytes]:
        for number in range(500):
            more.acquire()
            yield b"%d" % number

    for answer in method(numbers(), timeout=30):
        messages.append(answer)
        more.release()

    assert messages == [b"%d" % number for number in range(500)]


def test_headers_and_trailers_are_carried(served: Served) -> None:
    """Text and bytes in headers reach the handler, and go back before and after its answer."""
    method: Any = served.channel.unary_unary("/test/headers")
    _, call = method.with_call(b"m", metadata=[("x-text", "a"), ("x-data-bin", b"\0\xff")], timeout=30)

    assert dict(call.initial_metadata())["x-text"] == "a"
    assert dict(call.trailing_metadata())["x-data-bin"] == b"\0\xff"


def test_failures_of_handlers_are_statuses(served: Served) -> None:
    """Whatever a handler does wrong ends its call, tells nothing of the inside, and harms no other."""
    assert served.refusal("fail") == ("UNKNOWN", "the server failed")
    assert served.refusal("bad_trailers")[0] in {"CANCELLED", "INTERNAL"}  # as the version of gRPC has it
    assert served.refusal("nothing") == ("UNIMPLEMENTED", "Method not found!")
    assert served.call("echo", b"still here") == b"still here"


def test_call_without_its_message_is_refused(served: Served) -> None:
    """A client that ends its side before it sent the one message is told so."""
    method: Any = served.channel.stream_unary("/test/echo")
    with pytest.raises(grpc.RpcError) as caught:
        method(iter([]), timeout=20)
    error: Any = caught.value

    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("how", ["cancel", "deadline", "disconnect"])
def test_busy_handler_is_told_that_its_client_is_gone(served: Served, how: str) -> None:
    """A handler that is busy with something else learns within a second that nobody waits any more."""
    call = served.begin("hold", timeout=0.2 if how == "deadline" else 30)
    assert served.handlers.entered.wait(20)
    if how == "cancel":
        call.cancel()
    elif how == "disconnect":
        served.channel.close()

    assert served.handlers.told.wait(1.2)


def test_killed_client_is_noticed(served: Served) -> None:
    """A client process that is killed in a stream ends its call within a second."""
    code = (
        "import grpc, sys, time\n"
        "call = grpc.insecure_channel(sys.argv[1]).stream_stream('/test/lockstep')\n"
        "messages = call(iter(lambda: time.sleep(0.01) or b'm', None))\n"
        "next(messages); print('in', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, served.address], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "in\n"
        client.kill()

    assert served.handlers.told.wait(1)


def test_calls_over_the_limit_are_refused_at_once() -> None:
    """128 calls run at the same time, the next is refused, and there is room again when they are over."""
    served = Served()
    calls = [served.begin("hold") for _ in range(128)]
    until = time.monotonic() + 20
    while served.handlers.running < 128 and time.monotonic() < until:
        time.sleep(0.01)
    started = time.monotonic()
    refused = served.refusal("echo")
    took = time.monotonic() - started
    served.handlers.release.set()
    answers = [call.result(timeout=20) for call in calls]
    served.handlers.release.clear()

    assert refused == ("RESOURCE_EXHAUSTED", "Concurrent RPC limit exceeded!")
    assert took < 2
    assert answers == [b""] * 128
    assert served.call("echo", b"room") == b"room"
    served.channel.close()
    assert served.server.stop(5).wait(20)


def test_each_connection_and_each_caller_has_a_share() -> None:
    """One connection has at most 4 calls, one caller 6 on all of his, and others go on meanwhile."""
    served = Served()
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
    assert served.call("echo", b"room", metadata=alice) == b"room"
    assert eventually(lambda: not served.server._shares._calls)
    second.close()
    served.channel.close()
    assert served.server.stop(5).wait(20)


def test_thread_that_cannot_start_refuses_one_call(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no thread for a call, that call is refused, and the server goes on."""

    class NoThread:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    held: list[Any] = []
    with monkeypatch.context() as fault:
        fault.setattr(direct_server, "threading", SimpleNamespace(Thread=NoThread))
        codes: list[str] = []
        for _ in range(12):
            try:
                served.call("echo")
                codes.append("OK")
                held.append(served.begin("hold"))  # keeps a thread that would have waited
            except grpc.RpcError as error:
                codes.append(error.code().name)
        details = served.refusal("echo")
    served.handlers.release.set()
    for call in held:
        call.exception(timeout=20)

    assert codes[-1] == "RESOURCE_EXHAUSTED"
    assert details == ("RESOURCE_EXHAUSTED", "the server cannot start another thread; try again later")
    assert served.call("echo", b"again") == b"again"


def test_client_that_sends_nothing_is_dismissed() -> None:
    """A stream whose client falls silent ends in time, and not before."""
    served = Served(patience=Patience(request=30, stream=0.5))
    method: Any = served.channel.stream_stream("/test/lockstep")
    messages: queue.Queue[bytes | None] = queue.Queue()
    answers = method(iter(messages.get, None), timeout=30)
    for _ in range(4):  # each within the time, all together beyond it
        messages.put(b"m")
        assert next(answers) == b"m"
        time.sleep(0.2)

    assert refusal(lambda: next(answers)) == (
        "DEADLINE_EXCEEDED",
        "the client sent nothing within 0.5 seconds",
    )
    assert served.handlers.told.wait(5)
    messages.put(None)
    served.channel.close()
    assert served.server.stop(5).wait(20)


@pytest.mark.parametrize("name", ["large", "flood"])
def test_client_that_reads_nothing_is_dismissed(name: str) -> None:
    """A client that does not take what it asked for loses its call in time, and with it the memory."""
    served = Served(patience=Patience(request=30, stream=1.0))
    with silent_reader(served.address, f"/test/{name}"):
        assert eventually(lambda: len(served.server._rpcs) == 1)
        assert eventually(lambda: not served.server._rpcs)

        assert served.handlers.told.is_set()
        assert not served.server._shares._calls
        assert served.call("echo", b"still here") == b"still here"
    served.channel.close()
    assert served.server.stop(5).wait(20)


def test_health_is_told_beyond_the_limit() -> None:
    """A busy server says that it serves, and whoever asks takes no room from others."""
    served = Served(max_calls=1)
    check: Any = served.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    idle = check(health_pb2.HealthCheckRequest(service=""), timeout=10).status
    call = served.begin("hold")
    assert served.handlers.entered.wait(10)
    busy = check(health_pb2.HealthCheckRequest(service=""), timeout=10).status
    refused = served.refusal("echo")
    served.handlers.release.set()

    assert (idle, busy) == (SERVING, SERVING)
    assert refused[0] == "RESOURCE_EXHAUSTED"
    assert call.result(timeout=20) == b""
    served.channel.close()
    assert served.server.stop(5).wait(20)


def test_calls_that_no_handler_gets_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call over the limit or of an unknown method has the same log line as any other."""
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(access_log, "_log", SimpleNamespace(info=lambda _, **line: lines.append(line)))
    trace = "6f0f2a53-9d2e-4f34-8b0d-3c9a4c0f7a11"
    served = Served(max_calls=1)
    served.refusal("nothing")
    call = served.begin("hold")
    assert served.handlers.entered.wait(10)
    with pytest.raises(grpc.RpcError):
        served.call("echo", metadata=[("airport-trace-id", trace)])
    served.handlers.release.set()
    call.result(timeout=20)
    served.channel.close()
    assert served.server.stop(5).wait(20)

    assert [(line["method"], line["status"]) for line in lines] == [
        ("nothing", "UNIMPLEMENTED"),
        ("echo", "RESOURCE_EXHAUSTED"),
    ]
    assert lines[1]["trace_id"] == trace
    assert all(line["ms"] >= 0 and line["trace_id"] for line in lines)


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


def test_stop_does_not_wait_for_handlers_that_heed_nothing(served: Served) -> None:
    """After the grace period calls are cancelled, and a handler that goes on is left behind."""
    call = served.begin("hold")
    assert served.handlers.entered.wait(20)
    started = time.monotonic()

    assert served.server.stop(0.3).wait(20)
    assert time.monotonic() - started < 3
    assert served.handlers.told.is_set()
    assert call.exception(timeout=20) is not None


def test_stop_under_load_answers_or_refuses_every_call(served: Served) -> None:
    """With clients that never pause, each call is answered or refused, none hangs, and the server stops."""
    begun = threading.Barrier(9)

    def work() -> str:
        begun.wait(20)
        with contextlib.closing(grpc.insecure_channel(served.address)) as channel:
            method: Callable[..., bytes] = channel.unary_unary("/test/echo")
            while True:
                try:
                    assert method(b"m", timeout=20) == b"m"
                except grpc.RpcError as error:
                    return str(error.code().name)

    with ThreadPoolExecutor(8) as pool:
        outcomes = [pool.submit(work) for _ in range(8)]
        begun.wait(20)
        time.sleep(0.5)
        assert served.server.stop(5).wait(20)

        assert {outcome.result(timeout=20) for outcome in outcomes} <= {"UNAVAILABLE", "CANCELLED"}


@pytest.mark.slow
def test_many_calls_leave_nothing_behind(served: Served) -> None:
    """Ten thousand calls, some of them cancelled, need no more memory, threads or files than a few."""

    def some(count: int) -> None:
        for number in range(count):
            served.call("echo", b"x" * 1000)
            if number % 50 == 0:
                served.begin("hold", timeout=30).cancel()

    served.handlers.release.set()
    some(1000)
    before = _usage()
    some(10_000)
    time.sleep(0.2)
    after = _usage()

    assert after["threads"] <= before["threads"] + 4
    assert after["files"] <= before["files"] + 4
    assert after["bytes"] <= before["bytes"] + (12 << 20)


def _usage() -> dict[str, int]:
    gc.collect()
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * 4096,
    }


def test_health_is_watched_without_a_thread() -> None:
    """Clients that watch the health get its changes, and take no room from others."""
    served = Served(max_calls=2)
    method: Any = served.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    watches: list[Any] = []
    first = []
    for _ in range(5):
        watches.append(method(health_pb2.HealthCheckRequest(service="")))
        first.append(next(watches[-1]).status)
    answer = served.call("echo", b"room")
    served.health.set(is_serving=False)
    last = [next(watch).status for watch in watches]

    assert first == [SERVING] * 5
    assert answer == b"room"
    assert last == [NOT_SERVING] * 5
    assert served.server.stop(0.1).wait(20)
    served.channel.close()


def test_program_that_forgets_to_stop_its_server_ends() -> None:
    """The interpreter exits in good order while the server still listens."""
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "UNIMPLEMENTED"), done.stderr


def test_health_call_of_a_silent_stranger_ends_soon() -> None:
    """Who has no share of the calls has two seconds to take an answer, whatever patience others get."""
    served = Served(patience=Patience(request=60, stream=60))
    with silent_reader(served.address, "/grpc.health.v1.Health/Check"):
        assert eventually(lambda: len(served.server._left) == 1)
        began = time.monotonic()
        assert eventually(lambda: not served.server._rpcs, 20)

        assert time.monotonic() - began > 1
    served.channel.close()
    assert served.server.stop(5).wait(20)


@pytest.mark.parametrize("service", ["", "other"])
def test_watches_end_when_the_server_stops(service: str) -> None:
    """An open watch learns that nothing is served any more, and does not keep the server from stopping."""
    served = Served()
    method: Any = served.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    watch = method(health_pb2.HealthCheckRequest(service=service))
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
    served.channel.close()


def test_silent_watch_ends_too() -> None:
    """Who watches without taking what he is told is dismissed as other strangers are."""
    served = Served()
    with silent_reader(served.address, "/grpc.health.v1.Health/Watch"):
        assert eventually(lambda: len(served.server._left) == 1)
        served.health.stop()

        assert eventually(lambda: not served.server._rpcs, 20)
    served.channel.close()
    assert served.server.stop(5).wait(20)
