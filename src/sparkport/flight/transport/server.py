"""The gRPC server's life: bind, serve, drain, stop."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import grpc
import structlog

from sparkport.flight.context import ServerContext
from sparkport.flight.transport import health
from sparkport.flight.transport.auth import Authenticator
from sparkport.flight.transport.health import HealthService
from sparkport.flight.transport.limits import ServerLimits, allowed_connections
from sparkport.flight.transport.rpc import Patience
from sparkport.flight.transport.service import FlightService
from sparkport.flight.transport.standard_server import StandardServer
from sparkport.flight.transport.tls import TlsFiles, server_credentials

if TYPE_CHECKING:
    from sparkport.flight.transport.direct_server import DirectServer

_log = structlog.get_logger("sparkport")

_FLIGHT = "arrow.flight.protocol.FlightService"
_ONLY_UNCOMPRESSED = 1
_HANDSHAKE_SECONDS = 10
_MAX_INT32 = (1 << 31) - 1
# Calls over the limit are refused by the server, which says why. gRPC itself refuses without a word, and
# counts calls as open for a while that the client has seen the end of.
_STREAMS_PER_CALL = 2
_SPARE_STREAMS = 1024
# `direct_server` needs classes of gRPC that are not public and may change with any release.
_TRIED = ((1, 80), (1, 85))
_CHOICE = "SPARKPORT_GRPC_SERVER"


class GrpcServer:
    """A Flight service on a port."""

    def __init__(
        self,
        context: ServerContext,
        authenticator: Authenticator,
        host: str,
        port: int,
        limits: ServerLimits,
        tls: TlsFiles | None = None,
    ) -> None:
        """Bind to the port. Raises OSError, and ConfigError for certificates that cannot be used."""
        # Streams are cut into short turns, or one busy stream delays all small calls.
        sys.setswitchinterval(0.0005)
        self._server = _server_class()(
            limits.calls,
            _options(limits),
            patience=Patience(limits.request_seconds, limits.stream_idle_seconds),
            always=(health.PREFIX,),  # a busy server is not an ill one
        )
        self._health = HealthService(("", _FLIGHT))
        self._server.add_generic_rpc_handlers((self._health,))
        knows_certificates = tls is not None and tls.client_ca is not None
        service = FlightService(context, authenticator, knows_certificates=knows_certificates)
        self._server.add_generic_rpc_handlers((service,))
        credentials = None if tls is None else server_credentials(tls)
        self.port = self._server.add_port(f"{_bracketed(host)}:{port}", credentials)
        self.host = host
        self._scheme = "grpc" if tls is None else "grpc+tls"
        _check_files(limits)

    @property
    def location(self) -> str:
        """Where clients find the server."""
        return f"{self._scheme}://{_bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        self._health.set(is_serving=True)

    def stop(self, grace_seconds: float) -> threading.Event:
        """Take no new calls, let running ones finish for a while, then cancel them."""
        self._health.stop()
        return self._server.stop(grace_seconds)

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._server.wait()


def _server_class() -> type[DirectServer | StandardServer]:
    """Return the server for this version of gRPC: our own, or the slower one that is gRPC's."""
    if not _takes_direct(os.environ.get(_CHOICE, "auto")):
        return StandardServer
    # Where gRPC has changed, it may not even be possible to import it.
    from sparkport.flight.transport.direct_server import DirectServer  # noqa: PLC0415

    return DirectServer


def _takes_direct(choice: str) -> bool:
    if choice not in {"auto", "direct", "standard"}:
        raise ValueError(f"{_CHOICE} is 'auto', 'direct' or 'standard', not {choice!r}")
    if choice != "auto":
        return choice == "direct"
    oldest, newest = _TRIED
    if oldest <= tuple(int(part) for part in grpc.__version__.split(".")[:2]) <= newest:
        return True
    _log.warning(
        f"grpcio {grpc.__version__} is not one of the versions {'.'.join(map(str, oldest))} to"
        f" {'.'.join(map(str, newest))} that sparkport's own gRPC server was tried with: using that of gRPC,"
        " which answers small calls at half the speed"
    )
    return False


def _check_files(limits: ServerLimits) -> None:
    connections = allowed_connections(limits)
    if connections < limits.connections:
        _log.warning(
            f"this process may open few files: at most {connections} connections are accepted"
            f" instead of {limits.connections}; `ulimit -n {2 * limits.connections}` would do"
        )


def _options(limits: ServerLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        # gRPC unpacks a message before it looks at its size, or at who sent it.
        ("grpc.compression_enabled_algorithms_bitset", _ONLY_UNCOMPRESSED),
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        (
            "grpc.max_concurrent_streams",
            _STREAMS_PER_CALL * limits.calls.calls_per_connection + _SPARE_STREAMS,
        ),
        ("grpc.max_allowed_incoming_connections", allowed_connections(limits)),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_SECONDS * 1000),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.connection_idle_seconds)),
        # The grace after the age is endless unless it is set, so that long streams are not cut.
        ("grpc.max_connection_age_ms", _milliseconds(limits.connection_age_seconds)),
    ]


def _milliseconds(seconds: float) -> int:
    return min(int(seconds * 1000), _MAX_INT32)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
