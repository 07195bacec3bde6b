"""One call of a gRPC client, as services see it, whichever server has taken it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import grpc

__all__ = ["AbortedError", "CallDetails", "Metadata", "Patience", "Rpc", "common_name"]

Metadata = tuple[tuple[str, str | bytes], ...]


class AbortedError(Exception):
    """Leaves a handler by way of `Rpc.abort`."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds a server waits for a client; None is forever."""

    request: float | None = None
    """For the first message of a call."""
    stream: float | None = None
    """For each later message to come, or to be read."""


class Rpc(ABC):
    """A call: the context that handlers get."""

    def __init__(self) -> None:
        self.principal: str | None = None  # of an authenticated caller; set by the service that gets the call
        self.cancelled = False
        self.stays_open = False

    @property
    @abstractmethod
    def connection(self) -> str:
        """The address of the client's end of the connection, with its port."""

    @abstractmethod
    def certificate_name(self) -> str:
        """Return the common name of the certificate that the client has shown; empty without one."""

    @abstractmethod
    def invocation_metadata(self) -> Metadata:
        """Return the headers of the request."""

    @abstractmethod
    def time_remaining(self) -> float:
        """Return the seconds until the deadline."""

    @abstractmethod
    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call back when the call is over, in whatever way; return False if it is over already."""

    @abstractmethod
    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status with which the call will end."""

    @abstractmethod
    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Set what will be sent along with the status."""

    @abstractmethod
    def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Send headers before the first message."""

    @abstractmethod
    def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """Leave the handler, and end the call with an error."""

    @abstractmethod
    def receive(self, seconds: float | None) -> bytes:
        """Return the next message of the client if it comes in time.

        Raises StopIteration at the end, RpcError when the client is gone, and ClientSilentError when nothing
        comes in time.
        """

    @abstractmethod
    def stay_open(self) -> None:
        """Let the call go on after its handler, until the client goes away."""

    @abstractmethod
    def post(self, message: bytes) -> None:
        """Have a message of a call that stays open sent soon; may be called from any thread."""

    @abstractmethod
    def post_end(self, code: grpc.StatusCode, details: str) -> None:
        """End a call that stays open, after what was posted before; may be called from any thread."""

    @abstractmethod
    def dismiss(self, code: grpc.StatusCode, details: str) -> None:
        """End the call from any thread; whoever waits for its client learns that it is gone."""

    @abstractmethod
    def take_events(self, seconds: float) -> None:
        """Take what happens to the call, for so long or until nothing more will."""


def common_name(auth_context: Mapping[str | bytes, Sequence[bytes]] | None, key: str | bytes) -> str:
    """Return the common name among what gRPC tells about a connection; empty unless there is one."""
    names = (auth_context or {}).get(key, ())
    try:
        return names[0].decode() if len(names) == 1 else ""
    except UnicodeDecodeError:
        return ""


@dataclass(frozen=True, slots=True)
class CallDetails(grpc.HandlerCallDetails):
    """What a service chooses a handler by; it sets the principal of the call if it knows the caller."""

    method: str
    invocation_metadata: Metadata
    rpc: Rpc
