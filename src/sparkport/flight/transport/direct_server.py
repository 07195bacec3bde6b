"""A gRPC server in which one thread serves a call from its first event to its last.

`grpc.server` has one thread that takes all events and wakes another one for each: most of the time of a
small call, and of a small message, goes there. Here a few threads wait for calls; the one that gets a
call runs its handler and takes the events of that call itself. This is how gRPC's synchronous server in C++
works.

It needs classes of `grpcio` that are not public: `server` takes it for the versions it was tried with.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import grpc
import structlog
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # compiled, and without types

from sparkport.errors import ClientSilentError
from sparkport.flight.request import Headers, open_log
from sparkport.flight.transport.call_shares import CallLimits, CallShares
from sparkport.flight.transport.direct_rpc import DirectRpc
from sparkport.flight.transport.rpc import AbortedError, CallDetails, Patience

_log = structlog.get_logger("sparkport")

_SHUT_DOWN = "shut down"
_MAX_WAITING = 4
_WATCH_SECONDS = 0.02
_PATIENCE_SECONDS = 0.005
_STRANGER_SECONDS = 2.0  # for calls without a share: health, and those that were refused
_EXIT_SECONDS = 1.0
_ENDLESS = Patience()


class DirectServer:
    """Listens on a port and runs the handlers of services, each call on a thread of its own."""

    def __init__(
        self,
        limits: CallLimits,
        options: Sequence[tuple[str, Any]],
        *,
        patience: Patience = _ENDLESS,
        always: tuple[str, ...] = (),
    ) -> None:
        """Make a server; methods that begin with a prefix in `always` are answered beyond the limits."""
        self._max_calls = limits.concurrent_calls
        self._shares = CallShares(limits)
        self._patience = patience
        self._always = always
        self._services: list[grpc.GenericRpcHandler] = []
        self._server = cygrpc.Server(tuple(options), False)
        self._arrivals = cygrpc.CompletionQueue()
        self._server.register_completion_queue(self._arrivals)
        self._lock = threading.Lock()
        self._waiting = self._running = 0
        self._rpcs: set[DirectRpc] = set()
        self._left: dict[DirectRpc, float] = {}  # those of them that no thread runs any more, and since when
        self._spare_queues: list[Any] = []
        self._has_started = self._is_stopping = self._is_shut_down = False
        self._busy = threading.Event()
        self._stopped = threading.Event()

    def add_generic_rpc_handlers(self, services: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add services; the first one that knows a method gets its calls."""
        self._services.extend(services)

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen, with TLS if there are credentials, and return the port. Raises OSError."""
        own = () if credentials is None else (credentials._credentials,)  # type: ignore[attr-defined]  # noqa: SLF001
        port = int(self._server.add_http2_port(address.encode(), *own))
        if not port:
            raise OSError(f"cannot listen on {address}; is the port taken, or the address another machine's?")
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        with self._lock:
            self._has_started = True
            self._expect_call()
            self._add_thread()
        threading.Thread(target=self._watch, name="flight-watch", daemon=True).start()
        atexit.register(self._exit)

    def stop(self, grace_seconds: float) -> threading.Event:
        """Take no new calls, and cancel those that still run after a while.

        The event that is returned is set when all calls are over; a handler that does not heed its
        cancellation is left to itself.
        """
        with self._lock:
            if not self._has_started:
                self._stopped.set()
            elif not self._is_stopping:
                self._is_stopping = True
                self._server.shutdown(self._arrivals, _SHUT_DOWN)
        if not self._stopped.is_set():
            threading.Thread(target=self._cancel_after, args=(grace_seconds,), daemon=True).start()
        return self._stopped

    def running_calls(self) -> int:
        """Return how many calls are not over yet, for handler or client."""
        with self._lock:
            return len(self._rpcs)

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._stopped.wait()

    def _cancel_after(self, seconds: float) -> None:
        if not self._stopped.wait(seconds):
            with self._lock:
                if not self._stopped.is_set():
                    self._server.cancel_all_calls()

    def _exit(self) -> None:
        """Let no thread be inside gRPC when the interpreter goes away."""
        self.stop(0).wait(_EXIT_SECONDS)

    def _add_thread(self) -> None:
        threading.Thread(target=self._serve, name="flight", daemon=True).start()
        self._waiting += 1

    def _expect_call(self) -> None:
        """Ask gRPC for one call, whose events will come on a queue of its own."""
        if not self._is_stopping:
            queue = self._spare_queues.pop() if self._spare_queues else cygrpc.CompletionQueue()
            self._server.request_call(queue, self._arrivals, queue)

    def _serve(self) -> None:
        """Run calls as they come, until enough others wait for them."""
        while True:
            rpc = self._next_call()
            if rpc is None:
                return
            self._run(rpc)
            # What is left of a call is freed before the next is waited for.
            del rpc
            with self._lock:
                if self._waiting >= _MAX_WAITING:
                    return
                self._waiting += 1

    def _next_call(self) -> DirectRpc | None:
        """Wait for a call; None when the server has stopped."""
        while True:
            event = self._arrivals.poll()
            if event.tag is None:
                return None
            if event.tag == _SHUT_DOWN:
                with self._lock:
                    self._is_shut_down = True
                    self._busy.set()
            elif event.success:
                return self._accepted(event)

    def _accepted(self, event: Any) -> DirectRpc:  # noqa: ANN401
        rpc = DirectRpc(event, event.tag, self._patience)
        with self._lock:
            self._rpcs.add(rpc)
            self._running += self._is_counted(rpc)
            self._waiting -= 1
            self._expect_call()
            if not self._waiting:
                try:
                    self._add_thread()
                except RuntimeError:  # so this thread has to wait for the next call, and cannot run this one
                    rpc.has_no_thread = True
            if not self._busy.is_set():
                self._busy.set()
        return rpc

    def _run(self, rpc: DirectRpc) -> None:
        try:
            with contextlib.suppress(AbortedError):
                self._answer(rpc)
            rpc.end()
        except ClientSilentError as error:
            rpc.dismiss(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
        except BaseException:  # noqa: BLE001 - a thread that ended here would leave its client waiting
            # A lost connection ends a handler too, and then no client is left to report to.
            if not rpc.cancelled:
                _log.error("a handler failed", method=rpc.method, exception=traceback.format_exc())
                rpc.fail()
        self._leave(rpc)

    def _leave(self, rpc: DirectRpc) -> None:
        """Release a call; until its client has read the answer, it still counts for the caller."""
        with self._lock:
            self._running -= self._is_counted(rpc)
        if rpc.share is not None:
            self._shares.leave(*rpc.share)
        rpc.take_events(_PATIENCE_SECONDS)
        with self._lock:
            if rpc.is_drained:
                self._forget(rpc)
                return
            if rpc.share is not None:
                self._shares.enter_anyway(*rpc.share)
            self._left[rpc] = time.monotonic()

    def _answer(self, rpc: DirectRpc) -> None:
        if rpc.has_no_thread:
            _refuse(
                rpc,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "the server cannot start another thread; try again later",
            )
        if self._running > self._max_calls and self._is_counted(rpc):
            _refuse(rpc, grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")
        handler = self._handler(rpc)
        if handler is None:
            _refuse(rpc, grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        if rpc.principal is not None:
            self._take_share(rpc, rpc.principal)
        request = rpc if handler.request_streaming else _only_request(rpc, handler)
        encode = handler.response_serializer or bytes
        if not handler.response_streaming:
            respond: Any = handler.unary_unary or handler.stream_unary
            rpc.end(encode(respond(request, rpc)))
            return
        respond = handler.unary_stream or handler.stream_stream
        with contextlib.closing(respond(request, rpc)) as responses:
            for response in responses:
                rpc.send(encode(response))

    def _take_share(self, rpc: DirectRpc, principal: str) -> None:
        share = principal, rpc.connection
        refusal = self._shares.enter(*share)
        if refusal is not None:
            _refuse(rpc, grpc.StatusCode.RESOURCE_EXHAUSTED, refusal + ", which is the limit")
        rpc.share = share

    def _is_counted(self, rpc: DirectRpc) -> bool:
        return not rpc.method.startswith(self._always)

    def _handler(self, rpc: DirectRpc) -> grpc.RpcMethodHandler[Any, Any] | None:
        details = CallDetails(rpc.method, rpc.invocation_metadata(), rpc)
        handlers = (service.service(details) for service in self._services)
        return next((handler for handler in handlers if handler is not None), None)

    def _forget(self, rpc: DirectRpc) -> None:
        self._rpcs.discard(rpc)
        rpc.release()
        self._spare_queues.append(rpc.queue)

    def _watch(self) -> None:
        """Look after the calls whose threads are busy or gone, and end the server after the last one."""
        while not self._stopped.is_set():
            self._busy.wait()
            time.sleep(_WATCH_SECONDS)
            self._look()
            with self._lock:
                self._clean_up()

    def _look(self) -> None:
        with self._lock:
            rpcs = tuple(self._rpcs)
        for rpc in rpcs:
            try:
                rpc.look()
            except Exception:  # noqa: BLE001 - the watch goes on for all the others
                _log.error("a call cannot be watched", method=rpc.method, exception=traceback.format_exc())

    def _clean_up(self) -> None:
        for rpc in [rpc for rpc in self._left if rpc.is_drained]:
            del self._left[rpc]
            self._forget(rpc)
            if rpc.share is not None:
                self._shares.leave(*rpc.share)
        self._dismiss_silent()
        if self._is_shut_down and all(rpc.is_drained for rpc in self._rpcs):
            self._tear_down()
        elif not self._rpcs:
            self._busy.clear()

    def _dismiss_silent(self) -> None:
        """End the calls whose clients do not take what they were sent last; strangers have to be quick."""
        now = time.monotonic()
        for rpc, since in self._left.items():
            seconds = _STRANGER_SECONDS if rpc.share is None else self._patience.stream
            if seconds is None or rpc.cancelled or rpc.stays_open:
                continue
            if max(since, rpc.ending_since) < now - seconds:
                rpc.dismiss(grpc.StatusCode.DEADLINE_EXCEEDED, str(ClientSilentError("read", seconds)))

    def _tear_down(self) -> None:
        self._server.destroy()
        self._arrivals.shutdown()  # which sends home the threads that wait
        self._stopped.set()
        atexit.unregister(self._exit)


def _refuse(rpc: DirectRpc, code: grpc.StatusCode, message: str) -> NoReturn:
    """End a call that no handler gets, with the log line that a handler would have written."""
    open_log(rpc.method.rpartition("/")[2], Headers(rpc.invocation_metadata())).finish(code.name)
    rpc.abort(code, message)


def _only_request(rpc: DirectRpc, handler: grpc.RpcMethodHandler[Any, Any]) -> Any:  # noqa: ANN401
    try:
        message = next(rpc, None)
    except ClientSilentError as error:
        _refuse(rpc, grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
    if message is None:
        _refuse(rpc, grpc.StatusCode.UNIMPLEMENTED, f'"{rpc.method}" requires exactly one request message.')
    if handler.request_deserializer is None:
        return message
    try:
        return handler.request_deserializer(message)
    except Exception:  # noqa: BLE001 - whatever the bytes are, they are the client's
        _refuse(rpc, grpc.StatusCode.INTERNAL, "Exception deserializing request!")
