"""Flight's methods over one gRPC channel, with errors translated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc

from sparkport.client.errors import translate
from sparkport.protocol import flight_pb2 as pb

_SERVICE = "/arrow.flight.protocol.FlightService/"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

Headers = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Files in PEM format: whom to trust instead of gRPC's own list, and the client's certificate and key."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set."""
        return self == TlsOptions()

    def credentials(self) -> grpc.ChannelCredentials:
        """Return what a channel needs. Raises OSError for files that cannot be read."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a client certificate and its key go together: give both or neither")
        ca, key, certificate = (_bytes(path) for path in (self.ca, self.key, self.certificate))
        return grpc.ssl_channel_credentials(ca, key, certificate)


class FlightChannel:
    """Raw calls; `location` is `grpc://host:port`, or `grpc+tls://host:port` for an encrypted connection."""

    def __init__(self, location: str, timeout: float | None, tls: TlsOptions | None = None) -> None:
        scheme, separator, target = location.partition("://")
        tls = tls or TlsOptions()
        if not separator or not target or scheme not in {"grpc", "grpc+tcp", "grpc+tls"}:
            raise ValueError(f"a location is grpc://host:port or grpc+tls://host:port, not {location!r}")
        if scheme == "grpc+tls":
            self._channel = grpc.secure_channel(target, tls.credentials(), options=_OPTIONS)
        elif tls.is_empty:
            self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        else:
            # Whoever gives certificates expects encryption, and a token would go out in the clear.
            raise ValueError(f"certificates need a location grpc+tls://host:port, not {location!r}")
        self._timeout = timeout

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def action(self, name: str, body: bytes, headers: Headers) -> list[bytes]:
        """Run an action and return the bodies of its results."""
        request = pb.Action(type=name, body=body).SerializeToString()
        return [pb.Result.FromString(result).body for result in self._read("DoAction", request, headers)]

    def flight_info(self, descriptor: bytes, headers: Headers) -> pb.FlightInfo:
        """Describe a table."""
        (answer,) = self._read("GetFlightInfo", descriptor, headers)
        return pb.FlightInfo.FromString(answer)

    def list_flights(self, headers: Headers) -> Iterator[pb.FlightInfo]:
        """Yield a description of every table."""
        for answer in self._read("ListFlights", pb.Criteria().SerializeToString(), headers):
            yield pb.FlightInfo.FromString(answer)

    def get(self, ticket: bytes, headers: Headers) -> Iterator[bytes]:
        """Yield the frames of a ticket."""
        return self._read("DoGet", pb.Ticket(ticket=ticket).SerializeToString(), headers)

    def put(self, frames: Iterator[bytes], headers: Headers) -> pb.PutResult:
        """Send frames and return the server's one answer."""
        (answer,) = self._stream(frames, headers)
        return pb.PutResult.FromString(answer)

    def _read(self, method: str, request: bytes, headers: Headers) -> Iterator[bytes]:
        # A unary answer is a stream of one: on the wire the two are the same.
        call: grpc.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(_SERVICE + method)
        return _translated(call(request, metadata=headers, timeout=self._timeout))

    def _stream(self, frames: Iterator[bytes], headers: Headers) -> Iterator[bytes]:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(f"{_SERVICE}DoPut")
        return _translated(call(frames, metadata=headers, timeout=self._timeout))


class _Answers(Protocol):
    def __iter__(self) -> Iterator[bytes]: ...

    def cancel(self) -> object: ...


def _bytes(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def _translated(answers: _Answers) -> Iterator[bytes]:
    try:
        yield from answers
    except grpc.RpcError as error:
        raise translate(error) from None
    finally:
        answers.cancel()
