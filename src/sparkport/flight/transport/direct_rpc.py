"""One call of a gRPC client on a completion queue of its own.

gRPC tells what happens to a call by events on a queue. Here the thread that runs the handler takes them
itself, whenever it waits for one: no other thread has to pass them on.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import grpc
import structlog
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # compiled, and without types

from sparkport.errors import ClientSilentError
from sparkport.flight.transport.rpc import AbortedError, Metadata, Patience, Rpc, common_name

_log = structlog.get_logger("sparkport")

# What a call may wait for; the queue gives these words back.
_CLOSED, _RECEIVED, _SENT, _ENDED = "closed", "received", "sent", "ended"
_NO_FLAGS = 0
_AT_ONCE = 0.0
_CODES: dict[grpc.StatusCode, int] = {code: code.value[0] for code in grpc.StatusCode}


class DirectRpc(Rpc):
    """A call: the context that handlers get, and the iterator of what the client sends.

    Events are taken by the thread of the handler when it waits. While it is busy, the server's watch
    takes them with `look`, so that a cancellation is noticed in time.
    """

    def __init__(self, event: Any, queue: Any, patience: Patience) -> None:  # noqa: ANN401 - gRPC has no types
        super().__init__()
        self.queue = queue
        self.share: tuple[str, str] | None = None  # the principal and connection that the call counts for
        self.has_no_thread = False
        self.method: str = event.call_details.method.decode("utf-8", "replace")
        self._call = event.call
        self._metadata: Metadata = event.invocation_metadata
        self._deadline: float = event.call_details.deadline
        self._turn = threading.Lock()  # of those who may take events
        self._due: set[str] = set()
        self._patience = patience
        self._has_received = False
        self._message: bytes | None = None
        self._posted: deque[bytes | None] = deque()  # None is the end
        self.ending_since = 0.0
        self._has_begun = self._has_ended = False
        self._status = (grpc.StatusCode.OK, "")
        self._trailers: Metadata | None = None
        self._callbacks: list[Callable[[], None]] | None = []
        self._callbacks_lock = threading.Lock()
        self._start(_CLOSED, cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS))

    @property
    def is_drained(self) -> bool:
        """Whether nothing more will happen to the call."""
        return not self._due

    def invocation_metadata(self) -> Metadata:
        """Return the headers of the request."""
        return self._metadata

    @property
    def connection(self) -> str:
        """The address of the client's end of the connection, with its port."""
        peer: bytes = self._call.peer()
        return peer.decode("ascii", "replace")

    def certificate_name(self) -> str:
        """Return the common name of the certificate that the client has shown; empty without one."""
        return common_name(cygrpc.auth_context(self._call), b"x509_common_name")

    def time_remaining(self) -> float:
        """Return the seconds until the deadline."""
        return max(self._deadline - time.time(), 0.0)

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call is over, in whatever way; return False if it is over already."""
        with self._callbacks_lock:
            if self._callbacks is None:
                return False
            self._callbacks.append(callback)
            return True

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status with which the call will end."""
        self._status = (code, "")

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Set what will be sent along with the status."""
        self._trailers = trailing_metadata

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """Leave the handler, and end the call with an error."""
        self._status = (code, details)
        raise AbortedError

    def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Send headers before the first message."""
        self._wait_sent()
        if not self.cancelled:
            self._start(_SENT, self._beginning(initial_metadata))

    def __iter__(self) -> DirectRpc:
        return self

    def __next__(self) -> bytes:
        """Return the next message of the client.

        Raises RpcError when the client is gone, ClientSilentError when nothing comes in time.
        """
        return self.receive(self._patience.stream if self._has_received else self._patience.request)

    def receive(self, seconds: float | None) -> bytes:
        """Return the next message of the client if it comes in time; raises as `__next__` does."""
        if not self.cancelled:
            self._start(_RECEIVED, cygrpc.ReceiveMessageOperation(_NO_FLAGS))
            if not self._wait(_RECEIVED, seconds):
                raise ClientSilentError("sent", seconds)
        self._has_received = True
        message, self._message = self._message, None
        if message is not None:
            return message
        if self.cancelled:
            raise grpc.RpcError
        raise StopIteration

    def send(self, message: bytes) -> None:
        """Send a message once the one before is on its way. Raises RpcError when the client is gone."""
        self._wait_sent()
        if self.cancelled:
            raise grpc.RpcError
        sending = cygrpc.SendMessageOperation(message, _NO_FLAGS)
        if self._has_begun:
            self._start(_SENT, sending)
        else:
            self._start(_SENT, self._beginning(None), sending)

    def post(self, message: bytes) -> None:
        """Have a message sent at the next `look`; may be called from any thread."""
        self._posted.append(message)

    def post_end(self, code: grpc.StatusCode, details: str) -> None:
        """End a call that stays open, after what was posted before; may be called from any thread."""
        self._status = (code, details)
        self.ending_since = time.monotonic()
        self.stays_open = False
        self._posted.append(None)

    def stay_open(self) -> None:
        """Let the call go on after its handler, until the client goes away."""
        self._has_ended = self.stays_open = True

    def dismiss(self, code: grpc.StatusCode, details: str) -> None:
        """End the call from any thread; whoever waits for its client learns that it is gone."""
        # An end of the input that comes with this must not look like one that the client sent.
        self.cancelled = True
        call = self._call
        if call is not None:
            call.cancel(_CODES[code], details)

    def end(self, last: bytes | None = None) -> None:
        """Send the status, once, and perhaps a last message in the same breath."""
        if self._has_ended:
            return
        self._wait_sent()
        if self.cancelled:
            return
        self._has_ended = True
        code, details = self._status
        operations = [
            cygrpc.SendStatusFromServerOperation(self._trailers, _CODES[code], details.encode(), _NO_FLAGS)
        ]
        if not self._has_begun:
            operations.append(self._beginning(None))
        if last is not None:
            operations.append(cygrpc.SendMessageOperation(last, _NO_FLAGS))
        self._start(_ENDED, *operations)

    def fail(self) -> None:
        """End a call whose handler has failed; without a status if that is what gRPC refuses to send."""
        if self._has_ended:
            self._call.cancel()
        else:
            self._status = (grpc.StatusCode.UNKNOWN, "the server failed")
            self.end()

    def release(self) -> None:
        """Give the stream of a call that has ended back to gRPC, whoever still refers to the call."""
        self._call = None

    def take_events(self, seconds: float) -> None:
        """Take what happens to the call, for so long or until nothing more will."""
        until = time.time() + seconds
        while self._due:
            with self._turn:
                news = self._take(until)
            self._tell_closed()
            if not news:
                return

    def look(self) -> None:
        """Take what has happened, unless another thread is about to."""
        if self._turn.acquire(blocking=False):
            try:
                while self._due and self._take(_AT_ONCE):
                    pass
            finally:
                self._turn.release()
            self._tell_closed()
        if self._posted and not self.cancelled and _SENT not in self._due:
            message = self._posted.popleft()
            if message is None:
                self._has_ended = False  # which kept the end of the handler from ending the call
                self.end()
            else:
                self.send(message)

    def _beginning(self, headers: Metadata | None) -> Any:  # noqa: ANN401
        self._has_begun = True
        return cygrpc.SendInitialMetadataOperation(headers, _NO_FLAGS)

    def _start(self, what: str, *operations: Any) -> None:  # noqa: ANN401
        self._due.add(what)
        error = self._call.start_server_batch(operations, what)
        if error:
            self._due.discard(what)
            raise RuntimeError(f"gRPC refuses what was to be {what}: error {error}")

    def _wait_sent(self) -> None:
        """Wait until the client has read enough; one that reads nothing for too long is dismissed."""
        seconds = self._patience.stream
        if not self._wait(_SENT, seconds):
            self.dismiss(grpc.StatusCode.DEADLINE_EXCEEDED, str(ClientSilentError("read", seconds)))

    def _wait(self, what: str, seconds: float | None) -> bool:
        """Wait for an event; return False if it did not come in time."""
        if what not in self._due:
            return True
        until = None if seconds is None else time.time() + seconds
        while what in self._due:
            with self._turn:
                # The watch may have taken the event while this thread waited for its turn.
                is_late = what in self._due and not self._take(until)
            self._tell_closed()
            if is_late:
                return False
        return True

    def _take(self, until: float | None) -> bool:
        """Take one event and note what it says; return False if none came in time."""
        event = self.queue.poll(until)
        what = event.tag
        if what is None:
            return False
        if what == _RECEIVED:
            self._message = event.batch_operations[0].message()
        elif what == _CLOSED:
            self.cancelled = self.cancelled or event.batch_operations[0].cancelled()
        self._due.discard(what)
        return True

    def _tell_closed(self) -> None:
        """Run the callbacks when the call is over, but not while others wait for their turn."""
        if self._callbacks is None or _CLOSED in self._due:
            return
        with self._callbacks_lock:
            callbacks, self._callbacks = self._callbacks or [], None
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - a failing callback must not prevent the others
                _log.error("a callback failed", method=self.method, exception=traceback.format_exc())
