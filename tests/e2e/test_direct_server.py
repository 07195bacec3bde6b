"""What `DirectServer` does better than `grpc.server`: who is told what, when, and what is left behind."""

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

FORGETFUL = """
import grpc
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.flight.transport.direct_server import DirectServer

server = DirectServer(CallLimits(), [])
port = server.add_port("127.0.0.1:0")
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
    running = Served()
    yield running
    running.stop()


def test_trailers_that_grpc_does_not_take_end_the_call(served: Served) -> None:
    """The handler's mistake harms no other call."""
    assert served.refusal("bad_trailers")[0] in {"CANCELLED", "INTERNAL"}  # as the version of gRPC has it
    assert served.call("echo", b"still here") == b"still here"


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
    served.stop()


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
    served.stop()


def test_calls_that_no_handler_gets_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call over the limit or of an unknown method has the same log line as any other."""
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(access_log, "_log", SimpleNamespace(info=lambda _, **line: lines.append(line)))
    trace = "6f0f2a53-9d2e-4f34-8b0d-3c9a4c0f7a11"
    served = Served(max_calls=1)
    served.refusal("nothing")
    call = served.begin("hold")
    while not served.handlers.entered.wait(1):  # the call before may still take the only place
        call = served.begin("hold")
    with pytest.raises(grpc.RpcError):
        served.call("echo", metadata=[("airport-trace-id", trace)])
    served.handlers.release.set()
    call.result(timeout=20)
    served.stop()

    lines = [line for line in lines if line["method"] != "hold"]
    assert [(line["method"], line["status"]) for line in lines] == [
        ("nothing", "UNIMPLEMENTED"),
        ("echo", "RESOURCE_EXHAUSTED"),
    ]
    assert lines[1]["trace_id"] == trace
    assert all(line["ms"] >= 0 and line["trace_id"] for line in lines)


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
    watches: list[Any] = []
    first = []
    for _ in range(5):
        watches.append(served.watch_health())
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
    served.stop()


def test_silent_watch_ends_too() -> None:
    """Who watches without taking what he is told is dismissed as other strangers are."""
    served = Served()
    with silent_reader(served.address, "/grpc.health.v1.Health/Watch"):
        assert eventually(lambda: len(served.server._left) == 1)
        served.health.stop()

        assert eventually(lambda: not served.server._rpcs, 20)
    served.stop()
