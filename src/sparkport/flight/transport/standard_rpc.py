"""One call that `grpc.server` has taken: its context and messages as services expect them."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import grpc

from sparkport.errors import ClientSilentError
from sparkport.flight.transport.rpc import AbortedError, Metadata, Patience, Rpc, common_name

__all__ = ["StandardRpc"]

_STRANGER_SECONDS = 2.0  # for calls without a principal: health, and those that were refused


class StandardRpc(Rpc):
    """A call that is made when its handler is looked for, and gets its context when that runs.

    gRPC's own threads take the events of the call. A wait for the client cannot be bounded there, so the
    waits are recorded here, and the server's watch ends calls that wait too long.
    """

    def __init__(self, method: str, metadata: Metadata, patience: Patience) -> None:
        super().__init__()
        self.method = method
        self._metadata = metadata
        self._patience = patience
        self._context: Any = None
        self._messages: Iterator[bytes] = iter(())
        self._has_received = False
        self._waiting: tuple[float, float, str] | None = None  # since when, how long, and for what
        self._is_silent = False
        self._posted: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # None is the end
        self._end: tuple[grpc.StatusCode, str] | None = None

    def bind(self, messages: Iterator[bytes], context: Any) -> None:  # noqa: ANN401 - gRPC's class is not public
        """Take over what gRPC gives the handler."""
        self._messages, self._context = messages, context
        if not context.add_callback(self._close):
            self._close()

    def _close(self) -> None:
        # At the end of a call that went well this changes nothing: nobody asks any more.
        self.cancelled = True
        self._posted.put(None)

    @property
    def connection(self) -> str:
        """The address of the client's end of the connection, with its port."""
        peer: str = self._context.peer()
        return peer

    def certificate_name(self) -> str:
        """Return the common name of the certificate that the client has shown; empty without one."""
        return common_name(self._context.auth_context(), "x509_common_name")

    def invocation_metadata(self) -> Metadata:
        """Return the headers of the request."""
        return self._metadata

    def time_remaining(self) -> float:
        """Return the seconds until the deadline."""
        remaining: float | None = self._context.time_remaining()
        return float("inf") if remaining is None else remaining

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call is over, in whatever way; return False if it is over already."""
        added: bool = self._context.add_callback(callback)
        return added

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status with which the call will end."""
        self._context.set_code(code)

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Set what will be sent along with the status."""
        self._context.set_trailing_metadata(trailing_metadata)

    def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Send headers before the first message."""
        self._context.send_initial_metadata(initial_metadata)

    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """Leave the handler, and end the call with an error."""
        self._end = (code, details)
        raise AbortedError

    def end_aborted(self) -> NoReturn:
        """Tell gRPC the status that `abort` or `post_end` has set."""
        self.finish()
        code, details = self._end or (grpc.StatusCode.UNKNOWN, "the server failed")
        self._context.abort(code, details)
        raise AbortedError

    def __iter__(self) -> StandardRpc:
        return self

    def __next__(self) -> bytes:
        """Return the next message of the client; raises as `receive` does."""
        return self.receive(self._patience.stream if self._has_received else self._patience.request)

    def receive(self, seconds: float | None) -> bytes:
        """Return the next message of the client if it comes in time; raises as the contract says."""
        self._wait_for("sent", seconds)
        try:
            message = next(self._messages)
        except grpc.RpcError as error:
            if self._is_silent:
                raise ClientSilentError("sent", seconds) from error
            raise
        finally:
            self._waiting = None
        self._has_received = True
        return message

    def sending(self, message: bytes) -> Iterator[bytes]:
        """Yield a message to gRPC, which comes back once it is on its way."""
        self._wait_for("read", self._patience.stream)
        yield message
        self._waiting = None

    def finish(self) -> None:
        """Bound the wait for the client to take the end; strangers have to be quick."""
        self._wait_for("read", _STRANGER_SECONDS if self.principal is None else self._patience.stream)

    def stay_open(self) -> None:
        """Let the call go on after its handler, until the client goes away."""
        self.stays_open = True

    def post(self, message: bytes) -> None:
        """Have a message of a call that stays open sent soon; may be called from any thread."""
        self._posted.put(message)

    def post_end(self, code: grpc.StatusCode, details: str) -> None:
        """End a call that stays open, after what was posted before; may be called from any thread."""
        self._end = (code, details)
        self._posted.put(None)

    def posted(self) -> Iterator[bytes]:
        """Yield what is posted to a call that stays open, until its end."""
        while (message := self._posted.get()) is not None:
            yield message

    def dismiss(self, code: grpc.StatusCode, details: str) -> None:
        """End the call from any thread; the client gets CANCELLED, as this server can tell no other code."""
        del code, details
        self.cancelled = True
        self._context.cancel()

    def dismiss_silent(self, now: float) -> None:
        """End the call if its client has kept it waiting too long."""
        waiting = self._waiting
        if waiting is not None and now - waiting[0] > waiting[1]:
            self._is_silent = True
            self.dismiss(grpc.StatusCode.DEADLINE_EXCEEDED, str(ClientSilentError(waiting[2], waiting[1])))

    def take_events(self, seconds: float) -> None:
        """Do nothing: gRPC's own thread takes what happens to the call."""

    def _wait_for(self, what: str, seconds: float | None) -> None:
        self._waiting = None if seconds is None else (time.monotonic(), seconds, what)
