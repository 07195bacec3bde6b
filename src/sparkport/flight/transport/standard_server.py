"""The services on `grpc.server`, for versions of gRPC that `direct_server` was not tried with.

It uses what is public in gRPC alone, and has the same limits. It is slower, and differs in this:

- A call that the server ends while its client is silent ends with CANCELLED, not with DEADLINE_EXCEEDED and
  a reason, and so does a health call that has to make room.
- A health call that watches holds a thread.
- A handler that does not heed its cancellation keeps the process from ending.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent import futures
from typing import Any, NoReturn, TypeAlias

import grpc
import structlog

from sparkport.errors import ClientSilentError
from sparkport.flight.request import Headers, open_log
from sparkport.flight.transport.call_shares import CallLimits, CallShares
from sparkport.flight.transport.rpc import AbortedError, CallDetails, Patience
from sparkport.flight.transport.standard_rpc import StandardRpc

_log = structlog.get_logger("sparkport")

_SPARE_THREADS = 32  # for health calls, and to refuse calls over the limit
_WATCH_SECONDS = 0.1
_EXIT_SECONDS = 1.0
_ENDLESS = Patience()

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class StandardServer:
    """Listens on a port and runs the handlers of services in the threads of `grpc.server`."""

    def __init__(
        self,
        limits: CallLimits,
        options: Sequence[tuple[str, Any]],
        *,
        patience: Patience = _ENDLESS,
        always: tuple[str, ...] = (),
    ) -> None:
        """Make a server; methods that begin with a prefix in `always` are answered beyond the limits."""
        threads = limits.concurrent_calls + _SPARE_THREADS
        self._calls = _Calls(limits, patience, always)
        self._services: list[grpc.GenericRpcHandler] = []
        adapter = _Adapter(self._services, self._calls)
        pool = futures.ThreadPoolExecutor(threads, "flight")
        self._server = grpc.server(pool, handlers=[adapter], options=options)
        self._stopped = threading.Event()

    def add_generic_rpc_handlers(self, services: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add services; the first one that knows a method gets its calls."""
        self._services.extend(services)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen, with TLS if there are credentials, and return the port. Raises OSError."""
        port = 0
        with contextlib.suppress(RuntimeError):  # which later versions raise instead of returning 0
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        if not port:
            raise OSError(f"cannot listen on {address}; is the port taken, or the address another machine's?")
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        threading.Thread(target=self._watch, name="flight-watch", daemon=True).start()
        atexit.register(self._exit)

    def stop(self, grace_seconds: float) -> threading.Event:
        """Take no new calls, and cancel those that still run after a while."""
        self._stopped.set()
        atexit.unregister(self._exit)
        return self._server.stop(grace_seconds)

    def running_calls(self) -> int:
        """Return how many calls are not over yet, for handler or client."""
        return self._calls.running()

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._server.wait_for_termination()

    def _exit(self) -> None:
        self.stop(0).wait(_EXIT_SECONDS)

    def _watch(self) -> None:
        while not self._stopped.wait(_WATCH_SECONDS):
            self._calls.dismiss_silent()


class _Calls:
    """The calls that run, and the limits on them."""

    def __init__(self, limits: CallLimits, patience: Patience, always: tuple[str, ...]) -> None:
        self.patience = patience
        self._max_calls = limits.concurrent_calls
        self._shares = CallShares(limits)
        self._always = always
        self._lock = threading.Lock()
        self._running: set[StandardRpc] = set()
        self._counted = 0

    def enter(self, rpc: StandardRpc) -> None:
        """Count a call until it is over, or refuse it."""
        is_counted = not rpc.method.startswith(self._always)
        with self._lock:
            self._running.add(rpc)
            self._counted += is_counted
            is_over_limit = is_counted and self._counted > self._max_calls
        self._at_end(rpc, lambda: self._leave(rpc, is_counted=is_counted))
        if is_over_limit:
            _refuse(rpc, grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        if rpc.principal is None:
            return
        share = rpc.principal, rpc.connection
        refusal = self._shares.enter(*share)
        if refusal is not None:
            _refuse(rpc, grpc.StatusCode.RESOURCE_EXHAUSTED, refusal + ", which is the limit")
        self._at_end(rpc, lambda: self._shares.leave(*share))

    def running(self) -> int:
        """Return how many calls are not over yet."""
        with self._lock:
            return len(self._running)

    def dismiss_silent(self) -> None:
        """End the calls whose clients have kept them waiting too long."""
        with self._lock:
            running = tuple(self._running)
        now = time.monotonic()
        for rpc in running:
            rpc.dismiss_silent(now)

    def _leave(self, rpc: StandardRpc, *, is_counted: bool) -> None:
        with self._lock:
            self._running.discard(rpc)
            self._counted -= is_counted

    @staticmethod
    def _at_end(rpc: StandardRpc, callback: Any) -> None:  # noqa: ANN401
        if not rpc.add_callback(callback):
            callback()


class _Adapter(grpc.GenericRpcHandler):
    """All services, whose handlers get a `StandardRpc` instead of gRPC's own context.

    gRPC asks for a handler before there is a context, and the services ask who has connected: so they are
    asked only when the call runs.
    """

    def __init__(self, services: Sequence[grpc.GenericRpcHandler], calls: _Calls) -> None:
        self._services = services
        self._calls = calls

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """Return a handler that looks for the one of the method."""
        method, metadata = handler_call_details.method, tuple(handler_call_details.invocation_metadata)
        rpc = StandardRpc(method, metadata, self._calls.patience)

        # On the wire one message is the same as a stream of one; a stream is counted before it is read.
        def respond(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:  # noqa: ANN401
            rpc.bind(messages, context)
            return _respond(self._services, rpc, self._calls)

        return grpc.stream_stream_rpc_method_handler(respond)


def _respond(services: Sequence[grpc.GenericRpcHandler], rpc: StandardRpc, calls: _Calls) -> Iterator[bytes]:
    try:
        details = CallDetails(rpc.method, rpc.invocation_metadata(), rpc)
        found = (service.service(details) for service in services)
        handler = next((handler for handler in found if handler is not None), None)
        calls.enter(rpc)
        if handler is None:
            _refuse(rpc, grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        with contextlib.closing(_responses(handler, rpc)) as responses:
            for response in responses:
                yield from rpc.sending(response)
        if rpc.stays_open:
            yield from rpc.posted()
            rpc.end_aborted()
        rpc.finish()
    except (AbortedError, ClientSilentError):
        rpc.end_aborted()
    except GeneratorExit:
        raise
    except BaseException:  # noqa: BLE001 - whatever it is, the client learns no more than that it failed
        # A lost connection ends a handler too, and then no client is left to report to.
        if not rpc.cancelled:
            _log.error("a handler failed", method=rpc.method, exception=traceback.format_exc())
        rpc.end_aborted()


def _responses(handler: Handler, rpc: StandardRpc) -> Generator[bytes, None, None]:
    request = rpc if handler.request_streaming else _only_request(rpc, handler)
    encode = handler.response_serializer or bytes
    if not handler.response_streaming:
        answer: Any = handler.unary_unary or handler.stream_unary
        yield encode(answer(request, rpc))
        return
    answer = handler.unary_stream or handler.stream_stream
    with contextlib.closing(answer(request, rpc)) as responses:
        for response in responses:
            yield encode(response)


def _only_request(rpc: StandardRpc, handler: Handler) -> Any:  # noqa: ANN401
    try:
        message = next(rpc)
    except ClientSilentError as error:
        _refuse(rpc, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    except StopIteration:
        _refuse(rpc, grpc.StatusCode.UNIMPLEMENTED, f'"{rpc.method}" requires exactly one request message.')
    if handler.request_deserializer is None:
        return message
    try:
        return handler.request_deserializer(message)
    except Exception:  # noqa: BLE001 - whatever the bytes are, they are the client's
        _refuse(rpc, grpc.StatusCode.INTERNAL, "Exception deserializing request!")


def _refuse(rpc: StandardRpc, code: grpc.StatusCode, message: str) -> NoReturn:
    """End a call that no handler gets, with the log line that a handler would have written."""
    open_log(rpc.method.rpartition("/")[2], Headers(rpc.invocation_metadata())).finish(code.name)
    rpc.abort(code, message)
