"""A server with handlers that do little, and clients that misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from sparkport.flight.transport import health
from sparkport.flight.transport.call_shares import CallLimits
from sparkport.flight.transport.direct_server import DirectServer
from sparkport.flight.transport.rpc import CallDetails, Patience, Rpc
from sparkport.flight.transport.standard_server import StandardServer

ServerClass = type[DirectServer] | type[StandardServer]


class Handlers(grpc.GenericRpcHandler):
    """Answers `/test/<name>` by the method of that name."""

    def __init__(self) -> None:
        self.entered, self.release, self.told = threading.Event(), threading.Event(), threading.Event()
        self.running = 0

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler of a method."""
        name = handler_call_details.method.removeprefix("/test/")
        assert isinstance(handler_call_details, CallDetails)
        for key, value in handler_call_details.invocation_metadata:
            if key == "x-principal":
                handler_call_details.rpc.principal = str(value)
        if name in {"echo", "hold", "fail", "headers", "bad_trailers", "large"}:
            return grpc.unary_unary_rpc_method_handler(getattr(self, name))
        if name == "flood":
            return grpc.unary_stream_rpc_method_handler(self.flood)
        return grpc.stream_stream_rpc_method_handler(self.lockstep) if name == "lockstep" else None

    def echo(self, message: bytes, context: Rpc) -> bytes:
        """Send a message back."""
        del context
        return message

    def hold(self, message: bytes, context: Rpc) -> bytes:
        """Be busy, and heed nothing but `release`."""
        context.add_callback(self.told.set)
        self.running += 1
        self.entered.set()
        self.release.wait(30)
        self.running -= 1
        return message

    def fail(self, message: bytes, context: Rpc) -> bytes:
        """Raise what nobody foresaw."""
        raise ValueError(message, context)

    def headers(self, message: bytes, context: Rpc) -> bytes:
        """Send headers back, before and after the answer."""
        given = dict(context.invocation_metadata())
        context.send_initial_metadata((("x-text", given["x-text"]),))
        context.set_trailing_metadata((("x-data-bin", given["x-data-bin"]),))
        return message

    def bad_trailers(self, message: bytes, context: Rpc) -> bytes:
        """Set trailers that gRPC does not take."""
        context.set_trailing_metadata((("NOT A NAME", "value"),))
        return message

    def large(self, message: bytes, context: Rpc) -> bytes:
        """Answer with more than fits into any buffer."""
        context.add_callback(self.told.set)
        return message + bytes(8 << 20)

    def flood(self, message: bytes, context: Rpc) -> Iterator[bytes]:
        """Send for ever."""
        context.add_callback(self.told.set)
        while True:
            yield message + bytes(1 << 20)

    def lockstep(self, messages: Iterator[bytes], context: Rpc) -> Iterator[bytes]:
        """Answer each message."""
        context.add_callback(self.told.set)
        yield from messages


class Served:
    """A running server with its handlers and a channel to it."""

    def __init__(
        self, max_calls: int = 128, *, patience: Patience | None = None, server: ServerClass = DirectServer
    ) -> None:
        self.handlers = Handlers()
        self.server: Any = server(
            CallLimits(max_calls, calls_per_caller=6, calls_per_connection=4),
            [("grpc.so_reuseport", 0)],
            patience=patience or Patience(),
            always=(health.PREFIX,),
        )
        self.health = health.HealthService([""])
        self.health.set(is_serving=True)
        self.server.add_generic_rpc_handlers([self.health, self.handlers])
        self.address = f"127.0.0.1:{self.server.add_port('127.0.0.1:0')}"
        self.server.start()
        self.channel = grpc.insecure_channel(self.address)

    def call(self, name: str, message: bytes = b"", **options: object) -> bytes:
        """Call a method and wait for the answer."""
        method: Callable[..., bytes] = self.channel.unary_unary(f"/test/{name}")
        return method(message, **{"timeout": 30, **options})

    def begin(self, name: str, **options: object) -> Any:
        """Begin a call and go on."""
        method: Any = self.channel.unary_unary(f"/test/{name}")
        return method.future(b"", **options)

    def check_health(self) -> int:
        """Return what the health service says of the whole server."""
        method = _health_method(self.channel.unary_unary, "Check")
        return int(method(health_pb2.HealthCheckRequest(service=""), timeout=10).status)

    def watch_health(self, service: str = "") -> Any:
        """Begin to watch the health of a service."""
        method = _health_method(self.channel.unary_stream, "Watch")
        return method(health_pb2.HealthCheckRequest(service=service))

    def stop(self) -> None:
        """End all calls and the server."""
        self.handlers.release.set()
        self.channel.close()
        assert self.server.stop(5).wait(20)

    def refusal(self, name: str) -> tuple[str, str]:
        """Return code and text of a call that fails."""
        with pytest.raises(grpc.RpcError) as caught:
            self.call(name)
        error: Any = caught.value
        return error.code().name, error.details()


def _health_method(make: Any, name: str) -> Any:
    return make(
        f"/grpc.health.v1.Health/{name}",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )


@contextlib.contextmanager
def silent_reader(address: str, method: str) -> Iterator[socket.socket]:
    """Make a call by hand, over HTTP/2 without any window for the answer."""
    host, _, port = address.rpartition(":")
    no_window = b"\0\0\6\4\0\0\0\0\0" + b"\0\4" + bytes(4)  # SETTINGS_INITIAL_WINDOW_SIZE = 0
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": address,
        "content-type": "application/grpc",
        "te": "trailers",
        "x-principal": "alice",
    }
    block = b"".join(b"\0" + _counted(key) + _counted(value) for key, value in fields.items())
    headers = len(block).to_bytes(3, "big") + b"\1\4\0\0\0\1" + block  # HEADERS, END_HEADERS, stream 1
    message = b"\0\0\5\0\1\0\0\0\1" + bytes(5)  # DATA, END_STREAM: one empty message
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + no_window + headers + message)
        yield connection


def _counted(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()
