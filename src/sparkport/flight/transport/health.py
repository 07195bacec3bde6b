"""The gRPC health service: answers without a token, so it must cost nothing that grows.

It knows the names that the server gives it and keeps no other. Few calls are open at a time; when one more
comes, the oldest ends. So a client that opens many ends its own, and a probe, which is over in a
moment, gets its answer whatever others do.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from sparkport.errors import ClientSilentError
from sparkport.flight.transport.rpc import Rpc

__all__ = ["PREFIX", "HealthService"]

PREFIX = "/grpc.health.v1.Health/"
_MAX_REQUEST_BYTES = 1024
_MAX_OPEN_CALLS = 8
_REQUEST_SECONDS = 2.0

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService(grpc.GenericRpcHandler):
    """Tells the health of a fixed set of services, which are all well or all not."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(services)
        self._lock = threading.Lock()
        self._is_serving = False
        self._open: OrderedDict[Rpc, None] = OrderedDict()  # the oldest first
        self._watching: dict[Rpc, bool] = {}  # and whether it watches a service that there is
        self._is_stopping = False

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the handler of a method, None for a method of another service."""
        # The handlers read the request themselves, because they wait less long for it than others do.
        match handler_call_details.method:
            case "/grpc.health.v1.Health/Check":
                return grpc.stream_unary_rpc_method_handler(self._check)
            case "/grpc.health.v1.Health/Watch":
                return grpc.stream_stream_rpc_method_handler(self._watch)
            case _:
                return None

    def set(self, *, is_serving: bool) -> None:
        """Set the health, and send it to all open watches."""
        with self._lock:
            self._is_serving = is_serving
            for rpc, is_known in self._watching.items():
                if is_known:
                    rpc.post(_answer(self._status))

    def stop(self) -> None:
        """Tell open watches that nothing is served any more, and end them."""
        self.set(is_serving=False)
        with self._lock:
            self._is_stopping = True
            for rpc in self._watching:
                _end_watch(rpc)

    def _check(self, messages: Iterator[bytes], rpc: Rpc) -> bytes:
        del messages
        self._enter(rpc)
        service = _requested(rpc)
        self._forget(rpc)  # what is all but over is not ended for others
        if service not in self._services:
            rpc.abort(grpc.StatusCode.NOT_FOUND, "no service of that name")
        return _answer(self._status)

    def _watch(self, messages: Iterator[bytes], rpc: Rpc) -> Iterator[bytes]:
        del messages
        self._enter(rpc)
        service = _requested(rpc)
        rpc.stay_open()  # and hold no thread
        with self._lock:
            is_known = service in self._services
            rpc.post(_answer(self._status if is_known else _UNKNOWN))
            self._watching[rpc] = is_known
            if self._is_stopping:
                _end_watch(rpc)
        if not rpc.add_callback(lambda: self._forget(rpc)):
            self._forget(rpc)
        yield from ()

    @property
    def _status(self) -> int:
        return _SERVING if self._is_serving else _NOT_SERVING

    def _enter(self, rpc: Rpc) -> None:
        """Count a call for as long as it is open, and end the oldest if there are too many."""
        with self._lock:
            self._open[rpc] = None
            oldest = self._open.popitem(last=False)[0] if len(self._open) > _MAX_OPEN_CALLS else None
        if oldest is not None:
            oldest.dismiss(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many health calls are open")
        if not rpc.add_callback(lambda: self._forget(rpc)):
            self._forget(rpc)

    def _forget(self, rpc: Rpc) -> None:
        with self._lock:
            self._open.pop(rpc, None)
            self._watching.pop(rpc, None)


def _end_watch(rpc: Rpc) -> None:
    rpc.post_end(grpc.StatusCode.UNAVAILABLE, "the server is stopping")


def _requested(rpc: Rpc) -> str:
    """Return the name in the one message of a call, or end the call if there is none worth reading."""
    try:
        message = rpc.receive(_REQUEST_SECONDS)
    except ClientSilentError as error:
        rpc.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    except StopIteration:
        rpc.abort(grpc.StatusCode.INVALID_ARGUMENT, "a health call has one request message")
    if len(message) > _MAX_REQUEST_BYTES:
        rpc.abort(
            grpc.StatusCode.RESOURCE_EXHAUSTED, f"a health request has at most {_MAX_REQUEST_BYTES} bytes"
        )
    try:
        return health_pb2.HealthCheckRequest.FromString(message).service
    except DecodeError:
        rpc.abort(grpc.StatusCode.INVALID_ARGUMENT, "malformed HealthCheckRequest message")


def _answer(status: int) -> bytes:
    return health_pb2.HealthCheckResponse(status=status).SerializeToString()
