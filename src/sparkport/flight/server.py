"""The gRPC server's life: bind, serve, drain, stop."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sparkport.flight.auth import Authenticator
from sparkport.flight.direct_server import DirectServer
from sparkport.flight.service import FlightService
from sparkport.flight.site import Site

_FLIGHT = "arrow.flight.protocol.FlightService"
_HEALTH = "/grpc.health.v1.Health/"
_ONLY_UNCOMPRESSED = 1


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one client may cost the server."""

    concurrent_calls: int = 128
    message_bytes: int = 256 << 20  # DuckDB sends 2048 rows at a time, however wide
    header_bytes: int = 64 << 10


class GrpcServer:
    """A Flight service on a port."""

    def __init__(
        self, site: Site, authenticator: Authenticator, host: str, port: int, limits: ServerLimits
    ) -> None:
        # Streams are cut into short turns, or one busy stream delays all small calls.
        sys.setswitchinterval(0.0005)
        self._server = DirectServer(
            limits.concurrent_calls,
            options=[
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", limits.header_bytes),
                ("grpc.absolute_max_metadata_size", limits.header_bytes),
                # gRPC unpacks a message before it looks at its size, or at who sent it.
                ("grpc.compression_enabled_algorithms_bitset", _ONLY_UNCOMPRESSED),
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ],
            always=(_HEALTH,),  # a busy server is not an ill one
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)  # type: ignore[arg-type]
        self._server.add_generic_rpc_handlers((FlightService(site, authenticator),))
        self.port = self._server.add_insecure_port(f"{_bracketed(host)}:{port}")
        self.host = host

    @property
    def location(self) -> str:
        """Where clients find the server."""
        return f"grpc://{_bracketed(self.host)}:{self.port}"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        for service in ("", _FLIGHT):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace_seconds: float) -> threading.Event:
        """Take no new calls, let running ones finish for a while, then cancel them."""
        self._health.enter_graceful_shutdown()
        return self._server.stop(grace_seconds)

    def wait(self) -> None:
        """Return when the server has stopped."""
        self._server.wait()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
